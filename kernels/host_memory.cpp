// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"

#include <fstream>
#include <limits>
#include <new>
#include <string>
#include <sys/mman.h>

namespace kernels {

namespace {

class HostStream final : public Stream {
public:
    void synchronize() override { }
};

/// Fresh pages of the system: zero, aligned to a page, and resident only once touched.
class HostBuffer final : public Buffer {
public:
    HostBuffer(std::byte *data, std::size_t bytes)
        : m_data(data)
        , m_bytes(bytes)
    {
    }
    ~HostBuffer() override { munmap(m_data, std::max<std::size_t>(m_bytes, 1)); }
    HostBuffer(const HostBuffer &) = delete;
    HostBuffer &operator=(const HostBuffer &) = delete;
    std::byte *data() override { return m_data; }
    std::size_t bytes() const override { return m_bytes; }

private:
    std::byte *m_data;
    std::size_t m_bytes;
};

[[noreturn]] void failMemory(std::size_t bytes, std::size_t available)
{
    throw Error(ErrorCode::OutOfMemory,
                "not enough memory: " + std::to_string(bytes) + " bytes asked for, " + std::to_string(available)
                    + " free");
}

} // namespace

std::size_t availableHostBytes()
{
    std::ifstream file("/proc/meminfo");
    std::string key;
    std::size_t kibibytes = 0;
    std::string unit;
    while (file >> key >> kibibytes) {
        if (key == "MemAvailable:")
            return kibibytes * 1024;
        std::getline(file, unit);
    }
    return std::numeric_limits<std::size_t>::max();
}

std::unique_ptr<Buffer> allocateHost(std::size_t bytes)
{
    // The system promises more than it has; without this look the process would be killed later, in a step.
    const std::size_t available = availableHostBytes();
    if (bytes > available)
        failMemory(bytes, available);
    void *data =
        mmap(nullptr, std::max<std::size_t>(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        failMemory(bytes, available);
    return std::make_unique<HostBuffer>(static_cast<std::byte *>(data), bytes);
}

std::unique_ptr<Stream> makeHostStream()
{
    return std::make_unique<HostStream>();
}

} // namespace kernels
