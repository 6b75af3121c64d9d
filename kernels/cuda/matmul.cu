// SPDX-License-Identifier: GPL-3.0-or-later
// Products with F32 weights on the plain cores, and rows of embedding tables.
#include "kernels/cuda/weight_formats.cuh"

namespace kernels::cuda {

namespace {

constexpr int tileRows = 16;
constexpr int tileColumns = 64; // output features
constexpr int tileDepth = 32;
constexpr int threads = 256;

} // namespace

/// Every thread makes four outputs; each is one sum along k, ascending, whatever stands beside it.
__global__ void __launch_bounds__(threads, 4) floatProductsKernel(WeightView weight, RowSpan x, ProductTarget target)
{
    SIMT_SHARED(float, xTile, [tileDepth][tileRows]);
    SIMT_SHARED(float, wTile, [tileDepth][tileColumns + 1]);
    const int firstRow = static_cast<int>(blockIdx.y) * tileRows;
    const int firstColumn = static_cast<int>(blockIdx.x) * tileColumns;
    const int column = static_cast<int>(threadIdx.x) % tileColumns;
    const int row = static_cast<int>(threadIdx.x) / tileColumns * 4;
    const auto *numbers = reinterpret_cast<const float *>(weight.body);
    float sums[4] = {};
    for (int first = 0; first < weight.columns; first += tileDepth) {
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < tileRows * tileDepth; i += threads) {
            const int r = firstRow + i / tileDepth;
            const int k = first + i % tileDepth;
            xTile[i % tileDepth][i / tileDepth] = r < x.rows && k < x.columns ? rowOf(x, r)[k] : 0.0F;
        }
        for (int i = static_cast<int>(threadIdx.x); i < tileColumns * tileDepth; i += threads) {
            const int r = firstColumn + i / tileDepth;
            const std::int64_t at = static_cast<std::int64_t>(r) * weight.columns + first + i % tileDepth;
            wTile[i % tileDepth][i / tileDepth] = r < weight.rows ? numbers[at] : 0.0F;
        }
        __syncthreads();
        for (int k = 0; k < tileDepth; ++k)
            for (int i = 0; i < 4; ++i)
                sums[i] = fmaf(xTile[k][row + i], wTile[k][column], sums[i]);
    }
    const int feature = firstColumn + column;
    for (int i = 0; i < 4; ++i) {
        if (firstRow + row + i >= x.rows || feature >= weight.rows)
            continue;
        float &out = rowOf(target.out, firstRow + row + i)[feature];
        const float value = sums[i] + (target.bias != nullptr ? target.bias[feature] : 0.0F);
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

void launchFloatProducts(const WeightView &weight, const RowSpan &x, const ProductTarget &target, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const dim3 grid(static_cast<unsigned>((weight.rows + tileColumns - 1) / tileColumns),
                    static_cast<unsigned>((x.rows + tileRows - 1) / tileRows));
    checkLaunch(simt::launch(floatProductsKernel, grid, dim3(threads), 0, stream, weight, x, target), "floatProducts");
}

void launchEmbed(const WeightView &weight, const int *ids, int firstRow, const int *order, const RowSpan &out,
                 StreamHandle stream)
{
    if (out.rows == 0)
        return;
    withFormat(weight.type, [&]<typename Format>() {
        checkLaunch(simt::launch(embedKernel<Format>, dim3(static_cast<unsigned>(out.rows)), dim3(128), 0, stream,
                                 weight, ids, firstRow, order, out),
                    "embed");
    });
}

} // namespace kernels::cuda
