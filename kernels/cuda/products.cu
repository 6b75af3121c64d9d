// SPDX-License-Identifier: GPL-3.0-or-later
// Products with packed weights: which kernel, and how many blocks.
#include "kernels/cuda/products.h"

#include "kernels/cuda/block_planes.h"

namespace kernels::cuda {

namespace {

using product::ProductLaunch;

constexpr int finishThreads = 256;

unsigned piecesOf(int count, int size)
{
    return static_cast<unsigned>((count + size - 1) / size);
}

/// Height of tiles that suits so many rows. Sums of very long rows do not fit into the shared memory of a block.
int rowsOfTile(int rows, int columns)
{
    constexpr int mostSharedBytes = 96 * 1024;
    const int bytes = product::rowSharedBytes(product::segmentsOf(columns), rows <= 8 ? 1 : 2);
    return rows <= 16 && bytes <= mostSharedBytes ? 16 : product::tileRows;
}

void launchAny(const ProductLaunch &launch)
{
    const bool known = product::launchPlain(launch) || product::launchK(launch) || product::launchGroup(launch)
        || product::launchLevels(launch) || product::launchIntegers(launch);
    CHECK(known);
}

/// `tiles` of `rows` rows at most.
void launchTiles(ProductLaunch launch, int rows, int tiles, int depth)
{
    launch.rowsOfTile = rowsOfTile(rows, launch.weight.columns);
    launch.mostRows = rows;
    const int features = launch.rowsOfTile == 16 ? product::rowFeatures : product::tileFeatures;
    launch.grid =
        dim3(piecesOf(launch.weight.rows, features), static_cast<unsigned>(tiles), static_cast<unsigned>(depth));
    launchAny(launch);
}

void launchRows(const ProductLaunch &launch, int rows, int depth)
{
    const int height = rowsOfTile(rows, launch.weight.columns);
    launchTiles(launch, rows, static_cast<int>(piecesOf(rows, height)), depth);
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

bool wantsInt8(DType type)
{
    return type == DType::W8A8;
}

/// A thread for each output of a row.
__global__ void __launch_bounds__(finishThreads)
    finishProductsKernel(const float *sums, float factor, CastRows x, ProductTarget target)
{
    const int feature = static_cast<int>(blockIdx.x) * finishThreads + static_cast<int>(threadIdx.x);
    const int row = static_cast<int>(blockIdx.y);
    if (feature < target.out.columns)
        product::storeProduct(sums[static_cast<std::int64_t>(row) * target.out.columns + feature], row, feature, factor,
                              x, target, 1);
}

void launchExpand(const WeightView &weight, int firstRow, int rows, std::uint16_t *out, StreamHandle stream)
{
    CHECK(weight.type != DType::F32 && !wantsBf16(weight.type) && !wantsInt8(weight.type));
    ProductLaunch launch{weight, {}, {}};
    launch.stream = stream;
    launch.expanded = reinterpret_cast<uint4 *>(out);
    launch.firstRow = firstRow;
    launch.expandedRows = rows;
    if (rows > 0)
        launchAny(launch);
}

void launchFinishProducts(const float *sums, float factor, const CastRows &x, const ProductTarget &target,
                          StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const dim3 grid(piecesOf(target.out.columns, finishThreads), static_cast<unsigned>(x.rows));
    checkLaunch(simt::launch(finishProductsKernel, grid, dim3(finishThreads), 0, stream, sums, factor, x, target),
                "finishProducts");
}

void launchProducts(const WeightView &weight, const CastRows &x, const ProductTarget &target, StreamHandle stream)
{
    ProductLaunch launch{weight, x, target};
    launch.stream = stream;
    if (x.rows > 0)
        launchRows(launch, x.rows, 1);
}

void launchExpertProducts(const ExpertWeights &weights, const RowGroups &groups, const CastRows &x, int rowsPerToken,
                          const ExpertTarget &target, StreamHandle stream)
{
    ProductLaunch launch{shapeOf(weights), x, productTarget(target), groupingOf(weights, groups, rowsPerToken, target)};
    launch.stream = stream;
    if (groups.rowCount > 0)
        launchTiles(launch, groups.rowCount < groups.tileRows ? groups.rowCount : groups.tileRows, groups.tileCount, 1);
}

void launchHeadProducts(const ExpertWeights &weights, int heads, const CastRows &x, const RowSpan &out,
                        StreamHandle stream)
{
    ProductLaunch launch{shapeOf(weights), x, {out, nullptr, false}, groupingOf(weights, heads)};
    launch.stream = stream;
    if (x.rows > 0)
        launchRows(launch, x.rows / heads, heads);
}

} // namespace kernels::cuda
