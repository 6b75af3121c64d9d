// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/quit_signals.h"

#include <QSocketNotifier>

#include <csignal>
#include <sys/socket.h>
#include <unistd.h>

namespace ui {

namespace {

constexpr int handled[] = {SIGINT, SIGTERM, SIGHUP};
int channel[2] = {-1, -1}; // a handler may only write to a descriptor

void forward(int)
{
    const char byte = 1;
    [[maybe_unused]] const auto written = ::write(channel[0], &byte, 1);
}

} // namespace

QuitSignals::QuitSignals(QObject *parent)
    : QObject(parent)
{
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0) {
        qWarning("signals end the program without saving: no socket pair");
        return;
    }
    m_notifier = new QSocketNotifier(channel[1], QSocketNotifier::Read, this);
    connect(m_notifier, &QSocketNotifier::activated, this, [this] {
        char byte = 0;
        if (::read(channel[1], &byte, 1) == 1)
            emit received();
    });
    for (const int signal : handled)
        std::signal(signal, forward);
}

QuitSignals::~QuitSignals()
{
    for (const int signal : handled)
        std::signal(signal, SIG_DFL);
    for (int &descriptor : channel) {
        if (descriptor >= 0)
            ::close(descriptor);
        descriptor = -1;
    }
}

} // namespace ui
