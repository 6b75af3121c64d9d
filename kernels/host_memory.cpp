// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"
#include "kernels/host_pages.h"

#include <fstream>
#include <limits>
#include <string>

namespace kernels {

namespace {

class HostStream final : public Stream {
public:
    void synchronize() override { }
};

class HostBuffer final : public Buffer {
public:
    explicit HostBuffer(std::size_t bytes)
        : m_pages(bytes)
        , m_bytes(bytes)
    {
    }
    std::byte *data() override { return m_pages.data(); }
    std::size_t bytes() const override { return m_bytes; }

private:
    HostPages m_pages;
    std::size_t m_bytes;
};

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
        throw Error(ErrorCode::OutOfMemory,
                    "not enough memory: " + std::to_string(bytes) + " bytes asked for, " + std::to_string(available)
                        + " free");
    return std::make_unique<HostBuffer>(bytes);
}

std::unique_ptr<Stream> makeHostStream()
{
    return std::make_unique<HostStream>();
}

} // namespace kernels
