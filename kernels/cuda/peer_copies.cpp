// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/peer_copies.h"

#include "kernels/error.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

namespace kernels::cuda {

namespace {

/// \throws Error Internal
void check(Driver &driver, int error, const char *what)
{
    if (error != 0)
        throw Error(ErrorCode::Internal, std::string(what) + ": " + driver.errorText(error));
}

/// Memory of one device.
class PeerMemory {
public:
    PeerMemory(Driver &driver, int device, std::size_t bytes)
        : m_driver(driver)
        , m_device(device)
    {
        check(driver, driver.useDevice(device), "the device cannot be used");
        check(driver, driver.allocate(m_memory, bytes), "it gives no memory");
    }
    ~PeerMemory()
    {
        if (m_driver.useDevice(m_device) == 0)
            m_driver.free(m_memory);
    }
    PeerMemory(const PeerMemory &) = delete;
    PeerMemory &operator=(const PeerMemory &) = delete;

    [[nodiscard]] void *data() const { return m_memory; }

private:
    Driver &m_driver;
    int m_device;
    void *m_memory = nullptr;
};

/// Bytes a second, best of several.
double measure(Driver &driver, const PeerMemory &from, const PeerMemory &to, std::size_t bytes)
{
    constexpr int passes = 4;
    double most = 0;
    for (int pass = 0; pass <= passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        check(driver, driver.copyNow(from.data(), to.data(), bytes), "the copy failed");
        check(driver, driver.synchronizeDevice(), "the copy failed");
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (pass > 0) // the first one opens the way
            most = std::max(most, static_cast<double>(bytes) / std::max(taken.count(), 1e-9));
    }
    return most;
}

/// Numbers that tell each place of each pair.
std::vector<std::uint32_t> numbersFor(int from, int to, std::size_t bytes)
{
    std::vector<std::uint32_t> numbers(bytes / sizeof(std::uint32_t));
    for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<std::uint32_t>(i * 2654435761U) ^ static_cast<std::uint32_t>(from * 256 + to);
    return numbers;
}

void tryCopy(Driver &driver, std::size_t bytes, PeerCopy &copy)
{
    const PeerMemory target(driver, copy.to, bytes);
    const PeerMemory source(driver, copy.from, bytes); // in use from here on
    check(driver, driver.canReach(copy.from, copy.to, copy.direct), "whether they reach each other is not told");
    if (copy.direct)
        check(driver, driver.reach(copy.to), "the way to the other device cannot be opened");
    const std::vector<std::uint32_t> sent = numbersFor(copy.from, copy.to, bytes);
    check(driver, driver.copyNow(sent.data(), source.data(), bytes), "the copy from the host failed");
    copy.gbps = measure(driver, source, target, bytes) / 1e9;
    std::vector<std::uint32_t> arrived(sent.size());
    check(driver, driver.copyNow(target.data(), arrived.data(), bytes), "the copy to the host failed");
    const auto wrong = std::mismatch(sent.begin(), sent.end(), arrived.begin());
    if (wrong.first != sent.end())
        copy.problem = "byte " + std::to_string((wrong.first - sent.begin()) * 4) + " of " + std::to_string(bytes)
            + " did not arrive as it was sent";
}

} // namespace

std::vector<PeerCopy> tryPeerCopies(Driver &driver, const std::vector<int> &devices, std::size_t bytes)
{
    std::vector<PeerCopy> copies;
    for (const int from : devices) {
        for (const int to : devices) {
            if (from == to)
                continue;
            PeerCopy &copy = copies.emplace_back();
            copy.from = from;
            copy.to = to;
            try {
                tryCopy(driver, bytes, copy);
            } catch (const Error &error) {
                copy.problem = error.what();
            }
        }
    }
    return copies;
}

} // namespace kernels::cuda
