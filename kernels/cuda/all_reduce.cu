// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/all_reduce.cuh"

namespace kernels::cuda {

void launchAllReduce(const AllReduce &devices, float *inout, int count, StreamHandle stream)
{
    CHECK(count <= devices.capacity && devices.devices <= 32);
    if (count > 0)
        checkLaunch(simt::launch(allReduceKernel, dim3(allReduceBlocks), dim3(allReduceThreads), 0, stream, devices,
                                 inout, count),
                    "allReduce");
}

} // namespace kernels::cuda
