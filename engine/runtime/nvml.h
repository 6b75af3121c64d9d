// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"

#include <memory>
#include <string>
#include <vector>

namespace engine {

/// NVIDIA's management library, found at run time; the program neither links nor needs it.
/// Thread: one caller. Source: NVML API reference; the toolkit has no header for it.
class Nvml {
public:
    /// Opens `library`; when it or the driver is missing, problem() says so and read() is empty.
    explicit Nvml(const std::string &library);
    ~Nvml();
    Nvml(const Nvml &) = delete;
    Nvml &operator=(const Nvml &) = delete;

    /// One reading of every GPU; figures that the driver does not give are absent, with the reason in `problem`.
    [[nodiscard]] std::vector<DeviceStats> read();
    [[nodiscard]] const std::string &problem() const { return m_problem; }

private:
    struct Library;
    [[nodiscard]] DeviceStats readDevice(unsigned index);
    void readMemoryTemperature(void *device, DeviceStats &stats) const;
    void readLink(void *device, DeviceStats &stats) const;
    void readXid(void *device, DeviceStats &stats);

    std::unique_ptr<Library> m_library;
    std::string m_problem;
};

} // namespace engine
