// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// A product with packed weights, as products.cu hands it to the file that has kernels for the type.

#include "kernels/cuda/grouping.cuh"

namespace kernels::cuda::product {

constexpr int tileColumns = 64; ///< output features of a block, 16 for each warp

struct ProductLaunch {
    WeightView weight;
    CastRows x;
    ProductTarget target;
    Grouping grouping;
    dim3 grid;
    int tileRows = 16; ///< 16 or 64
    StreamHandle stream = nullptr;
};

/// Each launches for some types. \returns whether the weight's is one of them
bool launchPlain(const ProductLaunch &launch);
bool launchK(const ProductLaunch &launch);
bool launchGroup(const ProductLaunch &launch);
bool launchLevels(const ProductLaunch &launch);

} // namespace kernels::cuda::product
