// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/suspend_watch.h"

#include <QDBusConnection>

namespace ui {

SuspendWatch::SuspendWatch(QObject *parent)
    : QObject(parent)
{
    QDBusConnection bus = QDBusConnection::systemBus();
    if (!bus.isConnected())
        return; // no logind, no such signal
    bus.connect(QStringLiteral("org.freedesktop.login1"), QStringLiteral("/org/freedesktop/login1"),
                QStringLiteral("org.freedesktop.login1.Manager"), QStringLiteral("PrepareForSleep"), this,
                SLOT(prepareForSleep(bool)));
}

void SuspendWatch::prepareForSleep(bool sleeping)
{
    if (sleeping)
        emit aboutToSleep();
}

} // namespace ui
