// SPDX-License-Identifier: GPL-3.0-or-later
// Products with weights in blocks of 256 and blocks with codebooks of GGUF files.
#include "kernels/cuda/product_kernel.cuh"

bool kernels::cuda::product::launchK(const ProductLaunch &launch)
{
    return launchFor(KFormats(), launch);
}
