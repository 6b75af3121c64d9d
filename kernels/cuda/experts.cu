// SPDX-License-Identifier: GPL-3.0-or-later
// Mixtures of experts around their products: the router, rows sorted by expert, and their weighted sums.
#include "kernels/cuda/launch_experts.h"

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kernels::cuda {

namespace {

constexpr int warpsOfGrouping = 4;
constexpr int combineThreads = 128;

} // namespace

/// A number that orders floats: higher for higher ones, equal for both zeros, NaN as -infinity. Never 0.
__device__ __forceinline__ std::uint32_t orderOf(float value)
{
    const unsigned bits = __float_as_uint(value != value ? -INFINITY : value + 0.0F);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

/// Ranks by order, then by the lower index.
__device__ __forceinline__ std::uint64_t rankKey(std::uint32_t order, int index)
{
    return static_cast<std::uint64_t>(order) << 32 | (0xffffffffU - static_cast<unsigned>(index));
}

__device__ __forceinline__ std::uint64_t warpLargest(std::uint64_t key)
{
    for (int distance = 16; distance > 0; distance /= 2)
        key = max(key, __shfl_xor_sync(~0U, key, distance));
    return key;
}

/// What a token's warp works with, in shared memory.
struct RouteMemory {
    float *scores;         ///< [experts]
    std::uint32_t *orders; ///< [experts] of the numbers that choose; 0 once chosen
    float *groups;         ///< [groups]
    float *found;          ///< [used] weights of those chosen
    int *chosen;           ///< [used]
};

/// exp(x - largest) / sum over `count` values in shared memory. The sum is taken in order, as on the host.
__device__ __forceinline__ void softmaxInOrder(float *values, int count)
{
    const int lane = static_cast<int>(threadIdx.x);
    float largest = -INFINITY;
    for (int i = lane; i < count; i += 32)
        largest = fmaxf(largest, values[i]);
    largest = warpMax(largest);
    for (int i = lane; i < count; i += 32)
        values[i] = expf(values[i] - largest);
    __syncwarp();
    float sum = 0.0F;
    for (int i = 0; i < count; ++i)
        sum += values[i];
    __syncwarp();
    for (int i = lane; i < count; i += 32)
        values[i] /= sum;
    __syncwarp();
}

/// What chooses expert e, before groups are left out.
__device__ __forceinline__ float choiceOf(const RouterShape &shape, const float *logits, const RouteMemory &memory,
                                          int e)
{
    if (shape.selectionBias != nullptr)
        return memory.scores[e] + shape.selectionBias[e];
    // Scores keep the order of logits, but rounded to float32 they tie where logits do not.
    return shape.groupsUsed == shape.groups ? logits[e] : memory.scores[e];
}

/// Best choice of a group, or the sum of its two best.
__device__ __forceinline__ float groupScore(const RouterShape &shape, const float *logits, const RouteMemory &memory,
                                            int group)
{
    const int size = shape.experts / shape.groups;
    float best = -INFINITY;
    float second = -INFINITY;
    for (int e = group * size; e < (group + 1) * size; ++e) {
        const float choice = choiceOf(shape, logits, memory, e);
        if (choice > best) {
            second = best;
            best = choice;
        } else if (choice > second) {
            second = choice;
        }
    }
    return shape.groupRule == RouterShape::GroupRule::Max || size == 1 ? best : best + second;
}

/// Whether fewer than groupsUsed groups rank before this one.
__device__ __forceinline__ bool groupKept(const RouterShape &shape, const float *groups, int group)
{
    const std::uint64_t own = rankKey(orderOf(groups[group]), group);
    int before = 0;
    for (int g = 0; g < shape.groups; ++g)
        before += rankKey(orderOf(groups[g]), g) > own ? 1 : 0;
    return before < shape.groupsUsed;
}

/// Fills orders. Experts outside of the best groups count 0.
__device__ __forceinline__ void rankChoices(const RouterShape &shape, const float *logits, const RouteMemory &memory)
{
    const int lane = static_cast<int>(threadIdx.x);
    const bool grouped = shape.groupsUsed < shape.groups;
    for (int g = lane; grouped && g < shape.groups; g += 32)
        memory.groups[g] = groupScore(shape, logits, memory, g);
    __syncwarp();
    for (int e = lane; e < shape.experts; e += 32) {
        const bool kept = !grouped || groupKept(shape, memory.groups, e / (shape.experts / shape.groups));
        memory.orders[e] = orderOf(kept ? choiceOf(shape, logits, memory, e) : 0.0F);
    }
    __syncwarp();
}

/// Fills chosen and found, best choice first.
__device__ __forceinline__ void takeBest(const RouterShape &shape, const RouteMemory &memory)
{
    const int lane = static_cast<int>(threadIdx.x);
    for (int r = 0; r < shape.expertsUsed; ++r) {
        std::uint64_t best = 0;
        for (int e = lane; e < shape.experts; e += 32)
            best = max(best, rankKey(memory.orders[e], e));
        best = warpLargest(best);
        const int expert = static_cast<int>(0xffffffffU - static_cast<unsigned>(best));
        __syncwarp();
        if (lane == 0) {
            memory.orders[expert] = 0;
            memory.chosen[r] = expert;
            memory.found[r] = memory.scores[expert];
        }
        __syncwarp();
    }
}

/// Turns scores found into weights.
__device__ __forceinline__ void weigh(const RouterShape &shape, const RouteMemory &memory)
{
    const int lane = static_cast<int>(threadIdx.x);
    if (shape.scores == RouterShape::Scores::SelectedSoftmax)
        softmaxInOrder(memory.found, shape.expertsUsed);
    float sum = 0.0F;
    for (int r = 0; r < shape.expertsUsed; ++r)
        sum += memory.found[r];
    __syncwarp();
    for (int r = lane; r < shape.expertsUsed; r += 32) {
        const float weight = shape.normalise ? memory.found[r] / (sum + 1e-20F) : memory.found[r];
        memory.found[r] = weight * shape.scale;
    }
    __syncwarp();
}

/// Whether weight a stands before weight b: higher first, equal ones by id, NaN last as they were chosen.
__device__ __forceinline__ bool standsBefore(const RouteMemory &memory, int a, int b)
{
    const float first = memory.found[a];
    const float second = memory.found[b];
    const bool firstBad = first != first;
    const bool secondBad = second != second;
    if (firstBad || secondBad)
        return firstBad && secondBad ? a < b : secondBad;
    return first > second || (first == second && memory.chosen[a] < memory.chosen[b]);
}

/// One warp for each token.
__global__ void __launch_bounds__(32) routeKernel(RowSpan logits, RouterShape shape, int *ids, RowSpan weights)
{
    SIMT_DYNAMIC_SHARED(float, numbers);
    RouteMemory memory{};
    memory.scores = numbers;
    memory.orders = reinterpret_cast<std::uint32_t *>(memory.scores + shape.experts);
    memory.groups = reinterpret_cast<float *>(memory.orders + shape.experts);
    memory.found = memory.groups + shape.groups;
    memory.chosen = reinterpret_cast<int *>(memory.found + shape.expertsUsed);
    const int token = static_cast<int>(blockIdx.x);
    const int lane = static_cast<int>(threadIdx.x);
    const float *own = rowOf(logits, token);
    for (int e = lane; e < shape.experts; e += 32)
        memory.scores[e] = shape.scores == RouterShape::Scores::Sigmoid ? 1.0F / (1.0F + expf(-own[e])) : own[e];
    __syncwarp();
    if (shape.scores == RouterShape::Scores::Softmax)
        softmaxInOrder(memory.scores, shape.experts);
    rankChoices(shape, own, memory);
    takeBest(shape, memory);
    weigh(shape, memory);
    for (int r = lane; r < shape.expertsUsed; r += 32) {
        int place = 0;
        for (int other = 0; other < shape.expertsUsed; ++other)
            place += standsBefore(memory, other, r) ? 1 : 0;
        ids[token * shape.expertsUsed + place] = memory.chosen[r];
        rowOf(weights, token)[place] = memory.found[r];
    }
}

/// One warp for each expert: where its rows begin, and which they are.
__global__ void __launch_bounds__(warpsOfGrouping * 32) groupRowsKernel(const int *ids, RowGroups groups)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int expert = static_cast<int>(blockIdx.x) * warpsOfGrouping + static_cast<int>(threadIdx.x) / 32;
    if (expert >= groups.experts)
        return; // the whole warp
    int start = 0;
    for (int first = 0; first < groups.rowCount; first += 32)
        start += __popc(__ballot_sync(~0U, first + lane < groups.rowCount && ids[first + lane] < expert));
    int end = start;
    for (int first = 0; first < groups.rowCount; first += 32) {
        const bool mine = first + lane < groups.rowCount && ids[first + lane] == expert;
        const unsigned found = __ballot_sync(~0U, mine);
        if (mine)
            groups.rows[end + __popc(found & ((1U << lane) - 1U))] = first + lane;
        end += __popc(found);
    }
    if (lane == 0)
        groups.starts[expert] = start;
    if (lane == 0 && expert == groups.experts - 1)
        groups.starts[groups.experts] = end;
}

/// One warp: the table of tiles from the starts.
__global__ void __launch_bounds__(32) tilesKernel(RowGroups groups)
{
    const int lane = static_cast<int>(threadIdx.x);
    int filled = 0;
    for (int first = 0; first < groups.experts; first += 32) {
        const int expert = first + lane;
        const int start = expert < groups.experts ? groups.starts[expert] : 0;
        const int rows = expert < groups.experts ? groups.starts[expert + 1] - start : 0;
        const int tiles = (rows + groups.tileRows - 1) / groups.tileRows;
        int place = tiles; // becomes the sum over this lane and those before
        for (unsigned distance = 1; distance < 32; distance *= 2) {
            const int before = __shfl_up_sync(~0U, place, distance);
            place += lane >= static_cast<int>(distance) ? before : 0;
        }
        for (int t = 0; t < tiles; ++t) {
            const int begin = t * groups.tileRows;
            groups.tiles[filled + place - tiles + t] = {expert, start + begin, min(groups.tileRows, rows - begin)};
        }
        filled += __shfl_sync(~0U, place, 31);
    }
    for (int t = filled + lane; t < groups.tileCount; t += 32)
        groups.tiles[t] = {0, 0, 0};
}

/// One block for each token.
__global__ void __launch_bounds__(combineThreads)
    combineKernel(RowSpan products, const int *ids, RowSpan weights, RowSpan inout)
{
    SIMT_DYNAMIC_SHARED(int, order); // of the token's products, by expert
    const int token = static_cast<int>(blockIdx.x);
    const int count = weights.columns;
    const int *own = ids + token * count;
    for (int r = static_cast<int>(threadIdx.x); r < count; r += combineThreads) {
        int place = 0;
        for (int other = 0; other < count; ++other)
            place += own[other] < own[r] || (own[other] == own[r] && other < r) ? 1 : 0;
        order[place] = r;
    }
    __syncthreads();
    float *target = rowOf(inout, token);
    const float *factors = rowOf(weights, token);
    for (int column = static_cast<int>(threadIdx.x); column < inout.columns; column += combineThreads) {
        float sum = target[column];
        for (int i = 0; i < count; ++i)
            sum = fmaf(factors[order[i]], rowOf(products, token * count + order[i])[column], sum);
        target[column] = sum;
    }
}

void launchRoute(const RowSpan &logits, const RouterShape &shape, int *ids, const RowSpan &weights, StreamHandle stream)
{
    CHECK(shape.experts <= mostRoutedExperts);
    if (logits.rows == 0)
        return;
    const auto words = static_cast<std::size_t>(2 * shape.experts + shape.groups + 2 * shape.expertsUsed);
    checkLaunch(simt::launch(routeKernel, dim3(static_cast<unsigned>(logits.rows)), dim3(32), words * sizeof(float),
                             stream, logits, shape, ids, weights),
                "route");
}

void launchGroupRows(const int *ids, const RowGroups &groups, StreamHandle stream)
{
    if (groups.rowCount == 0)
        return;
    const auto blocks = static_cast<unsigned>((groups.experts + warpsOfGrouping - 1) / warpsOfGrouping);
    checkLaunch(simt::launch(groupRowsKernel, dim3(blocks), dim3(warpsOfGrouping * 32), 0, stream, ids, groups),
                "groupRows");
    checkLaunch(simt::launch(tilesKernel, dim3(1), dim3(32), 0, stream, groups), "expertTiles");
}

void launchCombine(const RowSpan &products, const int *ids, const RowSpan &weights, const RowSpan &inout,
                   StreamHandle stream)
{
    if (inout.rows == 0)
        return;
    checkLaunch(simt::launch(combineKernel, dim3(static_cast<unsigned>(inout.rows)), dim3(combineThreads),
                             static_cast<std::size_t>(weights.columns) * sizeof(int), stream, products, ids, weights,
                             inout),
                "combine");
}

} // namespace kernels::cuda
