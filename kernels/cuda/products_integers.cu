// SPDX-License-Identifier: GPL-3.0-or-later
// Products of int8 weights with int8 activations (W8A8), in integers.
//
// Where a row of weights has one scale, its products are added in one integer, exact in whatever order. Else each unit
// of 32 columns is, times its scale added in float: units ascending in segments of 512 columns, segments ascending. So
// few rows (decode, dot products of four bytes) and many (prefill, tensor cores) give the same bits.
#include "kernels/cuda/grouping.cuh"
#include "kernels/cuda/product_steps.cuh"
#include "kernels/cuda/products.h"

namespace kernels::cuda::product {

/// Of 16 bytes, of a row of numbers in a group of columns.
constexpr int groupChunks = groupColumns / 16;

__device__ __forceinline__ const std::int8_t *numbersOf(const WeightView &weight, int row)
{
    return reinterpret_cast<const std::int8_t *>(weight.body)
        + static_cast<std::int64_t>(min(row, weight.rows - 1)) * weight.columns;
}

/// [units of the row], or one scale.
__device__ __forceinline__ const float *scalesOf(const WeightView &weight, int row)
{
    return reinterpret_cast<const float *>(weight.head)
        + static_cast<std::int64_t>(min(row, weight.rows - 1)) * (weight.columns / unitColumns / weight.scaleUnits);
}

__device__ __forceinline__ bool hasRowScales(const WeightView &weight)
{
    return weight.scaleUnits > 1;
}

/// The sums of up to 16 columns.
__device__ __forceinline__ int dot16(const uint4 &a, const uint4 &b, int sum)
{
    sum = ptx::dot4(a.x, b.x, sum);
    sum = ptx::dot4(a.y, b.y, sum);
    sum = ptx::dot4(a.z, b.z, sum);
    return ptx::dot4(a.w, b.w, sum);
}

/// Of one unit of a feature.
struct IntegerUnit {
    uint4 low = {};
    uint4 high = {};
    float4 scales = {}; ///< of the group's four units, where each has its own
};

/// The sums of a lane's unit, then of all units, of two features with up to `most` rows.
template<int most> struct LaneSums {
    int own[2][most];
    float scaled[2][most];
};

/// Adds a group's units in float, each times its scale. All four lanes of a feature do the same.
template<int most>
__device__ __forceinline__ void addScaled(LaneSums<most> &sums, const IntegerUnit (&units)[2], int rows)
{
    const int first = static_cast<int>(threadIdx.x) % 32 / 4 * 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float scales[4] = {units[i].scales.x, units[i].scales.y, units[i].scales.z, units[i].scales.w};
#pragma unroll
        for (int r = 0; r < most; ++r) {
            if (r >= rows)
                continue; // the whole block
#pragma unroll
            for (int unit = 0; unit < 4; ++unit)
                sums.scaled[i][r] = fmaf(static_cast<float>(__shfl_sync(~0U, sums.own[i][r], first + unit)),
                                         scales[unit], sums.scaled[i][r]);
            sums.own[i][r] = 0;
        }
    }
}

/// Stores the sums of a segment, integers or floats: [row][feature].
template<int most>
__device__ __forceinline__ void storeSegment(LaneSums<most> &sums, unsigned *segment, int rows, bool rowScales)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int r = 0; r < most; ++r) {
            if (r >= rows)
                continue; // the whole block
            unsigned bits = __float_as_uint(sums.scaled[i][r]);
            if (rowScales) {
                int sum = sums.own[i][r];
                sum += __shfl_xor_sync(~0U, sum, 1);
                sum += __shfl_xor_sync(~0U, sum, 2);
                bits = static_cast<unsigned>(sum);
            }
            if (r % 4 == lane % 4)
                segment[r * rowFeatures + i * 8 + lane / 4] = bits;
            sums.own[i][r] = 0;
            sums.scaled[i][r] = 0.0F;
        }
    }
}

/// Adds the segments of a block and writes its outputs.
template<int most>
__device__ __forceinline__ void storeIntegerRows(const unsigned *partials, const WeightView &weight, const CastRows &x,
                                                 const ProductTarget &target, const BlockRows &block, int rowsPerToken)
{
    const int segments = segmentsOf(weight.columns);
    const bool rowScales = hasRowScales(weight);
    for (int i = static_cast<int>(threadIdx.x); i < block.count * rowFeatures; i += static_cast<int>(blockDim.x)) {
        const int feature = static_cast<int>(blockIdx.x) * rowFeatures + i % rowFeatures;
        unsigned whole = 0; // as an int; of floats it means nothing
        float total = 0.0F;
        for (int segment = 0; segment < segments; ++segment) {
            const unsigned bits = partials[segment * most * rowFeatures + i];
            whole += bits;
            total += __uint_as_float(bits);
        }
        if (rowScales)
            total = static_cast<float>(static_cast<int>(whole)) * *scalesOf(weight, feature);
        if (feature < weight.rows)
            storeProduct(total, block.at(i / rowFeatures), feature, weight.factor, x, target, rowsPerToken);
    }
}

/// Up to `most` rows. Blocks [features, tiles of 16 rows, heads], of as many warps as suits; each takes every so
/// manieth segment of 16 features, a lane a unit of two of them. Dynamic shared memory: rowSharedBytes.
template<int most>
__global__ void __launch_bounds__(most > 8 ? 128 : 256, most > 8 ? 3 : 2)
    integerRowsKernel(WeightView weight, CastRows x, ProductTarget target, Grouping grouping)
{
    SIMT_DYNAMIC_SHARED(unsigned, partials); // [segments][most][rowFeatures]
    const BlockRows block = rowsOfBlock<16>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    const bool rowScales = hasRowScales(own);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
    const int groups = groupsOf(own.columns);
    const int feature = static_cast<int>(blockIdx.x) * rowFeatures + lane / 4;
    const std::int8_t *numbers[2];
    const float *scales[2];
    for (int i = 0; i < 2; ++i) {
        numbers[i] = numbersOf(own, feature + 8 * i) + lane % 4 * unitColumns;
        scales[i] = scalesOf(own, feature + 8 * i);
    }
    int rows[most];
#pragma unroll
    for (int r = 0; r < most; ++r)
        rows[r] = block.at(min(r, block.count - 1)) / grouping.rowsPerToken;
    const std::int8_t *activations = static_cast<const std::int8_t *>(x.numbers) + lane % 4 * unitColumns;

    const auto load = [&](int group, IntegerUnit(&units)[2]) {
        for (int i = 0; i < 2 && group < groups; ++i) {
            units[i].low = ptx::loadOnce<uint4>(numbers[i] + group * groupColumns);
            units[i].high = ptx::loadOnce<uint4>(numbers[i] + group * groupColumns + 16);
            if (!rowScales)
                units[i].scales = ptx::load<float4>(scales[i] + group * groupUnits);
        }
    };
    IntegerUnit next[2];
    LaneSums<most> sums = {};
    int group = warp * segmentGroups;
    load(group, next);
    while (group < groups) {
        const IntegerUnit units[2] = {next[0], next[1]};
        const bool last = (group + 1) % segmentGroups == 0 || group + 1 == groups; // of the segment
        const int following = group + 1 + ((group + 1) % segmentGroups == 0 ? (warps - 1) * segmentGroups : 0);
        load(following, next);
#pragma unroll
        for (int r = 0; r < most; ++r) {
            if (r >= block.count)
                continue; // the whole block
            const std::int8_t *row =
                activations + static_cast<std::int64_t>(rows[r]) * x.columns + group * groupColumns;
            const uint4 low = ptx::loadOften(row);
            const uint4 high = ptx::loadOften(row + 16);
            for (int i = 0; i < 2; ++i)
                sums.own[i][r] = dot16(units[i].high, high, dot16(units[i].low, low, sums.own[i][r]));
        }
        if (!rowScales)
            addScaled(sums, units, block.count);
        if (last)
            storeSegment(sums, partials + group / segmentGroups * most * rowFeatures, block.count, rowScales);
        group = last && (group + 1) % segmentGroups != 0 ? groups : following;
    }
    __syncthreads(); // the sums of all segments are there
    target.bias = biasOf(grouping, target.bias, block.expert);
    storeIntegerRows<most>(partials, own, x, target, block, grouping.rowsPerToken);
}

// Tiles of a stage: 64 features, then 64 rows, each of a group of columns as 8 chunks of 16 bytes. A chunk stands at
// its number xor the line's, so that neither what eight lanes write nor what they read meets in a bank.
constexpr int integerStages = 3;
constexpr int integerTileCells = tileRows * groupChunks;
constexpr int integerTileBytes = integerStages * 2 * integerTileCells * 16;
static_assert(tileRows == tileFeatures);

/// What a thread copies of every stage: a chunk of four features and of four rows.
struct IntegerCopies {
    static constexpr int linesApart = tileThreads / groupChunks;
    static constexpr int own = tileRows / linesApart;

    const std::int8_t *features[own];
    const std::int8_t *rows[own]; ///< null for rows that do not exist

    __device__ __forceinline__ IntegerCopies(const WeightView &weight, const CastRows &x, const BlockRows &block,
                                             int rowsPerToken)
    {
        const int column = static_cast<int>(threadIdx.x) % groupChunks * 16;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            const int line = lineOf(i);
            features[i] = numbersOf(weight, static_cast<int>(blockIdx.x) * tileFeatures + line) + column;
            rows[i] = nullptr;
            if (line < block.count)
                rows[i] = static_cast<const std::int8_t *>(x.numbers) + column
                    + static_cast<std::int64_t>(block.at(line) / rowsPerToken) * x.columns;
        }
    }

    __device__ __forceinline__ static int lineOf(int i)
    {
        return i * linesApart + static_cast<int>(threadIdx.x) / groupChunks;
    }

    /// Starts the copies of a group, or none where it does not exist.
    __device__ __forceinline__ void fetch(const CastRows &x, int group, uint4 *stage) const
    {
        const int chunk = static_cast<int>(threadIdx.x) % groupChunks;
#pragma unroll
        for (int i = 0; i < own; ++i) {
            if (group * groupColumns >= x.columns)
                continue; // the whole block
            uint4 *cell = stage + lineOf(i) * groupChunks + (chunk ^ lineOf(i) % groupChunks);
            ptx::copyAsync16(cell, features[i] + group * groupColumns, 16);
            ptx::copyAsync16(cell + integerTileCells, rows[i] != nullptr ? rows[i] + group * groupColumns : x.numbers,
                             rows[i] != nullptr ? 16 : 0);
        }
        ptx::commitCopies();
    }
};

/// Sums of a warp: 32 features x 32 rows of the tile, in fragments of 16 x 8.
template<typename T> using IntegerSums = T[2][4][4];

/// Where a chunk of a line is.
__device__ __forceinline__ const uint4 *cellOf(const uint4 *tile, int line, int chunk)
{
    return tile + line * groupChunks + (chunk ^ line % groupChunks);
}

/// Adds the products of a unit.
__device__ __forceinline__ void multiplyUnit(IntegerSums<int> &sums, const uint4 *stage, int unit)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    std::uint32_t features[2][4];
    std::uint32_t rows[2][4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int feature = warp / 2 * 32 + i * 16 + lane % 16;
        const int row = warp % 2 * 32 + i * 16 + lane / 16 * 8 + lane % 8;
        ptx::loadMatrices<false>(features[i], cellOf(stage, feature, unit * 2 + lane / 16));
        ptx::loadMatrices<false>(rows[i], cellOf(stage + integerTileCells, row, unit * 2 + lane / 8 % 2));
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
        const std::uint32_t b[2] = {rows[j / 2][j % 2 * 2], rows[j / 2][j % 2 * 2 + 1]};
#pragma unroll
        for (int i = 0; i < 2; ++i)
            ptx::mma16832(sums[i][j], features[i], b);
    }
}

/// Adds a unit's sums in float, times the scales of the lane's four features.
__device__ __forceinline__ void addScaled(IntegerSums<float> &scaled, IntegerSums<int> &sums, const float4 (&scales)[4],
                                          int unit)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const float4 &own = scales[i / 16 * 2 + i / 2 % 2];
        const float scale = unit < 2 ? (unit == 0 ? own.x : own.y) : (unit == 2 ? own.z : own.w);
        float &sum = scaled[i / 16][i / 4 % 4][i % 4];
        sum = fmaf(static_cast<float>(sums[i / 16][i / 4 % 4][i % 4]), scale, sum);
        sums[i / 16][i / 4 % 4][i % 4] = 0;
    }
}

__device__ __forceinline__ void addScaledSegment(IntegerSums<float> &totals, IntegerSums<float> &scaled)
{
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        totals[i / 16][i / 4 % 4][i % 4] += scaled[i / 16][i / 4 % 4][i % 4];
        scaled[i / 16][i / 4 % 4][i % 4] = 0.0F;
    }
}

/// Blocks [features, tiles of rows, heads].
__global__ void __launch_bounds__(tileThreads, 2)
    integerTilesKernel(WeightView weight, CastRows x, ProductTarget target, Grouping grouping)
{
    SIMT_DYNAMIC_SHARED(uint4, stages);
    const BlockRows block = rowsOfBlock<tileRows>(grouping, x.rows);
    if (block.count <= 0)
        return; // the whole block
    const WeightView own = weightOf(grouping, weight, block.expert);
    if (own.type != weight.type)
        return; // the whole block
    const auto stageOf = [&](int group) { return stages + group % integerStages * 2 * integerTileCells; };
    const IntegerCopies copies(own, x, block, grouping.rowsPerToken);
    const bool rowScales = hasRowScales(own);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int feature = static_cast<int>(blockIdx.x) * tileFeatures + warp / 2 * 32 + lane / 4; // and 8, 16, 24 more
    const int groups = groupsOf(own.columns);
    IntegerSums<int> sums = {};
    IntegerSums<float> scaled = {};
    IntegerSums<float> totals = {};
    for (int group = 0; group < integerStages - 1; ++group)
        copies.fetch(x, group, stageOf(group));
    for (int group = 0; group < groups; ++group) {
        ptx::waitCopies<integerStages - 2>();
        __syncthreads(); // the group is there, and nobody reads the one before any more
        copies.fetch(x, group + integerStages - 1, stageOf(group + integerStages - 1));
        float4 scales[4] = {};
        for (int i = 0; i < 4 && !rowScales; ++i)
            scales[i] = ptx::load<float4>(scalesOf(own, feature + 8 * i) + group * groupUnits);
#pragma unroll
        for (int unit = 0; unit < groupUnits; ++unit) {
            multiplyUnit(sums, stageOf(group), unit);
            if (!rowScales)
                addScaled(scaled, sums, scales, unit);
        }
        if (!rowScales && (group % segmentGroups == segmentGroups - 1 || group + 1 == groups))
            addScaledSegment(totals, scaled);
    }
    ptx::waitCopies<0>(); // of groups that do not exist
    target.bias = biasOf(grouping, target.bias, block.expert);
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int r = warp % 2 * 32 + i / 4 % 4 * 8 + lane % 4 * 2 + i % 2;
        const int own8 = feature + i / 16 * 16 + i / 2 % 2 * 8;
        float total = totals[i / 16][i / 4 % 4][i % 4];
        if (rowScales)
            total = static_cast<float>(sums[i / 16][i / 4 % 4][i % 4]) * *scalesOf(own, own8);
        if (r < block.count && own8 < own.rows)
            storeProduct(total, block.at(r), own8, own.factor, x, target, grouping.rowsPerToken);
    }
}

bool launchIntegers(const ProductLaunch &launch)
{
    if (launch.weight.type != DType::W8A8)
        return false;
    CHECK(launch.expanded == nullptr);
    const auto run = [&](auto *kernel, int threads, int sharedBytes) {
        checkLaunch(simt::launch(kernel, launch.grid, dim3(static_cast<unsigned>(threads)),
                                 static_cast<std::size_t>(sharedBytes), launch.stream, launch.weight, launch.x,
                                 launch.target, launch.grouping),
                    "integerProducts");
    };
    const int segments = segmentsOf(launch.weight.columns);
    if (launch.rowsOfTile == tileRows)
        run(integerTilesKernel, tileThreads, integerTileBytes);
    else if (launch.mostRows <= 4)
        run(integerRowsKernel<4>, min(segments, 8) * 32, rowSharedBytes(segments, 1));
    else
        run(integerRowsKernel<16>, min(segments, 4) * 32, rowSharedBytes(segments, 2));
    return true;
}

} // namespace kernels::cuda::product
