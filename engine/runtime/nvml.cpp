// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/nvml.h"

#include <array>
#include <dlfcn.h>

namespace engine {
namespace {

using Result = int; // nvmlReturn_t; 0 is success
using Device = void *;

struct MemoryInfo {
    unsigned long long total = 0, free = 0, used = 0;
};
struct Utilization {
    unsigned gpu = 0, memory = 0; // percent
};

constexpr int TemperatureGpu = 0; // NVML_TEMPERATURE_GPU
constexpr int ClockSm = 1;        // NVML_CLOCK_SM
constexpr int ClockMemory = 2;    // NVML_CLOCK_MEM

} // namespace

struct Nvml::Library {
    void *handle = nullptr;
    bool started = false;
    Result (*init)() = nullptr;
    Result (*shutdown)() = nullptr;
    const char *(*errorString)(Result) = nullptr;
    Result (*driverVersion)(char *, unsigned) = nullptr;
    Result (*count)(unsigned *) = nullptr;
    Result (*handleByIndex)(unsigned, Device *) = nullptr;
    Result (*name)(Device, char *, unsigned) = nullptr;
    Result (*memory)(Device, MemoryInfo *) = nullptr;
    Result (*temperature)(Device, int, unsigned *) = nullptr;
    Result (*power)(Device, unsigned *) = nullptr;
    Result (*powerLimit)(Device, unsigned *) = nullptr;
    Result (*utilization)(Device, Utilization *) = nullptr;
    Result (*clock)(Device, int, unsigned *) = nullptr;

    ~Library()
    {
        if (started && shutdown)
            shutdown();
        if (handle)
            dlclose(handle);
    }

    template<typename Function> void find(Function &function, const char *symbol) const
    {
        function = reinterpret_cast<Function>(dlsym(handle, symbol));
    }

    void findAll()
    {
        find(init, "nvmlInit_v2");
        find(shutdown, "nvmlShutdown");
        find(errorString, "nvmlErrorString");
        find(driverVersion, "nvmlSystemGetDriverVersion");
        find(count, "nvmlDeviceGetCount_v2");
        find(handleByIndex, "nvmlDeviceGetHandleByIndex_v2");
        find(name, "nvmlDeviceGetName");
        find(memory, "nvmlDeviceGetMemoryInfo");
        find(temperature, "nvmlDeviceGetTemperature");
        find(power, "nvmlDeviceGetPowerUsage");
        find(powerLimit, "nvmlDeviceGetEnforcedPowerLimit");
        find(utilization, "nvmlDeviceGetUtilizationRates");
        find(clock, "nvmlDeviceGetClockInfo");
    }

    [[nodiscard]] std::string reason(Result result) const
    {
        return errorString ? errorString(result) : "NVML error " + std::to_string(result);
    }

    /// Calls one getter; a missing function or an error goes to `problem` under `what`.
    template<typename Function, typename... Arguments>
    bool get(Function function, const char *what, std::string &problem, Arguments... arguments) const
    {
        const std::string why = !function ? "not in this driver" : [&] {
            const Result result = function(arguments...);
            return result == 0 ? std::string() : reason(result);
        }();
        if (why.empty())
            return true;
        problem += (problem.empty() ? "" : "; ") + std::string(what) + ": " + why;
        return false;
    }
};

Nvml::Nvml(const std::string &library)
    : m_library(std::make_unique<Library>())
{
    m_library->handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!m_library->handle) {
        m_problem = "no NVIDIA driver (" + library + " was not found)";
        return;
    }
    m_library->findAll();
    if (!m_library->init || !m_library->count || !m_library->handleByIndex) {
        m_problem = library + " lacks nvmlInit_v2, nvmlDeviceGetCount_v2 or nvmlDeviceGetHandleByIndex_v2";
        return;
    }
    const Result result = m_library->init();
    if (result != 0) {
        m_problem = "NVML did not start: " + m_library->reason(result);
        return;
    }
    m_library->started = true;
}

Nvml::~Nvml() = default;

std::vector<DeviceStats> Nvml::read()
{
    std::vector<DeviceStats> devices;
    if (!m_library->started)
        return devices;
    unsigned count = 0;
    m_problem.clear();
    if (m_library->get(m_library->count, "GPUs", m_problem, &count))
        for (unsigned index = 0; index < count; ++index)
            devices.push_back(readDevice(index));
    return devices;
}

DeviceStats Nvml::readDevice(unsigned index)
{
    DeviceStats stats;
    stats.id = "cuda:" + std::to_string(index);
    stats.kind = "cuda";
    stats.name = "NVIDIA GPU " + std::to_string(index);
    const Library &nvml = *m_library;
    Device device = nullptr;
    if (!nvml.get(nvml.handleByIndex, "device", stats.problem, index, &device))
        return stats;

    std::array<char, 96> text{};
    if (nvml.get(nvml.name, "name", stats.problem, device, text.data(), static_cast<unsigned>(text.size() - 1)))
        stats.name = text.data();
    text.fill('\0');
    if (nvml.get(nvml.driverVersion, "driver version", stats.problem, text.data(),
                 static_cast<unsigned>(text.size() - 1)))
        stats.driver = text.data();
    if (MemoryInfo memory; nvml.get(nvml.memory, "memory", stats.problem, device, &memory)) {
        stats.memoryTotalBytes = memory.total;
        stats.memoryFreeBytes = memory.free;
    }
    unsigned value = 0;
    if (nvml.get(nvml.temperature, "temperature", stats.problem, device, TemperatureGpu, &value))
        stats.temperatureC = value;
    if (nvml.get(nvml.power, "power", stats.problem, device, &value))
        stats.powerW = value / 1000.0;
    if (nvml.get(nvml.powerLimit, "power limit", stats.problem, device, &value))
        stats.powerLimitW = value / 1000.0;
    if (Utilization use; nvml.get(nvml.utilization, "utilisation", stats.problem, device, &use))
        stats.utilization = use.gpu / 100.0;
    if (nvml.get(nvml.clock, "clock", stats.problem, device, ClockSm, &value))
        stats.clockMhz = value;
    if (nvml.get(nvml.clock, "memory clock", stats.problem, device, ClockMemory, &value))
        stats.memoryClockMhz = value;
    return stats;
}

} // namespace engine
