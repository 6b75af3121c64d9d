// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// The best of many numbers, sorted, by one block. Source of the network: Batcher 1968, "Sorting networks and their
/// applications" (bitonic, in the form whose comparisons all point one way, so that any length can be sorted).

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/reduce.cuh"

namespace kernels::cuda::ranking {

constexpr int threads = 256;
constexpr int warps = threads / 32;
constexpr int buckets = 256;
constexpr int mostShared = 1024;     ///< entries of a list in shared memory
constexpr double widest = 32.0;      ///< what is further below the peak shares a bucket
constexpr double negligible = -60.0; ///< exp of it cannot change a float64 sum of a vocabulary

/// Entries sorted by value, equal ones by id.
struct List {
    double *values = nullptr;
    double *probabilities = nullptr;
    int *ids = nullptr;
    int count = 0;
};

/// Where lists are kept: short ones in shared memory.
struct Room {
    List shared;  ///< [mostShared]
    List global;  ///< [vocab]
    int *numbers; ///< [buckets + warps + 2] in shared memory
};

__device__ __forceinline__ bool ranksBefore(double value, int id, double other, int otherId)
{
    return value != other ? value > other : id < otherId;
}

/// The largest of a block's values, in every thread. `memory` [warps] is free before and after.
template<typename T> __device__ __forceinline__ T blockMax(T value, T *memory)
{
    for (int distance = 16; distance > 0; distance /= 2)
        value = max(value, __shfl_xor_sync(~0U, value, distance));
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        memory[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < warps; ++warp)
        value = max(value, memory[warp]);
    __syncthreads();
    return value;
}

/// Numbers of the block's threads before this one, and of all, for which `counted` holds. To be reached by all.
struct Place {
    int before;
    int all;
};

__device__ __forceinline__ Place placeOf(bool counted, int *memory)
{
    const unsigned found = __ballot_sync(~0U, counted);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        memory[warp] = __popc(found);
    __syncthreads();
    Place place{__popc(found & ((1U << threadIdx.x % 32) - 1U)), 0};
    for (int w = 0; w < warps; ++w) {
        place.before += w < warp ? memory[w] : 0;
        place.all += memory[w];
    }
    return place;
}

/// Fills a list with all entries that are `wanted`, by ascending id.
template<typename Wanted>
__device__ __forceinline__ void collect(const double *values, int count, const List &list, int *memory, Wanted wanted)
{
    int filled = 0;
    for (int first = 0; first < count; first += threads) {
        const int id = first + static_cast<int>(threadIdx.x);
        const bool taken = id < count && wanted(values[id]);
        const Place place = placeOf(taken, memory);
        if (taken) {
            list.values[filled + place.before] = values[id];
            list.ids[filled + place.before] = id;
        }
        filled += place.all;
    }
    __syncthreads();
}

__device__ __forceinline__ void orderPair(const List &list, int a, int b)
{
    if (b >= list.count || !ranksBefore(list.values[b], list.ids[b], list.values[a], list.ids[a]))
        return;
    const double value = list.values[a];
    const int id = list.ids[a];
    list.values[a] = list.values[b];
    list.ids[a] = list.ids[b];
    list.values[b] = value;
    list.ids[b] = id;
}

/// Best first. Entries beyond the end, up to a power of two, count as the worst and stay where they are.
__device__ __forceinline__ void sortList(const List &list)
{
    int bits = 0;
    while (1 << bits < list.count)
        ++bits;
    const int pairs = (1 << bits) / 2;
    for (int run = 0; run < bits; ++run) { // runs of 2 << run
        for (int step = run; step >= 0; --step) {
#pragma unroll 1
            for (int i = static_cast<int>(threadIdx.x); i < pairs; i += threads) {
                const int first = i >> step << (step + 1);
                const int at = i & ((1 << step) - 1);
                // First a run's first against its last, and so on; then halves that are bitonic.
                const int other = step == run ? first + (2 << step) - 1 - at : first + at + (1 << step);
                orderPair(list, first + at, other);
            }
            __syncthreads();
        }
    }
}

/// How numbers fall into buckets, the best into the first. -infinity into none.
struct Buckets {
    double peak;
    double scale;

    __device__ int of(double value) const
    {
        const double place = (peak - value) * scale;
        return place < buckets - 1 ? static_cast<int>(place) : buckets - 1;
    }
};

__device__ __forceinline__ Buckets bucketsFor(double peak, double lowest)
{
    const double range = fmin(peak - lowest, widest);
    return {peak, range > 0.0 ? (buckets - 1) * ptx::reciprocal(range) : 0.0};
}

/// Of the numbers that are at least `limit`, which is finite.
struct Cut {
    int bucket; ///< by whose end there are as many as wanted, or the last
    int found;  ///< numbers by its end
};

__device__ __forceinline__ Cut findCut(const double *values, int count, double limit, const Buckets &by, int wanted,
                                       int *memory)
{
    for (int i = static_cast<int>(threadIdx.x); i < buckets; i += threads)
        memory[i] = 0;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads)
        if (values[i] >= limit)
            atomicAdd(memory + by.of(values[i]), 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        int bucket = 0;
        int found = memory[0];
        while (found < wanted && bucket + 1 < buckets)
            found += memory[++bucket];
        memory[buckets] = bucket;
        memory[buckets + 1] = found;
    }
    __syncthreads();
    const Cut cut{memory[buckets], memory[buckets + 1]};
    __syncthreads();
    return cut;
}

/// The best `wanted` of the numbers that are at least `limit`, or all when they are fewer; sorted.
__device__ __forceinline__ List bestOf(const double *values, int count, double limit, const Buckets &by, int wanted,
                                       const Room &room)
{
    const Cut cut = findCut(values, count, limit, by, wanted, room.numbers);
    List list = cut.found <= mostShared ? room.shared : room.global;
    list.count = cut.found;
    collect(values, count, list, room.numbers,
            [&](double value) { return value >= limit && by.of(value) <= cut.bucket; });
    sortList(list);
    list.count = min(list.count, wanted);
    return list;
}

} // namespace kernels::cuda::ranking
