// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/signals.h"

#include <csignal>
#include <cstdio>
#include <ctime>
#include <thread>
#include <unistd.h>
#include <utility>

namespace cli {

std::stop_token stopOnSignals(int graceMs)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN); // a closed pipe is a write error, not a sudden death
    std::signal(SIGXFSZ, SIG_IGN); // and so is a limit on the size of files

    std::stop_source source;
    std::stop_token token = source.get_token();
    std::thread([signals, graceMs, source = std::move(source)]() mutable {
        int number = 0;
        sigwait(&signals, &number);
        source.request_stop();
        const timespec grace{graceMs / 1000, (graceMs % 1000) * 1'000'000L};
        sigtimedwait(&signals, nullptr, &grace);
        std::fflush(stdout);
        _exit(130);
    }).detach();
    return token;
}

} // namespace cli
