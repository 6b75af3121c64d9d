// SPDX-License-Identifier: GPL-3.0-or-later
// Products with packed weights: which kernel, and how many blocks.
#include "kernels/cuda/products.h"

#include "kernels/cuda/block_planes.h"

namespace kernels::cuda {

namespace {

using product::ProductLaunch;

unsigned piecesOf(int count, int size)
{
    return static_cast<unsigned>((count + size - 1) / size);
}

void launchAny(const ProductLaunch &launch)
{
    const bool known = product::launchPlain(launch) || product::launchK(launch) || product::launchGroup(launch)
        || product::launchLevels(launch);
    CHECK(known);
}

} // namespace

bool isMatrixType(DType type)
{
    return planesOf(type).elements > 0;
}

bool wantsBf16(DType type)
{
    return type == DType::BF16;
}

void launchProducts(const WeightView &weight, const CastRows &x, const ProductTarget &target, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    ProductLaunch launch{weight, x, target, {}, {}, x.rows <= 16 ? 16 : 64, stream};
    launch.grid = dim3(piecesOf(weight.rows, product::tileColumns), piecesOf(x.rows, launch.tileRows));
    launchAny(launch);
}

void launchExpertProducts(const ExpertWeights &weights, const RowGroups &groups, const CastRows &x, int rowsPerToken,
                          const ExpertTarget &target, StreamHandle stream)
{
    if (groups.rowCount == 0)
        return;
    ProductLaunch launch{shapeOf(weights), x, productTarget(target), {}, {}, groups.tileRows, stream};
    launch.grouping = groupingOf(weights, groups, rowsPerToken, target);
    launch.grid = dim3(piecesOf(weights.rows, product::tileColumns), static_cast<unsigned>(groups.tileCount));
    launchAny(launch);
}

void launchHeadProducts(const ExpertWeights &weights, int heads, const CastRows &x, const RowSpan &out,
                        StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const int tokens = x.rows / heads;
    ProductLaunch launch{shapeOf(weights), x, {out, nullptr, false}, {}, {}, tokens <= 16 ? 16 : 64, stream};
    launch.grouping = groupingOf(weights, heads);
    launch.grid = dim3(piecesOf(weights.rows, product::tileColumns), piecesOf(tokens, launch.tileRows),
                       static_cast<unsigned>(heads));
    launchAny(launch);
}

} // namespace kernels::cuda
