// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch_all_reduce.h"

namespace kernels::cuda {

constexpr int allReduceThreads = 128;

/// A block's share: published, awaited from all devices, summed. Blocks of the same number wait for one another alone.
/// Flags count calls. A device that has made its next call already has gone past, hence the comparison; it cannot be
/// two calls ahead, as it waits for this one's flag, so two buffers suffice.
__device__ __forceinline__ void reduceShare(const AllReduce &a, float *inout, int count)
{
    const int block = static_cast<int>(blockIdx.x);
    const int thread = static_cast<int>(threadIdx.x);
    const std::uint32_t call = a.calls[block] + 1;
    const std::int64_t half = static_cast<std::int64_t>(call % 2) * a.capacity;
    const int share = (count + allReduceBlocks - 1) / allReduceBlocks;
    const int first = block * share;
    const int end = min(count, first + share);
    for (int i = first + thread; i < end; i += allReduceThreads)
        a.buffers[a.device][half + i] = inout[i];
    __syncthreads(); // all of the block's numbers come before its flags
    if (thread < a.devices) {
        ptx::storeRelease(a.flags[thread] + block * a.devices + a.device, call);
        while (static_cast<int>(ptx::loadAcquire(a.flags[a.device] + block * a.devices + thread) - call) < 0) {
        }
    }
    if (thread == 0)
        a.calls[block] = call;
    __syncthreads();
    for (int i = first + thread; i < end; i += allReduceThreads) {
        float sum = 0.0F;
        for (int device = 0; device < a.devices; ++device)
            sum += a.buffers[device][half + i];
        inout[i] = sum;
    }
}

/// allReduceBlocks blocks on every device, all running at the same time.
static __global__ void __launch_bounds__(allReduceThreads) allReduceKernel(AllReduce a, float *inout, int count)
{
    reduceShare(a, inout, count);
}

} // namespace kernels::cuda
