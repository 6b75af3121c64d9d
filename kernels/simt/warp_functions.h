// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Shuffles, votes and warp reductions for g++. Included by simt.h only.

#include "kernels/simt/hooks.h"

#include <functional>

inline void __syncwarp(unsigned mask = ~0U SIMT_WHERE)
{
    simt::warpOperation(mask, simt::syncWarp, nullptr, nullptr, where);
}

namespace simt {

template<typename T> struct ShuffleArgument {
    T value;
    T found;
    int source; ///< lane to read from; -1 after reading one outside of the mask
};

template<typename T> void shuffleAll(void **arguments, unsigned mask)
{
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1U))
            continue;
        auto *own = static_cast<ShuffleArgument<T> *>(arguments[lane]);
        if (mask >> own->source & 1U)
            own->found = static_cast<ShuffleArgument<T> *>(arguments[own->source])->value;
        else
            own->source = -1;
    }
}

/// Operations are told apart by these numbers, so that lanes at different ones are found out.
enum : int { opShuffle = 1, opShuffleXor, opShuffleUp, opShuffleDown, opReduce, opMatch, opMatrixLoad, opMma };

template<typename T> T shuffle(unsigned mask, T value, int source, int operation, const Location &where)
{
    ShuffleArgument<T> argument{value, value, source};
    warpOperation(mask, operation, &argument, shuffleAll<T>, where);
    if (argument.source < 0)
        fail("a shuffle reads a lane outside of its mask", where);
    return argument.found;
}

template<typename T, typename Combine> void reduceAll(void **arguments, unsigned mask)
{
    const T *total = nullptr;
    T sum{};
    for (unsigned lane = 0; lane < 32; ++lane) {
        if (!(mask >> lane & 1U))
            continue;
        const T *value = static_cast<T *>(arguments[lane]);
        sum = total ? Combine{}(sum, *value) : *value;
        total = &sum;
    }
    for (unsigned lane = 0; lane < 32; ++lane)
        if (mask >> lane & 1U)
            *static_cast<T *>(arguments[lane]) = sum;
}

template<typename Combine, typename T> T warpReduce(unsigned mask, T value, const Location &where)
{
    warpOperation(mask, opReduce, &value, reduceAll<T, Combine>, where);
    return value;
}

struct Smaller {
    template<typename T> T operator()(T a, T b) const { return b < a ? b : a; }
};

struct Larger {
    template<typename T> T operator()(T a, T b) const { return a < b ? b : a; }
};

template<typename T> struct MatchArgument {
    T value;
    unsigned lanes;
};

template<typename T> void matchAll(void **arguments, unsigned mask)
{
    for (unsigned lane = 0; lane < 32; ++lane)
        for (unsigned other = 0; other < 32; ++other)
            if ((mask >> lane & 1U) && (mask >> other & 1U)
                && static_cast<MatchArgument<T> *>(arguments[lane])->value
                    == static_cast<MatchArgument<T> *>(arguments[other])->value)
                static_cast<MatchArgument<T> *>(arguments[lane])->lanes |= 1U << other;
}

/// First lane of the group of `width` lanes that the caller is in.
inline int groupStart(int width)
{
    return static_cast<int>(laneId()) & ~(width - 1);
}

/// `lane` when it is in the caller's group, else the caller, as shuffles define it.
inline int withinGroup(int lane, int width)
{
    const bool inside = lane >= groupStart(width) && lane < groupStart(width) + width;
    return inside ? lane : static_cast<int>(laneId());
}

} // namespace simt

template<typename T> T __shfl_sync(unsigned mask, T value, int source, int width = 32 SIMT_WHERE)
{
    return simt::shuffle(mask, value, simt::groupStart(width) | (source & (width - 1)), simt::opShuffle, where);
}

template<typename T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32 SIMT_WHERE)
{
    const int source = static_cast<int>(simt::laneId()) ^ bits;
    return simt::shuffle(mask, value, simt::withinGroup(source, width), simt::opShuffleXor, where);
}

template<typename T> T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32 SIMT_WHERE)
{
    const int source = static_cast<int>(simt::laneId()) - static_cast<int>(distance);
    return simt::shuffle(mask, value, simt::withinGroup(source, width), simt::opShuffleUp, where);
}

template<typename T> T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32 SIMT_WHERE)
{
    const int source = static_cast<int>(simt::laneId()) + static_cast<int>(distance);
    return simt::shuffle(mask, value, simt::withinGroup(source, width), simt::opShuffleDown, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate SIMT_WHERE)
{
    return simt::warpReduce<std::bit_or<>>(mask, predicate ? 1U << simt::laneId() : 0U, where);
}

inline int __any_sync(unsigned mask, int predicate SIMT_WHERE)
{
    return __ballot_sync(mask, predicate, where) != 0;
}

inline int __all_sync(unsigned mask, int predicate SIMT_WHERE)
{
    return __ballot_sync(mask, predicate, where) == mask;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value SIMT_WHERE)
{
    return simt::warpReduce<std::plus<>>(mask, value, where);
}

inline int __reduce_add_sync(unsigned mask, int value SIMT_WHERE)
{
    return simt::warpReduce<std::plus<>>(mask, value, where);
}

inline int __reduce_min_sync(unsigned mask, int value SIMT_WHERE)
{
    return simt::warpReduce<simt::Smaller>(mask, value, where);
}

inline int __reduce_max_sync(unsigned mask, int value SIMT_WHERE)
{
    return simt::warpReduce<simt::Larger>(mask, value, where);
}

template<typename T> unsigned __match_any_sync(unsigned mask, T value SIMT_WHERE)
{
    simt::MatchArgument<T> argument{value, 0};
    simt::warpOperation(mask, simt::opMatch, &argument, simt::matchAll<T>, where);
    return argument.lanes;
}
