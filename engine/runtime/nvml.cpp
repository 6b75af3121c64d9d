// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/nvml.h"

#include "kernels/shared_library.h"

#include <array>
#include <map>
#include <utility>

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

/// nvmlFieldValue_t
struct FieldValue {
    unsigned field = 0;
    unsigned scope = 0;
    long long timestamp = 0;
    long long latency = 0;
    int type = 0;
    Result result = 0;
    union {
        unsigned asUnsigned;
        unsigned long long asLong;
    } value{};
};
/// nvmlEventData_t
struct EventData {
    Device device = nullptr;
    unsigned long long type = 0;
    unsigned long long data = 0;
    unsigned gpuInstance = 0;
    unsigned computeInstance = 0;
};

constexpr int TemperatureGpu = 0;               // NVML_TEMPERATURE_GPU
constexpr int ClockSm = 1;                      // NVML_CLOCK_SM
constexpr int ClockMemory = 2;                  // NVML_CLOCK_MEM
constexpr unsigned FieldMemoryTemperature = 82; // NVML_FI_DEV_MEMORY_TEMP
constexpr int PcieSend = 0;                     // NVML_PCIE_UTIL_TX_BYTES
constexpr int PcieReceive = 1;                  // NVML_PCIE_UTIL_RX_BYTES
constexpr int EccUncorrected = 1;               // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr int EccSinceDriverStart = 0;          // NVML_VOLATILE_ECC
constexpr unsigned long long EventXid = 8;      // nvmlEventTypeXidCriticalError

/// Bits of nvmlDeviceGetCurrentClocksEventReasons that lower the clocks; idling and settings of the user do not count.
constexpr std::pair<unsigned long long, const char *> Throttles[] = {{0x4, "power limit"},
                                                                     {0x8, "hardware slowdown"},
                                                                     {0x20, "software thermal slowdown"},
                                                                     {0x40, "hardware thermal slowdown"},
                                                                     {0x80, "power brake"}};

std::vector<std::string> throttleReasons(unsigned long long bits)
{
    std::vector<std::string> reasons;
    for (const auto &[bit, reason] : Throttles)
        if ((bits & bit) != 0)
            reasons.emplace_back(reason);
    return reasons;
}

} // namespace

struct Nvml::Library {
    kernels::SharedLibrary file;
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
    Result (*fields)(Device, int, FieldValue *) = nullptr;
    Result (*pcieThroughput)(Device, int, unsigned *) = nullptr;
    Result (*pcieGeneration)(Device, unsigned *) = nullptr;
    Result (*pcieLanes)(Device, unsigned *) = nullptr;
    Result (*clockReasons)(Device, unsigned long long *) = nullptr;
    Result (*eccErrors)(Device, int, int, unsigned long long *) = nullptr;
    Result (*makeEvents)(void **) = nullptr;
    Result (*registerEvents)(Device, unsigned long long, void *) = nullptr;
    Result (*waitEvents)(void *, EventData *, unsigned) = nullptr;
    Result (*freeEvents)(void *) = nullptr;
    void *events = nullptr;
    std::map<Device, Result> watched; // what the driver said to events of each device
    std::map<Device, int> xids;

    ~Library()
    {
        if (events && freeEvents)
            freeEvents(events);
        if (started && shutdown)
            shutdown();
    }

    /// Figures whose function is missing are absent.
    [[nodiscard]] bool open(const std::string &path)
    {
        constexpr bool optional = false;
        return file.open(
            "NVML", {&path, 1},
            {
                {"nvmlInit_v2", init},
                {"nvmlShutdown", shutdown, optional},
                {"nvmlErrorString", errorString, optional},
                {"nvmlSystemGetDriverVersion", driverVersion, optional},
                {"nvmlDeviceGetCount_v2", count},
                {"nvmlDeviceGetHandleByIndex_v2", handleByIndex},
                {"nvmlDeviceGetName", name, optional},
                {"nvmlDeviceGetMemoryInfo", memory, optional},
                {"nvmlDeviceGetTemperature", temperature, optional},
                {"nvmlDeviceGetPowerUsage", power, optional},
                {"nvmlDeviceGetEnforcedPowerLimit", powerLimit, optional},
                {"nvmlDeviceGetUtilizationRates", utilization, optional},
                {"nvmlDeviceGetClockInfo", clock, optional},
                {"nvmlDeviceGetFieldValues", fields, optional},
                {"nvmlDeviceGetPcieThroughput", pcieThroughput, optional},
                {"nvmlDeviceGetCurrPcieLinkGeneration", pcieGeneration, optional},
                {"nvmlDeviceGetCurrPcieLinkWidth", pcieLanes, optional},
                {"nvmlDeviceGetCurrentClocksEventReasons", clockReasons, optional},
                {"nvmlDeviceGetCurrentClocksThrottleReasons", clockReasons, optional}, // drivers before 535
                {"nvmlDeviceGetTotalEccErrors", eccErrors, optional},
                {"nvmlEventSetCreate", makeEvents, optional},
                {"nvmlDeviceRegisterEvents", registerEvents, optional},
                {"nvmlEventSetWait_v2", waitEvents, optional},
                {"nvmlEventSetFree", freeEvents, optional},
            });
    }

    [[nodiscard]] std::string reason(Result result) const
    {
        return errorString ? errorString(result) : "NVML error " + std::to_string(result);
    }

    /// Calls one getter; a missing function or an error goes to `problem` under `what`.
    template<typename Function, typename... Arguments>
    bool get(Function function, const char *what, std::string &problem, Arguments... arguments) const
    {
        if (function)
            return accept(function(arguments...), what, problem);
        addReason(what, "not in this driver", problem);
        return false;
    }
    /// Whether it is success; else what it means goes to `problem` under `what`.
    bool accept(Result result, const char *what, std::string &problem) const
    {
        if (result != 0)
            addReason(what, reason(result), problem);
        return result == 0;
    }
    static void addReason(const char *what, const std::string &why, std::string &problem)
    {
        problem += (problem.empty() ? "" : "; ") + std::string(what) + ": " + why;
    }
};

Nvml::Nvml(const std::string &library)
    : m_library(std::make_unique<Library>())
{
    if (!m_library->open(library)) {
        m_problem = "no NVIDIA driver: " + m_library->file.problem();
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
    readMemoryTemperature(device, stats);
    readLink(device, stats);
    if (unsigned long long bits = 0; nvml.get(nvml.clockReasons, "throttle reasons", stats.problem, device, &bits))
        stats.throttleReasons = throttleReasons(bits);
    if (unsigned long long errors = 0;
        nvml.get(nvml.eccErrors, "ECC", stats.problem, device, EccUncorrected, EccSinceDriverStart, &errors))
        stats.eccErrors = errors;
    readXid(device, stats);
    return stats;
}

void Nvml::readMemoryTemperature(void *device, DeviceStats &stats) const
{
    FieldValue value;
    value.field = FieldMemoryTemperature;
    if (!m_library->get(m_library->fields, "memory temperature", stats.problem, device, 1, &value))
        return;
    if (m_library->accept(value.result, "memory temperature", stats.problem))
        stats.memoryTemperatureC = value.value.asUnsigned;
}

void Nvml::readLink(void *device, DeviceStats &stats) const
{
    const Library &nvml = *m_library;
    constexpr double kilobyte = 1024; // as NVML counts
    unsigned value = 0;
    if (nvml.get(nvml.pcieThroughput, "PCIe sending", stats.problem, device, PcieSend, &value))
        stats.pcieSendBytesPerSecond = value * kilobyte;
    if (nvml.get(nvml.pcieThroughput, "PCIe receiving", stats.problem, device, PcieReceive, &value))
        stats.pcieReceiveBytesPerSecond = value * kilobyte;
    if (nvml.get(nvml.pcieGeneration, "PCIe generation", stats.problem, device, &value))
        stats.pcieGeneration = static_cast<int>(value);
    if (nvml.get(nvml.pcieLanes, "PCIe lanes", stats.problem, device, &value))
        stats.pcieLanes = static_cast<int>(value);
}

/// Faults are told as events, from the first reading on.
void Nvml::readXid(void *device, DeviceStats &stats)
{
    Library &nvml = *m_library;
    if (!nvml.registerEvents || !nvml.waitEvents) {
        Library::addReason("Xid", "not in this driver", stats.problem);
        return;
    }
    if (!nvml.events && !nvml.get(nvml.makeEvents, "Xid", stats.problem, &nvml.events))
        return;
    if (!nvml.watched.contains(device))
        nvml.watched[device] = nvml.registerEvents(device, EventXid, nvml.events);
    if (!nvml.accept(nvml.watched[device], "Xid", stats.problem))
        return;
    for (EventData event; nvml.waitEvents(nvml.events, &event, 0) == 0;)
        nvml.xids[event.device] = static_cast<int>(event.data);
    if (const auto last = nvml.xids.find(device); last != nvml.xids.end())
        stats.xid = last->second;
}

} // namespace engine
