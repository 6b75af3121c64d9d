// SPDX-License-Identifier: GPL-3.0-or-later
// Paged attention for decode and prefill. A tile of 16 rows (query tokens x heads of one group) meets the keys of its
// sequence in tiles of 64 on the tensor cores; 256 keys at absolute positions are a split. Splits are merged one after
// the other, either by the block that computed them or by a kernel of its own when blocks share a row's keys. Both ways
// are the same operations, and keys that a row does not see change nothing, so a row's bits depend neither on chunks
// nor on neighbours nor on where blocks lie. Source: Dao et al. 2023, Flash-Decoding (splits); arXiv:2309.06180
// (pages).
#include "kernels/cuda/attention.cuh"

namespace kernels::cuda {

namespace {

constexpr int threads = 128;
constexpr int warps = threads / 32;
constexpr int rows = attentionTileRows;
constexpr int keyStride = tileKeys + 8;

/// bfloat16 has few digits, so queries and weights are the sum of two numbers there.
template<typename T> constexpr int termsOf = std::is_same_v<T, __half> ? 1 : 2;

/// Pairs of 16-column tiles of values that a warp has.
template<int dim>
constexpr int pairsOf = ((dim > mostLatentValueDim ? mostLatentValueDim : dim) / 16 + warps - 1) / warps;
template<int dim> constexpr bool totalIsShared = dim > mostHeadDim;
template<int dim> constexpr int strideOf = dim + 8; // rows that meet in no bank

/// With `latent` values are parts of the keys.
template<int dim, typename T, bool latent = false> struct Layout {
    static constexpr int stride = strideOf<dim>;
    static constexpr int q = 0;
    static constexpr int k = q + termsOf<T> * rows * stride;
    static constexpr int v = latent ? k : k + tileKeys * stride;
    static constexpr int p = v + tileKeys * stride;
    static constexpr int elements = p + termsOf<T> * rows * keyStride;
    static constexpr std::size_t bytes = static_cast<std::size_t>(elements) * sizeof(T)
        + (totalIsShared<dim> ? pairsOf<dim> * 8 * threads * sizeof(float) : 0);
};

} // namespace

/// What a block works on, the same in all its threads.
struct TileWork {
    int sequence;
    int firstRow;
    int rowCount; ///< of the sequence: tokens x heads of a group
    int firstQuery;
    int position; ///< of the sequence's first query token
    int context;
    int kvHead;
};

/// Softmax of a tile of 16 rows on the way: a thread holds two rows, and of each two columns of some pairs of tiles.
template<int pairs> struct Accumulator {
    float largest[2];
    float sum[2];
    float values[pairs > 0 ? pairs : 1][2][4];

    __device__ void clear()
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            largest[half] = -INFINITY;
            sum[half] = 0.0F;
        }
#pragma unroll
        for (int i = 0; i < pairs * 8; ++i)
            values[i / 8][i / 4 % 2][i % 4] = 0.0F;
    }
};

__device__ __forceinline__ TileWork workOf(const AttentionArguments &a)
{
    const AttentionTile tile = a.tiles[blockIdx.x];
    const int first = a.queryStarts[tile.sequence];
    const int tokens = a.queryStarts[tile.sequence + 1] - first;
    const int context = a.contextLengths[tile.sequence];
    return {tile.sequence,    tile.firstRow, tokens * a.groupHeads,       first,
            context - tokens, context,       static_cast<int>(blockIdx.y)};
}

/// Row of a query span for row `row` of the sequence.
__device__ __forceinline__ int queryRow(const AttentionArguments &a, const TileWork &work, int row)
{
    return (work.firstQuery + row / a.groupHeads) * a.q.perGroup + work.kvHead * a.groupHeads + row % a.groupHeads;
}

template<int dim, typename T>
__device__ __forceinline__ void loadQueries(const AttentionArguments &a, const TileWork &work, T *tile)
{
    constexpr int stride = strideOf<dim>;
    for (int i = static_cast<int>(threadIdx.x); i < rows * dim; i += threads) {
        const int row = work.firstRow + i / dim;
        const bool inside = row < work.rowCount && i % dim < a.keys.headDim;
        const float value = inside ? rowOf(a.q, queryRow(a, work, row))[i % dim] * a.scale : 0.0F;
        const T number = numberOf<T>(value);
        tile[i / dim * stride + i % dim] = number;
        if constexpr (termsOf<T> > 1)
            tile[(rows + i / dim) * stride + i % dim] = numberOf<T>(value - valueOf(number));
    }
}

/// Products of the 16 rows with 16 keys of the warp.
template<int dim, typename T>
__device__ __forceinline__ void multiplyKeys(const T *qTile, const T *kTile, float (&scores)[2][4])
{
    constexpr int stride = strideOf<dim>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int firstKey = static_cast<int>(threadIdx.x) / 32 * 16;
    for (int k = 0; k < dim; k += 16) {
        std::uint32_t pairs[4];
        ptx::loadMatrices<false>(pairs, kTile + (firstKey + lane / 16 * 8 + lane % 8) * stride + k + lane / 8 % 2 * 8);
        const std::uint32_t b[2][2] = {{pairs[0], pairs[1]}, {pairs[2], pairs[3]}};
#pragma unroll
        for (int term = 0; term < termsOf<T>; ++term) {
            std::uint32_t a[4];
            ptx::loadMatrices<false>(a, qTile + (term * rows + lane % 16) * stride + k + lane / 16 * 8);
            ptx::mma16816<T>(scores[0], a, b[0]);
            ptx::mma16816<T>(scores[1], a, b[1]);
        }
    }
}

__device__ __forceinline__ int bitsOf(std::uint64_t mask)
{
    return __popc(static_cast<unsigned>(mask)) + __popc(static_cast<unsigned>(mask >> 32));
}

/// Whether a query token of a draft tree sees a key. What stands before the tree all see; of the tree a token sees the
/// way to itself, whose length says its position and that of a key.
__device__ __forceinline__ bool seesInTree(const AttentionArguments &a, const TileWork &work, int token, int key)
{
    const std::uint64_t own = a.treeMasks[work.firstQuery + token];
    const int position = work.position + bitsOf(own) - 1;
    const int step = key - work.position;
    if (step < 0)
        return a.window == 0 || key > position - a.window;
    if (step >= 64 || (own >> step & 1U) == 0)
        return false;
    const int keyPosition = work.position + bitsOf(a.treeMasks[work.firstQuery + step]) - 1;
    return a.window == 0 || keyPosition > position - a.window;
}

/// First key that the first row of the tile may see; a token of a tree may stand as far back as its root.
__device__ __forceinline__ int firstKeyOf(const AttentionArguments &a, const TileWork &work, int token)
{
    const int position = work.position + (a.treeMasks != nullptr ? 0 : token);
    return a.window > 0 ? max(0, position - a.window + 1) : 0;
}

/// Score in units of log2, minus infinity where the row does not see the key.
__device__ __forceinline__ float finishScore(const AttentionArguments &a, const TileWork &work, float score, int row,
                                             int key)
{
    const int position = work.position + row / a.groupHeads;
    bool seen = row < work.rowCount && key <= position;
    if (a.treeMasks != nullptr)
        seen = seen && seesInTree(a, work, row / a.groupHeads, key);
    else
        seen = seen && (a.window == 0 || key > position - a.window);
    if (a.softCap > 0.0F)
        score = a.softCap * tanhf(score / a.softCap);
    return seen ? score * log2OfE : -INFINITY;
}

/// Largest or sum of the four lanes that share a row.
template<typename Combine> __device__ __forceinline__ float overRow(float value, Combine combine)
{
    value = combine(value, __shfl_xor_sync(~0U, value, 1));
    return combine(value, __shfl_xor_sync(~0U, value, 2));
}

/// Turns scores into weights in pTile and brings the accumulator under the new maximum. All threads of the block.
template<int pairs, typename T>
__device__ __forceinline__ void softmaxTile(float (&scores)[2][4], T *pTile, Accumulator<pairs> &own)
{
    SIMT_SHARED(float, parts, [2][warps][rows]);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const auto larger = [](float x, float y) { return fmaxf(x, y); };
    const auto plus = [](float x, float y) { return x + y; };
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const float *s = &scores[0][half * 2];
        const float largest =
            overRow(fmaxf(fmaxf(s[0], s[1]), fmaxf(scores[1][half * 2], scores[1][half * 2 + 1])), larger);
        if (lane % 4 == 0)
            parts[0][warp][half * 8 + lane / 4] = largest;
    }
    __syncthreads();
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = half * 8 + lane / 4;
        float largest = own.largest[half];
        for (int other = 0; other < warps; ++other)
            largest = fmaxf(largest, parts[0][other][row]);
        const bool none = largest == -INFINITY;
        factors[half] = none ? 1.0F : ptx::exp2Fast(own.largest[half] - largest);
        own.largest[half] = largest;
        float sum = 0.0F;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float weight = none ? 0.0F : ptx::exp2Fast(scores[i / 2][half * 2 + i % 2] - largest);
            sum += weight;
            const T number = numberOf<T>(weight);
            T *target = pTile + row * keyStride + warp * 16 + i / 2 * 8 + lane % 4 * 2 + i % 2;
            *target = number;
            if constexpr (termsOf<T> > 1)
                target[rows * keyStride] = numberOf<T>(weight - valueOf(number));
        }
        sum = overRow(sum, plus);
        if (lane % 4 == 0)
            parts[1][warp][row] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = 0.0F;
        for (int other = 0; other < warps; ++other)
            sum += parts[1][other][half * 8 + lane / 4];
        own.sum[half] = fmaf(own.sum[half], factors[half], sum);
    }
#pragma unroll
    for (int i = 0; i < pairs * 8; ++i)
        own.values[i / 8][i / 4 % 2][i % 4] *= factors[i % 4 / 2];
}

/// Adds weights times values, for the 16-column pieces of the warp.
template<int dim, int pairs, typename T>
__device__ __forceinline__ void addValues(const T *pTile, const T *vTile, Accumulator<pairs> &own)
{
    constexpr int stride = strideOf<dim>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int k = 0; k < tileKeys; k += 16) {
        std::uint32_t a[termsOf<T>][4];
#pragma unroll
        for (int term = 0; term < termsOf<T>; ++term)
            ptx::loadMatrices<false>(a[term], pTile + (term * rows + lane % 16) * keyStride + k + lane / 16 * 8);
#pragma unroll
        for (int pair = 0; pair < pairs; ++pair) {
            const int column = (pair * warps + warp) * 16;
            if (column >= dim)
                continue;
            std::uint32_t numbers[4];
            ptx::loadMatrices<true>(numbers,
                                    vTile + (k + lane / 8 % 2 * 8 + lane % 8) * stride + column + lane / 16 * 8);
            const std::uint32_t b[2][2] = {{numbers[0], numbers[1]}, {numbers[2], numbers[3]}};
#pragma unroll
            for (int term = 0; term < termsOf<T>; ++term) {
                ptx::mma16816<T>(own.values[pair][0], a[term], b[0]);
                ptx::mma16816<T>(own.values[pair][1], a[term], b[1]);
            }
        }
    }
}

/// All keys of one split that a row of the tile sees.
template<int dim, bool latent, int pairs, typename T>
__device__ __forceinline__ void attendSplit(const AttentionArguments &a, const TileWork &work, int firstKey, int endKey,
                                            T *memory, Accumulator<pairs> &own)
{
    using L = Layout<dim, T, latent>;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int *table = a.blockTables + static_cast<std::int64_t>(work.sequence) * a.maxBlocks;
    own.clear();
    for (int first = firstKey / tileKeys * tileKeys; first < endKey; first += tileKeys) {
        __syncthreads(); // the tiles of the last turn are read
        loadTile<dim, T, threads>(a.keys, table, work.kvHead, first, firstKey, work.context, memory + L::k);
        if constexpr (!latent)
            loadTile<dim, T, threads>(a.values, table, work.kvHead, first, firstKey, work.context, memory + L::v);
        ptx::waitCopies<latent ? 0 : 1>(); // keys; values may be under way until weights are made
        __syncthreads();
        float scores[2][4] = {};
        multiplyKeys<dim>(memory + L::q, memory + L::k, scores);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int key = first + static_cast<int>(threadIdx.x) / 32 * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            float &score = scores[i / 4][i % 4];
            score = finishScore(a, work, score, work.firstRow + i % 4 / 2 * 8 + lane / 4, key);
        }
        ptx::waitCopies<0>();
        softmaxTile(scores, memory + L::p, own); // with the barrier after which all values are there
        addValues<dim>(memory + L::p, memory + L::v, own);
    }
}

/// Splits merged so far, in registers.
template<int pairs> struct RegisterTotal {
    Accumulator<pairs> parts;

    __device__ explicit RegisterTotal(void *) { parts.clear(); }
    __device__ float &value(int i) { return parts.values[i / 8][i / 4 % 2][i % 4]; }
    __device__ const Accumulator<pairs> &finished(Accumulator<pairs> &) const { return parts; }
};

/// The same with the values in shared memory, where a thread's registers hold no more than those of one split.
template<int pairs> struct SharedTotal {
    Accumulator<0> parts;
    float *memory; ///< [pairs * 8, threads]

    __device__ explicit SharedTotal(void *room)
        : memory(static_cast<float *>(room))
    {
        parts.clear();
        for (int i = 0; i < pairs * 8; ++i)
            value(i) = 0.0F;
    }
    __device__ float &value(int i) { return memory[i * threads + static_cast<int>(threadIdx.x)]; }
    __device__ const Accumulator<pairs> &finished(Accumulator<pairs> &own)
    {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            own.largest[half] = parts.largest[half];
            own.sum[half] = parts.sum[half];
        }
#pragma unroll
        for (int i = 0; i < pairs * 8; ++i)
            own.values[i / 8][i / 4 % 2][i % 4] = value(i);
        return own;
    }
};

template<typename Total, int pairs>
__device__ __forceinline__ void mergeInto(Total &total, const Accumulator<pairs> &own)
{
    Merge merge[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        merge[half] = mergeOf(total.parts.largest[half], own.largest[half]);
        total.parts.largest[half] = merge[half].largest;
        total.parts.sum[half] = merged(merge[half], total.parts.sum[half], own.sum[half]);
    }
#pragma unroll
    for (int i = 0; i < pairs * 8; ++i)
        total.value(i) = merged(merge[i % 4 / 2], total.value(i), own.values[i / 8][i / 4 % 2][i % 4]);
}

/// Calls store(half, column, value) for what the thread holds within the head.
template<int pairs, typename Store>
__device__ __forceinline__ void forValues(const Accumulator<pairs> &own, int headDim, Store store)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
    for (int i = 0; i < pairs * 8; ++i) {
        const int column = (i / 8 * warps + warp) * 16 + i / 4 % 2 * 8 + lane % 4 * 2 + i % 2;
        if (column < headDim)
            store(i % 4 / 2, column, own.values[i / 8][i / 4 % 2][i % 4]);
    }
}

/// Row of the partial results of a split: values, then largest score and sum.
__device__ __forceinline__ float *partialRow(const AttentionArguments &a, int split, int row)
{
    return a.partials + (static_cast<std::int64_t>(split) * a.q.rows + row) * (a.values.headDim + 2);
}

template<int pairs>
__device__ __forceinline__ void storePartial(const AttentionArguments &a, const TileWork &work, int split,
                                             const Accumulator<pairs> &own)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = work.firstRow + half * 8 + lane / 4;
        if (row >= work.rowCount || lane % 4 != 0 || threadIdx.x >= 32)
            continue;
        float *target = partialRow(a, split, queryRow(a, work, row)) + a.values.headDim;
        target[0] = own.largest[half];
        target[1] = own.sum[half];
    }
    forValues(own, a.values.headDim, [&](int half, int column, float value) {
        const int row = work.firstRow + half * 8 + lane / 4;
        if (row < work.rowCount)
            partialRow(a, split, queryRow(a, work, row))[column] = value;
    });
}

template<int pairs>
__device__ __forceinline__ void storeRows(const AttentionArguments &a, const TileWork &work,
                                          const Accumulator<pairs> &total)
{
    const int lane = static_cast<int>(threadIdx.x) % 32;
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = work.firstRow + half * 8 + lane / 4;
        factors[half] = finishFactor(total.largest[half], total.sum[half], a.sinks,
                                     work.kvHead * a.groupHeads + row % a.groupHeads);
    }
    forValues(total, a.values.headDim, [&](int half, int column, float value) {
        const int row = work.firstRow + half * 8 + lane / 4;
        if (row < work.rowCount)
            rowOf(a.out, queryRow(a, work, row))[column] = value * factors[half];
    });
}

/// Rows of a sequence without context, which only fills its step.
__device__ __forceinline__ void storeZeros(const AttentionArguments &a, const TileWork &work)
{
    for (int row = work.firstRow; row < min(work.firstRow + rows, work.rowCount); ++row)
        for (int column = static_cast<int>(threadIdx.x); column < a.values.headDim; column += threads)
            rowOf(a.out, queryRow(a, work, row))[column] = 0.0F;
}

/// Blocks [tiles, key heads, splits or 1].
template<int dim, typename T, bool latent>
__global__ void __launch_bounds__(threads, 2) attentionKernel(AttentionArguments a)
{
    constexpr int pairs = pairsOf<dim>;
    SIMT_DYNAMIC_SHARED(T, memory);
    const TileWork work = workOf(a);
    const int lastRow = min(work.firstRow + rows, work.rowCount) - 1;
    const int end = work.position + lastRow / a.groupHeads + 1; // keys that the tile sees: [begin, end)
    const int begin = firstKeyOf(a, work, work.firstRow / a.groupHeads);
    const bool shared = a.partials != nullptr;
    const int firstSplit = shared ? static_cast<int>(blockIdx.z) : begin / attentionSplitKeys;
    const int endSplit = shared ? firstSplit + 1 : (end - 1) / attentionSplitKeys + 1;
    if (work.context == 0 && !shared)
        storeZeros(a, work);
    if (work.context == 0 || firstSplit * attentionSplitKeys >= end || endSplit * attentionSplitKeys <= begin)
        return; // the whole block
    loadQueries<dim>(a, work, memory + Layout<dim, T, latent>::q);
    std::conditional_t<totalIsShared<dim>, SharedTotal<pairs>, RegisterTotal<pairs>> total(
        memory + Layout<dim, T, latent>::elements);
    Accumulator<pairs> own;
    for (int split = firstSplit; split < endSplit; ++split) {
        attendSplit<dim, latent>(a, work, max(begin, split * attentionSplitKeys),
                                 min(end, (split + 1) * attentionSplitKeys), memory, own);
        if (shared)
            storePartial(a, work, split, own);
        else
            mergeInto(total, own);
    }
    if (!shared)
        storeRows(a, work, total.finished(own));
}

/// Blocks [tiles, key heads]: merges the splits of 16 rows, a row after the other.
__global__ void __launch_bounds__(threads) mergeSplitsKernel(AttentionArguments a)
{
    const TileWork work = workOf(a);
    if (work.context == 0) {
        storeZeros(a, work);
        return;
    }
    for (int row = work.firstRow; row < min(work.firstRow + rows, work.rowCount); ++row) {
        const int position = work.position + row / a.groupHeads;
        const int begin = firstKeyOf(a, work, row / a.groupHeads);
        const int query = queryRow(a, work, row);
        for (int column = static_cast<int>(threadIdx.x); column < a.values.headDim; column += threads) {
            float largest = -INFINITY;
            float sum = 0.0F;
            float value = 0.0F;
            for (int split = begin / attentionSplitKeys; split <= position / attentionSplitKeys; ++split) {
                const float *partial = partialRow(a, split, query);
                const Merge merge = mergeOf(largest, partial[a.values.headDim]);
                largest = merge.largest;
                sum = merged(merge, sum, partial[a.values.headDim + 1]);
                value = merged(merge, value, partial[column]);
            }
            rowOf(a.out, query)[column] =
                value * finishFactor(largest, sum, a.sinks, work.kvHead * a.groupHeads + row % a.groupHeads);
        }
    }
}

bool isAttentionType(DType type)
{
    return type == DType::F16 || type == DType::BF16 || type == DType::Q8_0 || type == DType::E4M3;
}

template<int dim, typename T, bool latent = false> void launchTiles(const AttentionArguments &a, StreamHandle stream)
{
    const dim3 grid(static_cast<unsigned>(a.tileCount), static_cast<unsigned>(a.keys.heads),
                    a.partials != nullptr ? static_cast<unsigned>(a.splits) : 1);
    checkLaunch(
        simt::launch(attentionKernel<dim, T, latent>, grid, dim3(threads), Layout<dim, T, latent>::bytes, stream, a),
        "attention");
    if (a.partials != nullptr)
        checkLaunch(simt::launch(mergeSplitsKernel, dim3(grid.x, grid.y), dim3(threads), 0, stream, a), "mergeSplits");
}

template<typename T> void launchAs(const AttentionArguments &a, StreamHandle stream)
{
    const int dim = a.keys.headDim;
    if (a.valuesInKeys && dim <= 128)
        return launchTiles<128, T, true>(a, stream);
    if (a.valuesInKeys)
        return launchTiles<mostLatentHeadDim, T, true>(a, stream);
    if (dim <= 32)
        return launchTiles<32, T>(a, stream);
    if (dim <= 64)
        return launchTiles<64, T>(a, stream);
    if (dim <= 80)
        return launchTiles<80, T>(a, stream);
    if (dim <= 96)
        return launchTiles<96, T>(a, stream);
    if (dim <= 128)
        return launchTiles<128, T>(a, stream);
    return launchTiles<256, T>(a, stream);
}

void launchAttention(const AttentionArguments &attention, StreamHandle stream)
{
    if (attention.tileCount == 0)
        return;
    if (attention.keys.type == DType::BF16 || attention.values.type == DType::BF16)
        return launchAs<__nv_bfloat16>(attention, stream);
    launchAs<__half>(attention, stream);
}

} // namespace kernels::cuda
