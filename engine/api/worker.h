// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace engine {

/// How this program is started as a worker: a process that holds a model on a device for an engine in another one, so
/// that a fault which a process cannot outlive ends no request. For makeEngine, in programs whose main begins with
/// runAsWorker.
[[nodiscard]] std::vector<std::string> ownWorkerCommand();

/// Does a worker's work where the command line asks for it, until the engine is done with it. Returns the exit code, or
/// nothing when this is no worker. Thread: the first, before there are others.
[[nodiscard]] std::optional<int> runAsWorker(int argc, char **argv);

} // namespace engine
