// SPDX-License-Identifier: GPL-3.0-or-later
// A stand-in for libnvidia-ml.so.1 with two GPUs: one with every sensor, one that knows neither temperature nor power.
#include <cstdio>
#include <cstdlib>

namespace {

constexpr int NotSupported = 3; // NVML_ERROR_NOT_SUPPORTED
int g_gpus[2];

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
int nvmlDeviceGetClockInfo(void *, int type, unsigned *value)
{
    return *value = type == 2 ? 9000 : 1800, 0;
}
}
