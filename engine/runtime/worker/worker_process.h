// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/worker/worker_channel.h"

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace engine {

/// The descriptor that a worker finds its end of the socket under.
inline constexpr int workerDescriptor = 3;

/// A worker and the way to it. Thread: one caller.
class WorkerProcess {
public:
    /// \throws Error NoDevice naming the program when it cannot be started
    explicit WorkerProcess(const std::vector<std::string> &command);
    /// Ends it.
    ~WorkerProcess();
    WorkerProcess(const WorkerProcess &) = delete;
    WorkerProcess &operator=(const WorkerProcess &) = delete;

    [[nodiscard]] WorkerChannel &channel() { return *m_channel; }
    /// Lets it end, by force after two seconds, so that its device is free; how it ended, as "with signal 11" or "with
    /// exit code 1". Only once.
    std::string end();

private:
    std::unique_ptr<WorkerChannel> m_channel;
    pid_t m_pid = -1;
};

} // namespace engine
