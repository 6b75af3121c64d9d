// SPDX-License-Identifier: GPL-3.0-or-later
// A stand-in for libnvidia-ml.so.1 with two GPUs: one with every sensor, one that knows neither temperature nor power
// nor anything of its memory and faults. FAKE_NVML_XID makes the first tell that fault once.
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace {

constexpr int NotSupported = 3; // NVML_ERROR_NOT_SUPPORTED
int g_gpus[2];
bool g_told = false;

struct Field {
    unsigned field, scope;
    long long timestamp, latency;
    int type, result;
    unsigned long long value;
};
struct Event {
    void *device;
    unsigned long long type, data;
    unsigned gpuInstance, computeInstance;
};

bool bare(void *device)
{
    return device == &g_gpus[1];
}

} // namespace

extern "C" {

int nvmlInit_v2()
{
    return std::getenv("FAKE_NVML_NO_DRIVER") ? 9 : 0;
}
int nvmlShutdown()
{
    return 0;
}
const char *nvmlErrorString(int result)
{
    return result == NotSupported ? "Not Supported" : "Driver Not Loaded";
}
int nvmlSystemGetDriverVersion(char *text, unsigned length)
{
    return std::snprintf(text, length, "580.12") > 0 ? 0 : 1;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    return *count = 2, 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    return *device = &g_gpus[index], 0;
}
int nvmlDeviceGetName(void *device, char *text, unsigned length)
{
    return std::snprintf(text, length, bare(device) ? "Bare" : "Full") > 0 ? 0 : 1;
}
int nvmlDeviceGetMemoryInfo(void *, unsigned long long *info)
{
    return info[0] = 1000, info[1] = 600, info[2] = 400, 0;
}
int nvmlDeviceGetTemperature(void *device, int, unsigned *value)
{
    return *value = 86, bare(device) ? NotSupported : 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *value)
{
    return *value = 250'500, bare(device) ? NotSupported : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *, unsigned *value)
{
    return *value = 300'000, 0;
}
int nvmlDeviceGetUtilizationRates(void *, unsigned *rates)
{
    return rates[0] = 75, rates[1] = 20, 0;
}
int nvmlDeviceGetFieldValues(void *device, int count, Field *values)
{
    for (int i = 0; i < count; ++i) {
        values[i].result = values[i].field == 82 && !bare(device) ? 0 : NotSupported;
        values[i].value = 91;
    }
    return 0;
}
int nvmlDeviceGetPcieThroughput(void *, int counter, unsigned *value)
{
    return *value = counter == 0 ? 2000 : 3000, 0;
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *, unsigned *value)
{
    return *value = 4, 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *, unsigned *value)
{
    return *value = 16, 0;
}
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *value)
{
    return *value = bare(device) ? 1 : 0x4 | 0x40, 0; // idle; power cap and heat
}
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *value)
{
    return *value = type == 1 && counter == 0 ? 2 : 99, bare(device) ? NotSupported : 0;
}
int nvmlEventSetCreate(void **set)
{
    return *set = g_gpus, 0;
}
int nvmlDeviceRegisterEvents(void *device, unsigned long long types, void *)
{
    return types != 8 || bare(device) ? NotSupported : 0;
}
int nvmlEventSetWait_v2(void *, Event *event, unsigned)
{
    constexpr int timeout = 10;
    const char *xid = std::getenv("FAKE_NVML_XID");
    if (xid == nullptr || std::exchange(g_told, true))
        return timeout;
    return *event = {&g_gpus[0], 8, static_cast<unsigned long long>(std::atoi(xid)), 0, 0}, 0;
}
int nvmlEventSetFree(void *)
{
    return 0;
}
int nvmlDeviceGetClockInfo(void *, int type, unsigned *value)
{
    return *value = type == 2 ? 9000 : 1800, 0;
}
}
