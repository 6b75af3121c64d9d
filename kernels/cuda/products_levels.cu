// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights in NF4 and FP4.
#include "kernels/cuda/product_kernel.cuh"

bool kernels::cuda::product::launchLevels(const ProductLaunch &launch)
{
    return launchFor(LevelFormats(), launch);
}
