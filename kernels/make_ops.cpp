// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/isa.h"
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

} // namespace

std::unique_ptr<Ops> makeOps(const OpsOptions &options)
{
    const int threads = threadCount(options.threads);
    const Isa isa = chooseIsa(options.isa);
    if (options.reference)
        return std::make_unique<ReferenceOps>(threads);
    return std::make_unique<CpuOps>(isa, threads);
}

std::vector<std::string> availableIsaLevels()
{
    std::vector<std::string> names;
    for (const Isa isa : detectIsa())
        names.emplace_back(isaName(isa));
    return names;
}

} // namespace kernels
