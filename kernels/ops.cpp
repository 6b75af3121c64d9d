// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/ops.h"

#include <cstring>

namespace kernels {

std::unique_ptr<Buffer> Ops::allocateStaging(std::size_t bytes)
{
    return allocate(bytes);
}

void Ops::transfer(const void *from, void *to, std::size_t bytes, Stream &)
{
    if (bytes > 0)
        std::memcpy(to, from, bytes);
}

void Ops::useThreads(int used)
{
    CHECK(used >= 1 && used <= threads());
}

void Ops::sample(TensorView, const SamplingBatch &, SampledRow *, Alternative *, Stream &)
{
    CHECK(samples());
}

} // namespace kernels
