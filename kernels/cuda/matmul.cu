// SPDX-License-Identifier: GPL-3.0-or-later
// Products with F32 weights on the plain cores, and rows of embedding tables.
#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/weight_formats.cuh"

namespace kernels::cuda {

namespace {

constexpr int tileRows = 16;
constexpr int tileColumns = 64; // output features
constexpr int tileDepth = 32;
constexpr int threads = 256;

} // namespace

/// Every thread makes four outputs; each is one sum along k, ascending, whatever stands beside it.
__global__ void __launch_bounds__(threads, 4)
    floatProductsKernel(WeightView weight, RowSpan x, ProductTarget target, Grouping grouping)
{
    SIMT_SHARED(float, xTile, [tileDepth][tileRows]);
    SIMT_SHARED(float, wTile, [tileDepth][tileColumns + 1]);
    const BlockRows block = rowsOfBlock<tileRows>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    const float *bias = biasOf(grouping, target.bias, block.expert);
    const int firstColumn = static_cast<int>(blockIdx.x) * tileColumns;
    const int column = static_cast<int>(threadIdx.x) % tileColumns;
    const int row = static_cast<int>(threadIdx.x) / tileColumns * 4;
    const auto *numbers = reinterpret_cast<const float *>(own.body);
    float sums[4] = {};
    for (int first = 0; first < own.columns; first += tileDepth) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < tileRows * tileDepth; i += threads) {
            const int r = i / tileDepth;
            const int k = first + i % tileDepth;
            xTile[i % tileDepth][r] =
                r < block.count && k < x.columns ? rowOf(x, block.at(r) / grouping.rowsPerToken)[k] : 0.0F;
        }
        for (int i = static_cast<int>(threadIdx.x); i < tileColumns * tileDepth; i += threads) {
            const int r = firstColumn + i / tileDepth;
            const std::int64_t at = static_cast<std::int64_t>(r) * own.columns + first + i % tileDepth;
            wTile[i % tileDepth][i / tileDepth] = r < own.rows ? numbers[at] : 0.0F;
        }
        __syncthreads();
        for (int k = 0; k < tileDepth; ++k)
            for (int i = 0; i < 4; ++i)
                sums[i] = fmaf(xTile[k][row + i], wTile[k][column], sums[i]);
    }
    const int feature = firstColumn + column;
    for (int i = 0; i < 4; ++i) {
        if (row + i >= block.count || feature >= own.rows)
            continue;
        float &out = rowOf(target.out, block.at(row + i))[feature];
        const float value = sums[i] + (bias != nullptr ? bias[feature] : 0.0F);
        out = target.add ? out + value : value;
    }
}

/// One block for each id.
template<typename Format>
__global__ void __launch_bounds__(128)
    embedKernel(WeightView weight, const int *ids, int firstRow, const int *order, RowSpan out)
{
    const int row = ids[blockIdx.x] - firstRow;
    if (row < 0 || row >= weight.rows)
        return;
    float *target = rowOf(out, static_cast<int>(blockIdx.x));
    for (int column = static_cast<int>(threadIdx.x) * 8; column < out.columns; column += 128 * 8) {
        float numbers[8];
        expandAt<Format>(weight, row, column, numbers);
        for (int i = 0; i < 8; ++i)
            if (column + i < out.columns)
                target[order != nullptr ? order[column + i] : column + i] = numbers[i];
    }
}

namespace {

void launchFloats(const WeightView &weight, const RowSpan &x, const ProductTarget &target, const Grouping &grouping,
                  unsigned tiles, unsigned depth, StreamHandle stream)
{
    const dim3 grid(static_cast<unsigned>((weight.rows + tileColumns - 1) / tileColumns), tiles, depth);
    checkLaunch(simt::launch(floatProductsKernel, grid, dim3(threads), 0, stream, weight, x, target, grouping),
                "floatProducts");
}

unsigned tilesOf(int rows)
{
    return static_cast<unsigned>((rows + tileRows - 1) / tileRows);
}

} // namespace

void launchFloatProducts(const WeightView &weight, const RowSpan &x, const ProductTarget &target, StreamHandle stream)
{
    if (x.rows > 0)
        launchFloats(weight, x, target, {}, tilesOf(x.rows), 1, stream);
}

void launchFloatExpertProducts(const ExpertWeights &weights, const RowGroups &groups, const RowSpan &x,
                               int rowsPerToken, const ExpertTarget &target, StreamHandle stream)
{
    if (groups.rowCount > 0)
        launchFloats(shapeOf(weights), x, productTarget(target), groupingOf(weights, groups, rowsPerToken, target),
                     static_cast<unsigned>(groups.tileCount), tilesOf(groups.tileRows), stream);
}

void launchFloatHeadProducts(const ExpertWeights &weights, int heads, const RowSpan &x, const RowSpan &out,
                             StreamHandle stream)
{
    if (x.rows > 0)
        launchFloats(shapeOf(weights), x, {out, nullptr, false}, groupingOf(weights, heads), tilesOf(x.rows / heads),
                     static_cast<unsigned>(heads), stream);
}

void launchEmbed(const WeightView &weight, const int *ids, int firstRow, const int *order, const RowSpan &out,
                 StreamHandle stream)
{
    if (out.rows == 0)
        return;
    const auto launch = [&]<typename Format>() {
        checkLaunch(simt::launch(embedKernel<Format>, dim3(static_cast<unsigned>(out.rows)), dim3(128), 0, stream,
                                 weight, ids, firstRow, order, out),
                    "embed");
    };
    const DType type = weight.type == DType::W8A8 ? DType::INT8 : weight.type; // the same blocks
    const bool known = withFormat(FormatList<FloatFormat<DType::F32>>(), type, launch)
        || withFormat(PlainFormats(), type, launch) || withFormat(KFormats(), type, launch)
        || withFormat(GroupFormats(), type, launch) || withFormat(LevelFormats(), type, launch);
    CHECK(known);
}

} // namespace kernels::cuda
