// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <stop_token>

namespace cli {

/// Turns SIGINT and SIGTERM into a stop request. If the program has not ended `graceMs` after the first signal
/// (it may sit in a read of standard input), or on a second signal, the process leaves with 130 at once.
/// Call before any other thread is started: the signals are blocked in this thread and all later ones.
[[nodiscard]] std::stop_token stopOnSignals(int graceMs);

} // namespace cli
