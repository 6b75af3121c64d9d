// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/device_monitor.h"

#include "engine/api/engine.h"
#include "kernels/gpus.h"
#include "kernels/ops.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace engine {
namespace {

namespace fs = std::filesystem;

/// Long enough for the kernel's 10 ms ticks to say something about utilisation.
constexpr std::chrono::milliseconds FirstInterval{120};

std::optional<double> numberIn(const fs::path &file)
{
    std::ifstream stream(file);
    double value = 0;
    if (stream >> value)
        return value;
    return std::nullopt;
}

std::string textIn(const fs::path &file)
{
    std::ifstream stream(file);
    std::string text;
    std::getline(stream, text);
    return text;
}

/// The value of the first `key: value` line of a /proc file.
std::string field(const fs::path &file, const std::string &key)
{
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);) {
        const auto colon = line.find(':');
        if (!line.starts_with(key) || colon == std::string::npos)
            continue;
        const auto begin = line.find_first_not_of(" \t", colon + 1);
        return begin == std::string::npos ? std::string() : line.substr(begin);
    }
    return {};
}

std::vector<fs::path> entries(const fs::path &folder)
{
    std::vector<fs::path> paths;
    std::error_code error;
    for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
        paths.push_back(it->path());
    std::sort(paths.begin(), paths.end());
    return paths;
}

void addProblem(DeviceStats &stats, const std::string &problem)
{
    stats.problem += (stats.problem.empty() ? "" : "; ") + problem;
}

std::optional<std::size_t> kibibytes(const std::string &text)
{
    std::istringstream stream(text);
    std::size_t value = 0;
    if (stream >> value)
        return value * 1024U;
    return std::nullopt;
}

} // namespace

DeviceMonitor::DeviceMonitor(DeviceSources sources)
    : m_sources(std::move(sources))
    , m_nvml(m_sources.nvmlLibrary)
{
}

std::vector<DeviceStats> DeviceMonitor::read()
{
    std::vector<DeviceStats> devices{readCpu()};
    for (DeviceStats &gpu : m_nvml.read())
        devices.push_back(std::move(gpu));
    if (!m_nvml.problem().empty())
        addProblem(devices.front(), "GPU: " + m_nvml.problem());
    return devices;
}

DeviceStats DeviceMonitor::readCpu()
{
    DeviceStats cpu;
    cpu.id = "cpu";
    cpu.kind = "cpu";
    cpu.name = field(m_sources.proc + "/cpuinfo", "model name");
    if (cpu.name.empty())
        cpu.name = "CPU";
    cpu.isa = kernels::availableIsaLevels();
    readMemory(cpu);
    readUtilization(cpu);
    readTemperature(cpu);
    readPower(cpu);
    readClock(cpu);
    return cpu;
}

void DeviceMonitor::readMemory(DeviceStats &cpu) const
{
    cpu.memoryTotalBytes = kibibytes(field(m_sources.proc + "/meminfo", "MemTotal"));
    cpu.memoryFreeBytes = kibibytes(field(m_sources.proc + "/meminfo", "MemAvailable"));
    if (!cpu.memoryTotalBytes)
        addProblem(cpu, "memory: " + m_sources.proc + "/meminfo is not readable");
}

void DeviceMonitor::readUtilization(DeviceStats &cpu)
{
    std::ifstream stream(m_sources.proc + "/stat");
    std::string label;
    stream >> label;
    CpuTimes now;
    std::uint64_t value = 0;
    constexpr int Idle = 3, IoWait = 4, Steal = 7; // columns of proc(5), counted from user
    for (int column = 0; column <= Steal && stream >> value; ++column) {
        now.total += value;
        now.busy += column == Idle || column == IoWait ? 0 : value;
    }
    if (label != "cpu" || now.total == 0) {
        addProblem(cpu, "utilisation: " + m_sources.proc + "/stat is not readable");
        return;
    }
    if (m_lastTimes && now.total > m_lastTimes->total)
        cpu.utilization =
            static_cast<double>(now.busy - m_lastTimes->busy) / static_cast<double>(now.total - m_lastTimes->total);
    m_lastTimes = now;
}

std::optional<double> cpuTemperature(const std::string &sys)
{
    for (const fs::path &sensor : entries(sys + "/class/hwmon")) {
        const std::string name = textIn(sensor / "name");
        if (name != "coretemp" && name != "k10temp" && name != "zenpower" && name != "cpu_thermal")
            continue;
        if (const auto millidegrees = numberIn(sensor / "temp1_input"))
            return *millidegrees / 1000.0;
    }
    return std::nullopt;
}

void DeviceMonitor::readTemperature(DeviceStats &cpu) const
{
    cpu.temperatureC = cpuTemperature(m_sources.sys);
    if (cpu.temperatureC)
        return;
    addProblem(cpu, "temperature: no CPU sensor under " + m_sources.sys + "/class/hwmon");
}

void DeviceMonitor::readPower(DeviceStats &cpu)
{
    double joules = 0;
    bool found = false;
    for (const fs::path &zone : entries(m_sources.sys + "/class/powercap")) {
        if (!textIn(zone / "name").starts_with("package"))
            continue;
        if (const auto microjoules = numberIn(zone / "energy_uj")) {
            joules += *microjoules / 1e6;
            found = true;
        }
    }
    if (!found) {
        addProblem(cpu, "power: no readable energy counter under " + m_sources.sys + "/class/powercap");
        return;
    }
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> elapsed = now - m_lastEnergyAt;
    // The counter wraps every few minutes to hours; that one reading is left out.
    if (m_lastEnergyJ && joules >= *m_lastEnergyJ && elapsed.count() > 0)
        cpu.powerW = (joules - *m_lastEnergyJ) / elapsed.count();
    m_lastEnergyJ = joules;
    m_lastEnergyAt = now;
}

void DeviceMonitor::readClock(DeviceStats &cpu) const
{
    if (const auto kilohertz = numberIn(m_sources.sys + "/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq")) {
        cpu.clockMhz = *kilohertz / 1000.0;
        return;
    }
    std::istringstream text(field(m_sources.proc + "/cpuinfo", "cpu MHz"));
    double megahertz = 0;
    if (text >> megahertz)
        cpu.clockMhz = megahertz;
    else
        addProblem(cpu, "clock: neither cpufreq nor cpuinfo tells it");
}

std::vector<DeviceStats> readDevices()
{
    DeviceMonitor monitor;
    static_cast<void>(monitor.read());
    std::this_thread::sleep_for(FirstInterval);
    std::vector<DeviceStats> devices = monitor.read();
    const kernels::GpuList gpus = kernels::listGpus();
    for (std::size_t i = 1; i < devices.size(); ++i) { // the CPU is the first
        const std::string &problem = i <= gpus.problems.size() ? gpus.problems[i - 1] : gpus.problem;
        if (!problem.empty())
            addProblem(devices[i], "cannot compute: " + problem);
    }
    if (devices.size() == 1 && !gpus.problem.empty())
        addProblem(devices.front(), "GPU: " + gpus.problem);
    return devices;
}

} // namespace engine
