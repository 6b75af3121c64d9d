// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights in plain floats and blocks of 32 of GGUF files.
#include "kernels/cuda/product_kernel.cuh"

bool kernels::cuda::product::launchPlain(const ProductLaunch &launch)
{
    return launchFor(PlainFormats(), launch);
}
