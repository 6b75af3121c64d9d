// SPDX-License-Identifier: GPL-3.0-or-later
// Products from packed weights on the tensor cores: a tile of weights is expanded into shared memory and multiplied as
// half or bfloat16, with sums in float.
//
// One order for every number of rows: an output is the sum of steps of 16 along k, ascending, in one accumulator, so
// few rows (decode) and many (prefill) give the same bits. The two tile heights differ in how many rows share a tile of
// weights, and in nothing else.
#include "kernels/cuda/weight_formats.cuh"

namespace kernels::cuda {

namespace {

constexpr int tileColumns = 64; // output features of a block, 16 for each warp
constexpr int tileDepth = 32;
constexpr int threads = 128;
constexpr int stride = tileDepth + 8; // elements; rows of 80 bytes meet in no bank

template<typename Format>
using Number = std::conditional_t<std::is_same_v<Format, FloatFormat<DType::BF16>>, __nv_bfloat16, __half>;
template<typename Format> constexpr int termsOf = std::is_same_v<Format, FloatFormat<DType::BF16>> ? 2 : 1;

} // namespace

template<typename T> __device__ __forceinline__ unsigned pairOf(float low, float high)
{
    unsigned bits = 0;
    if constexpr (std::is_same_v<T, __half>) {
        const __half2 pair = __floats2half2_rn(low, high);
        memcpy(&bits, &pair, sizeof bits);
    } else {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
        memcpy(&bits, &pair, sizeof bits);
    }
    return bits;
}

/// Expands 16 numbers of one row of the tile of weights, a thread's share.
template<typename Format, typename T>
__device__ __forceinline__ void expandTile(const WeightView &weight, int firstRow, int firstColumn, T *tile)
{
    const int row = static_cast<int>(threadIdx.x) / 2;
    const int column = static_cast<int>(threadIdx.x) % 2 * 16;
    for (int part = 0; part < 16; part += 8) {
        float numbers[8] = {};
        if (firstRow + row < weight.rows)
            expandAt<Format>(weight, firstRow + row, firstColumn + column + part, numbers);
        for (float &number : numbers)
            number *= weight.factor;
        const uint4 packed = make_uint4(pairOf<T>(numbers[0], numbers[1]), pairOf<T>(numbers[2], numbers[3]),
                                        pairOf<T>(numbers[4], numbers[5]), pairOf<T>(numbers[6], numbers[7]));
        ptx::store<uint4>(tile + row * stride + column + part, packed);
    }
}

/// Starts the copies of a tile of activations, all terms one after the other.
template<int rows, int terms, typename T>
__device__ __forceinline__ void fetchTile(const CastRows &x, int firstRow, int firstColumn, T *tile)
{
    constexpr int chunks = tileDepth / 8;
    for (int i = static_cast<int>(threadIdx.x); i < rows * terms * chunks; i += threads) {
        const int line = i / chunks; // term * rows + row
        const int row = firstRow + line % rows;
        const auto from = (static_cast<std::int64_t>(row < x.rows ? row : 0) * terms + line / rows) * x.columns;
        ptx::copyAsync16(tile + line * stride + i % chunks * 8,
                         static_cast<const T *>(x.numbers) + from + firstColumn + i % chunks * 8,
                         row < x.rows ? 16 : 0);
    }
}

/// Multiplies one step of 16 along k.
template<int tiles, int terms, typename T>
__device__ __forceinline__ void multiplyStep(const T *xTile, const T *wTile, int k, float (&sums)[tiles][2][4])
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::uint32_t pairs[4];
    ptx::loadMatrices<false>(pairs, wTile + (warp * 16 + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
    const std::uint32_t b[2][2] = {{pairs[0], pairs[1]}, {pairs[2], pairs[3]}};
#pragma unroll
    for (int term = 0; term < terms; ++term) {
#pragma unroll
        for (int tile = 0; tile < tiles; ++tile) {
            std::uint32_t a[4];
            ptx::loadMatrices<false>(a, xTile + ((term * tiles + tile) * 16 + lane % 16) * stride + k + lane / 16 * 8);
            ptx::mma16816<T>(sums[tile][0], a, b[0]);
            ptx::mma16816<T>(sums[tile][1], a, b[1]);
        }
    }
}

template<int tiles>
__device__ __forceinline__ void storeProducts(const float (&sums)[tiles][2][4], const WeightView &weight,
                                              const CastRows &x, const ProductTarget &target)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int firstFeature =
        static_cast<int>(blockIdx.x) * tileColumns + static_cast<int>(threadIdx.x) / 32 * 16 + lane % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = (static_cast<int>(blockIdx.y) * tiles + tile) * 16 + half * 8 + lane / 4;
            if (row >= x.rows)
                continue;
            const float scale = x.scales[row] / weight.factor;
            float *out = rowOf(target.out, row);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int feature = firstFeature + i / 2 * 8 + i % 2;
                if (feature >= weight.rows)
                    continue;
                const float bias = target.bias != nullptr ? target.bias[feature] : 0.0F;
                const float value = fmaf(sums[tile][i / 2][half * 2 + i % 2], scale, bias);
                out[feature] = target.add ? out[feature] + value : value;
            }
        }
    }
}

template<typename Format, int tiles>
__global__ void __launch_bounds__(threads, 3) productsKernel(WeightView weight, CastRows x, ProductTarget target)
{
    using T = Number<Format>;
    constexpr int terms = termsOf<Format>;
    constexpr int rows = tiles * 16;
    SIMT_SHARED(T, xTiles, [2][rows * terms * stride]);
    SIMT_SHARED(T, wTiles, [2][tileColumns * stride]);
    const int firstRow = static_cast<int>(blockIdx.y) * rows;
    const int firstFeature = static_cast<int>(blockIdx.x) * tileColumns;
    float sums[tiles][2][4] = {};
    const int steps = weight.columns / tileDepth;
    fetchTile<rows, terms>(x, firstRow, 0, xTiles[0]);
    ptx::commitCopies();
    expandTile<Format>(weight, firstFeature, 0, wTiles[0]);
    for (int step = 0; step < steps; ++step) {
        ptx::waitCopies<0>();
        __syncthreads(); // both tiles are there, and nobody reads the other two any more
        if (step + 1 < steps) {
            fetchTile<rows, terms>(x, firstRow, (step + 1) * tileDepth, xTiles[(step + 1) % 2]);
            ptx::commitCopies();
            expandTile<Format>(weight, firstFeature, (step + 1) * tileDepth, wTiles[(step + 1) % 2]);
        }
#pragma unroll
        for (int k = 0; k < tileDepth; k += 16)
            multiplyStep<tiles, terms>(xTiles[step % 2], wTiles[step % 2], k, sums);
    }
    storeProducts(sums, weight, x, target);
}

bool isMatrixType(DType type)
{
    switch (type) {
    case DType::F32:
    case DType::F16:
    case DType::BF16:
    case DType::Q4_0:
    case DType::Q4_1:
    case DType::Q8_0:
    case DType::Q4_K:
    case DType::Q5_K:
    case DType::Q6_K:
        return true;
    default:
        return false;
    }
}

bool wantsBf16(DType type)
{
    return type == DType::BF16;
}

void launchProducts(const WeightView &weight, const CastRows &x, const ProductTarget &target, StreamHandle stream)
{
    if (x.rows == 0)
        return;
    const bool few = x.rows <= 16;
    const int rows = few ? 16 : 64;
    const dim3 grid(static_cast<unsigned>((weight.rows + tileColumns - 1) / tileColumns),
                    static_cast<unsigned>((x.rows + rows - 1) / rows));
    withFormat(weight.type, [&]<typename Format>() {
        if constexpr (!std::is_same_v<Format, FloatFormat<DType::F32>>)
            checkLaunch(simt::launch(few ? productsKernel<Format, 1> : productsKernel<Format, 4>, grid, dim3(threads),
                                     0, stream, weight, x, target),
                        "products");
    });
}

} // namespace kernels::cuda
