// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"

/// The sum over devices that see each other's memory, in one kernel on each: for messages so small that latency is all.
namespace kernels::cuda {

/// Blocks of the kernel on each device. All blocks of all devices must run at the same time.
constexpr int allReduceBlocks = 16;

/// What one device's kernel knows of all. Pointers are on that device, those that they lead to on each device.
struct AllReduce {
    /// [devices] a buffer on each, 2 * capacity floats: a device may be a call ahead of one that still reads.
    float *const *buffers = nullptr;
    /// [devices] flags on each, [allReduceBlocks, devices], zero at first.
    std::uint32_t *const *flags = nullptr;
    std::uint32_t *calls =
        nullptr; ///< [allReduceBlocks] calls made, zero at first; so a captured launch can be repeated
    int capacity = 0;
    int device = 0;
    int devices = 1; ///< at most 32
};

// all_reduce.cu
/// inout [count] = the sum over all devices, to the same bits on each: added by ascending device. count is at most the
/// capacity. Every device makes the same calls in the same order.
void launchAllReduce(const AllReduce &devices, float *inout, int count, StreamHandle stream);

} // namespace kernels::cuda
