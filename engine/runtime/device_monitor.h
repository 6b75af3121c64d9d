// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "engine/runtime/nvml.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace engine {

/// Where the monitor looks; tests point it at made-up trees and a scripted library.
struct DeviceSources {
    std::string nvmlLibrary = "libnvidia-ml.so.1";
    std::string proc = "/proc";
    std::string sys = "/sys";
};

/// Degrees Celsius of the host CPU; empty without a sensor. `sys` is where the kernel's tree is mounted.
[[nodiscard]] std::optional<double> cpuTemperature(const std::string &sys = "/sys");

/// Reads the sensors of the host CPU and of every NVIDIA GPU. Rates (utilisation, CPU power) are means since the
/// previous reading and absent in the first one. Thread: one caller.
class DeviceMonitor {
public:
    explicit DeviceMonitor(DeviceSources sources = {});
    /// The CPU first, then GPUs by index.
    [[nodiscard]] std::vector<DeviceStats> read();

private:
    struct CpuTimes {
        std::uint64_t busy = 0;
        std::uint64_t total = 0;
    };
    [[nodiscard]] DeviceStats readCpu();
    void readMemory(DeviceStats &cpu) const;
    void readUtilization(DeviceStats &cpu);
    void readTemperature(DeviceStats &cpu) const;
    void readPower(DeviceStats &cpu);
    void readClock(DeviceStats &cpu) const;

    DeviceSources m_sources;
    Nvml m_nvml;
    std::optional<CpuTimes> m_lastTimes;
    std::optional<double> m_lastEnergyJ;
    std::chrono::steady_clock::time_point m_lastEnergyAt;
};

} // namespace engine
