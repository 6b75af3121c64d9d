// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights in blocks of quantised safetensors.
#include "kernels/cuda/product_kernel.cuh"

bool kernels::cuda::product::launchGroup(const ProductLaunch &launch)
{
    return launchFor(GroupFormats(), launch);
}
