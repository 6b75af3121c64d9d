// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/level_check.h"
#include "kernels/cuda/runtime.h"
#include "kernels/gpus.h"
#include "kernels/ops.h"
#include "kernels/reference/reference_ops.h"

#include <algorithm>
#include <thread>

namespace kernels {

namespace {

int threadCount(int asked)
{
    if (asked < 0)
        throw Error(ErrorCode::InvalidArgument,
                    "threads is " + std::to_string(asked) + ", wanted 0 (all cores) or more");
    return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Of other devices than the CPU.
void checkDeviceOptions(const OpsOptions &options)
{
    if (options.reference || options.isa != "auto")
        throw Error(ErrorCode::InvalidArgument,
                    "device " + options.device + " is asked for with "
                        + (options.reference ? "the backend reference" : "isa " + options.isa)
                        + ", wanted neither, as both are the CPU's");
}

std::unique_ptr<Ops> makeSimtOps([[maybe_unused]] const OpsOptions &options)
{
#ifdef LATHE_HAS_SIMT
    return cuda::makeCudaOps(cuda::makeSimtRuntime({.threads = threadCount(options.threads)}));
#else
    throw Error(ErrorCode::NoDevice,
                "device simt is not available, as this program was built without the emulator of CUDA kernels "
                "(LATHE_SIMT)");
#endif
}

/// Products that depend on the number of rows, where the processor has them.
void allowBfloat([[maybe_unused]] CheckedLevel &level, [[maybe_unused]] std::vector<std::string> *notes)
{
#if defined(__x86_64__)
    if (level.isa < Isa::Avx512 || !hasBfloatProducts())
        return;
    addBfloatKernels(level.kernels);
    if (level.isa == Isa::Amx)
        addCheckedBfloatTiles(level.kernels, addBfloatTiles, notes);
#endif
}

} // namespace

std::unique_ptr<Ops> makeOps(const OpsOptions &options, std::vector<std::string> *notes)
{
    if (options.device != "cpu")
        checkDeviceOptions(options);
    if (options.device == "simt")
        return makeSimtOps(options);
    if (options.device != "cpu")
        return makeGpuOps(options.device, options.deterministic, notes);
    const int threads = threadCount(options.threads);
    const Isa isa = chooseIsa(options.isa);
    if (options.reference)
        return std::make_unique<ReferenceOps>(threads);
    CheckedLevel level = checkedLevel(isa, notes);
    if (!options.deterministic)
        allowBfloat(level, notes);
    return std::make_unique<CpuOps>(level.isa, level.kernels, threads);
}

std::vector<std::string> availableIsaLevels()
{
    std::vector<std::string> names;
    for (const Isa isa : detectIsa())
        names.emplace_back(isaName(isa));
    return names;
}

} // namespace kernels
