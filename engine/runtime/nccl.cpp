// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/nccl.h"

#include "kernels/shared_library.h"

namespace engine {

namespace {

using Result = int; // ncclResult_t; 0 is success

/// 22703 is 2.27.3; before 2.9 it was 2804 for 2.8.4.
std::string versionText(int version)
{
    const int majorUnit = version < 10000 ? 1000 : 10000;
    return std::to_string(version / majorUnit) + "." + std::to_string(version % majorUnit / 100) + "."
        + std::to_string(version % 100);
}

} // namespace

CollectiveLibrary openNccl(const std::string &library)
{
    Result (*getVersion)(int *) = nullptr;
    const char *(*errorText)(Result) = nullptr;
    kernels::SharedLibrary file;
    if (!file.open("NCCL", {&library, 1}, {{"ncclGetVersion", getVersion}, {"ncclGetErrorString", errorText, false}}))
        return {{}, file.problem()};
    int version = 0;
    if (const Result result = getVersion(&version); result != 0)
        return {{},
                "NCCL cannot be used: " + library
                    + " does not tell its version: " + (errorText ? errorText(result) : std::to_string(result))};
    return {versionText(version), {}};
}

CollectiveLibrary findCollectives()
{
    return openNccl("libnccl.so.2");
}

} // namespace engine
