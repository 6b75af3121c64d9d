// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/nccl.h"

#include <dlfcn.h>
#include <memory>

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

template<typename Function> Function *symbol(void *library, const char *name)
{
    return reinterpret_cast<Function *>(dlsym(library, name));
}

} // namespace

CollectiveLibrary openNccl(const std::string &library)
{
    const auto close = [](void *handle) { (void)dlclose(handle); };
    const std::unique_ptr<void, decltype(close)> handle(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), close);
    if (!handle) {
        const char *why = dlerror();
        return {{}, std::string("NCCL was not found: ") + (why ? why : library.c_str())};
    }
    auto *getVersion = symbol<Result(int *)>(handle.get(), "ncclGetVersion");
    if (!getVersion)
        return {{}, "NCCL cannot be used: " + library + " has no ncclGetVersion"};
    int version = 0;
    if (const Result result = getVersion(&version); result != 0) {
        auto *errorText = symbol<const char *(Result)>(handle.get(), "ncclGetErrorString");
        return {{},
                "NCCL cannot be used: " + library
                    + " does not tell its version: " + (errorText ? errorText(result) : std::to_string(result))};
    }
    return {versionText(version), {}};
}

CollectiveLibrary findCollectives()
{
    return openNccl("libnccl.so.2");
}

} // namespace engine
