// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/worker/worker_channel.h"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace engine {

namespace {

struct Head {
    std::uint64_t bytes = 0;
    WorkerCall call = WorkerCall::Done;
    std::uint32_t mark = 0;
};

constexpr std::uint32_t headMark = 0x4c746857;              // whoever sends another one is no worker
constexpr std::uint64_t mostBytes = std::uint64_t{1} << 36; // beyond all logits of a step

} // namespace

void WorkerChannel::close()
{
    if (m_descriptor >= 0)
        (void)::close(std::exchange(m_descriptor, -1));
}

bool WorkerChannel::writeAll(const void *source, std::size_t bytes) const
{
    const char *at = static_cast<const char *>(source);
    while (bytes > 0) {
        const ssize_t written = ::send(m_descriptor, at, bytes, MSG_NOSIGNAL);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        at += written;
        bytes -= static_cast<std::size_t>(written);
    }
    return true;
}

bool WorkerChannel::readAll(void *target, std::size_t bytes) const
{
    char *at = static_cast<char *>(target);
    while (bytes > 0) {
        const ssize_t got = ::recv(m_descriptor, at, bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        bytes -= static_cast<std::size_t>(got);
    }
    return true;
}

bool WorkerChannel::send(WorkerCall call, std::span<const std::byte> bytes)
{
    const Head head{bytes.size(), call, headMark};
    return writeAll(&head, sizeof head) && writeAll(bytes.data(), bytes.size());
}

std::optional<WorkerMessage> WorkerChannel::receive()
{
    Head head;
    if (!readAll(&head, sizeof head) || head.mark != headMark || head.bytes > mostBytes)
        return std::nullopt;
    WorkerMessage message{head.call, std::vector<std::byte>(static_cast<std::size_t>(head.bytes))};
    if (!readAll(message.bytes.data(), message.bytes.size()))
        return std::nullopt;
    return message;
}

bool WorkerChannel::waitReadable(std::chrono::milliseconds time) const
{
    pollfd one{m_descriptor, POLLIN, 0};
    return ::poll(&one, 1, static_cast<int>(time.count())) != 0;
}

} // namespace engine
