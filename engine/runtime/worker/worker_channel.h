// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/worker/worker_messages.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace engine {

struct WorkerMessage {
    WorkerCall call = WorkerCall::Done;
    std::vector<std::byte> bytes;
};

/// One end of the socket between an engine and its worker. Whatever goes wrong with it means that the other side is
/// gone. Thread: one caller.
class WorkerChannel {
public:
    /// Takes the descriptor of a connected stream socket.
    explicit WorkerChannel(int descriptor)
        : m_descriptor(descriptor)
    {
    }
    ~WorkerChannel() { close(); }
    WorkerChannel(const WorkerChannel &) = delete;
    WorkerChannel &operator=(const WorkerChannel &) = delete;

    /// Whether all of it was handed over.
    bool send(WorkerCall call, std::span<const std::byte> bytes);
    /// The next message; nothing when the other side is gone.
    [[nodiscard]] std::optional<WorkerMessage> receive();
    /// Whether receive() would have something to read, or an end to tell of, within that time.
    [[nodiscard]] bool waitReadable(std::chrono::milliseconds time) const;
    void close();

private:
    bool readAll(void *target, std::size_t bytes) const;
    bool writeAll(const void *source, std::size_t bytes) const;

    int m_descriptor;
};

} // namespace engine
