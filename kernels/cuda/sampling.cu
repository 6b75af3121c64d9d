// SPDX-License-Identifier: GPL-3.0-or-later
// Sampling, one block for each row. Lists are short almost always: the best by count, or as many as it takes to reach a
// sum, in rounds. Sums along a list are taken by one thread in order, as on the host.
#include "kernels/cuda/launch_sampling.h"

#include "kernels/cuda/ranking.cuh"

namespace kernels::cuda {

namespace {

constexpr double largestDouble = 1.7976931348623157e308;
constexpr int firstRound = 256; // entries; a round that does not suffice is followed by one of eight times as many

} // namespace

using ranking::Buckets;
using ranking::List;
using ranking::Room;
using ranking::threads;

/// Uniform in [0, 1). Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32-10).
__device__ double uniformAt(std::uint64_t seed, std::uint64_t position)
{
    std::uint32_t counter[4] = {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32), 0, 0};
    std::uint32_t key[2] = {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t{0xD2511F53U} * counter[0];
        const std::uint64_t second = std::uint64_t{0xCD9E8D57U} * counter[2];
        counter[0] = static_cast<std::uint32_t>(second >> 32) ^ counter[1] ^ key[0];
        counter[1] = static_cast<std::uint32_t>(second);
        counter[2] = static_cast<std::uint32_t>(first >> 32) ^ counter[3] ^ key[1];
        counter[3] = static_cast<std::uint32_t>(first);
        key[0] += 0x9E3779B9U;
        key[1] += 0xBB67AE85U;
    }
    const std::uint64_t mantissa = (static_cast<std::uint64_t>(counter[0]) << 32 | counter[1]) >> 11;
    return static_cast<double>(mantissa) * 0x1p-53;
}

/// What is divided by again and again, without the calls that divisions are: kernels that call spill registers. A
/// quotient is that of a division, but for the last bit where the reciprocal misses its own.
/// Source: Markstein 2000, "IA-64 and elementary functions", chapter 8.
struct Divisor {
    double value;
    double reciprocal;

    __device__ double quotient(double x) const
    {
        const double rough = x * reciprocal;
        return fabs(rough) <= largestDouble ? fma(fma(-value, rough, x), reciprocal, rough) : rough;
    }
};

__device__ __forceinline__ Divisor divisorOf(double value)
{
    return {value, ptx::reciprocal(value)};
}

/// What a row's block works with.
struct RowWork {
    const float *logits;
    double *values; ///< [vocab] after biases and penalties
    int *counts;    ///< [vocab] in the history; shares memory with the list
    int vocab;
    Room room;
    double *warpNumbers; ///< [warps] in shared memory
};

/// Smallest index for which `holds`, or vocab; in every thread.
template<typename Holds> __device__ __forceinline__ int firstWhere(const RowWork &work, Holds holds)
{
    int found = work.vocab;
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads)
        found = holds(i) ? min(found, i) : found;
    return -ranking::blockMax(-found, work.room.numbers);
}

/// What keeps the raw logits from being sampled.
__device__ __forceinline__ SamplingFault faultOf(const RowWork &work, int &at)
{
    at = firstWhere(work, [&](int i) { return !(work.logits[i] <= 3.402823466e38F); });
    if (at < work.vocab)
        return work.logits[at] != work.logits[at] ? SamplingFault::NotANumber : SamplingFault::Infinity;
    at = 0;
    const bool finite = firstWhere(work, [&](int i) { return work.logits[i] != -INFINITY; }) < work.vocab;
    return finite ? SamplingFault::None : SamplingFault::NothingFinite;
}

/// Fills values: logits that are allowed, biases one after the other in float, then penalties in double. A thread may
/// read those at its own places without a barrier.
__device__ __forceinline__ void fillValues(const SamplingInputs &inputs, const SamplingRow &row, const RowWork &work)
{
    const std::uint64_t *allowed = row.allowedRow < 0
        ? nullptr
        : inputs.allowed + static_cast<std::int64_t>(row.allowedRow) * ((work.vocab + 63) / 64);
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads) {
        const bool wanted = allowed == nullptr || (allowed[i / 64] >> i % 64 & 1U) != 0;
        work.values[i] = static_cast<double>(wanted ? work.logits[i] : -INFINITY);
        work.counts[i] = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int b = row.firstBias; b < row.firstBias + row.biasCount; ++b) {
            const SamplingBias &one = inputs.biases[b];
            if (one.token >= 0 && one.token < work.vocab)
                work.values[one.token] = static_cast<double>(static_cast<float>(work.values[one.token]) + one.bias);
        }
    }
    for (int i = static_cast<int>(threadIdx.x); i < row.historyCount; i += threads)
        atomicAdd(work.counts + inputs.history[row.firstHistory + i], 1);
    __syncthreads();
    const bool penalises = row.repetitionPenalty != 1.0 || row.presencePenalty != 0.0 || row.frequencyPenalty != 0.0;
    const Divisor repetition = divisorOf(row.repetitionPenalty);
    for (int i = static_cast<int>(threadIdx.x); penalises && i < work.vocab; i += threads) {
        if (work.counts[i] == 0)
            continue;
        const double value = work.values[i];
        const double scaled = value > 0.0 ? repetition.quotient(value) : value * repetition.value;
        work.values[i] = scaled - (work.counts[i] * row.frequencyPenalty + row.presencePenalty);
    }
}

/// Buckets for the values, with their peak; -infinity when nothing is finite.
__device__ __forceinline__ Buckets bucketsOf(const RowWork &work)
{
    double peak = -INFINITY;
    double lowest = INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads) {
        const double value = work.values[i];
        peak = fmax(peak, value);
        lowest = value == -INFINITY ? lowest : fmin(lowest, value);
    }
    peak = ranking::blockMax(peak, work.warpNumbers);
    return ranking::bucketsFor(peak, -ranking::blockMax(-lowest, work.warpNumbers));
}

/// Sum of exp((value - peak) / temperature).
__device__ __forceinline__ double sumOfExponentials(const RowWork &work, double peak, const Divisor &temperature)
{
    double sum = 0.0;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads) {
        const double difference = temperature.quotient(work.values[i] - peak);
        sum += difference > ranking::negligible ? exp(difference) : 0.0;
    }
    return blockSum<threads>(sum);
}

/// probabilities = exp((value - peak) / temperature) / total; when total is 0 it is their own sum. Values are sorted.
__device__ __forceinline__ void weigh(const List &list, double peak, const Divisor &temperature, double total,
                                      double *sumMemory)
{
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < list.count; i += threads)
        list.probabilities[i] = exp(temperature.quotient(list.values[i] - peak));
    __syncthreads();
    if (total == 0.0) {
        if (threadIdx.x == 0) {
            double sum = 0.0;
            for (int i = 0; i < list.count; ++i)
                sum += list.probabilities[i];
            *sumMemory = sum;
        }
        __syncthreads();
        total = *sumMemory;
    }
    const Divisor divisor = divisorOf(total);
    for (int i = static_cast<int>(threadIdx.x); i < list.count; i += threads)
        list.probabilities[i] = divisor.quotient(list.probabilities[i]);
    __syncthreads();
}

/// A running sum of probabilities that ends a list.
struct Mass {
    double limit;
    bool above; ///< the sum is above the limit, not just at it

    __device__ bool reachedBy(double sum) const { return above ? sum > limit : sum >= limit; }
};

/// Number of entries down to the first that reaches the mass; 0 when none does. In every thread.
__device__ __forceinline__ int countUntil(const List &list, const Mass &mass, int *memory)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        double sum = 0.0;
        int count = 0;
        do
            sum += list.probabilities[count++];
        while (count < list.count && !mass.reachedBy(sum));
        *memory = mass.reachedBy(sum) ? count : 0;
    }
    __syncthreads();
    return *memory;
}

/// What a row draws from, sorted: the best by count, those that are likely enough beside the best, or as many as it
/// takes until the sum of their probabilities among all reaches topP, or with nothing cut is above `u`.
__device__ __forceinline__ List candidatesOf(const SamplingRow &row, const RowWork &work, const Buckets &by,
                                             const Divisor &temperature, double u)
{
    const bool byCount = row.topK > 0 && row.topK < work.vocab;
    const bool uncut = !byCount && row.topP >= 1.0 && row.minP <= 0.0;
    const bool byMass = uncut || (!byCount && row.topP < 1.0);
    const double limit =
        byCount || byMass ? -largestDouble : by.peak + log(row.minP) - 1e-6; // far above rounding; cut exactly later
    const Divisor own = uncut ? temperature : Divisor{1.0, 1.0};
    const double total = byMass ? sumOfExponentials(work, by.peak, own) : 1.0;
    const Mass mass = uncut ? Mass{u, true} : Mass{row.topP, false};
    int wanted = byCount ? row.topK : byMass ? min(firstRound, work.vocab) : work.vocab;
    while (true) {
        List list = ranking::bestOf(work.values, work.vocab, limit, by, wanted, work.room);
        if (!byMass)
            return list;
        weigh(list, by.peak, own, total, work.warpNumbers);
        const int count = countUntil(list, mass, work.room.numbers);
        const bool last = list.count < wanted || wanted == work.vocab;
        list.count = count > 0 ? count : list.count;
        if (count > 0 || last)
            return list;
        wanted = wanted > work.vocab / 8 ? work.vocab : wanted * 8;
    }
}

/// Entries that are at least `minP` as likely as the first; they are sorted, so these come first.
__device__ __forceinline__ int countAbove(const List &list, double minP)
{
    const Divisor largest = divisorOf(list.probabilities[0]);
    int kept = 0;
    for (int i = static_cast<int>(threadIdx.x); i < list.count; i += threads)
        kept += largest.quotient(list.probabilities[i]) >= minP ? 1 : 0;
    return static_cast<int>(blockSum<threads>(kept));
}

/// Where the last entry stands that can be drawn at all.
__device__ __forceinline__ int lastPossible(const List &list, int *memory)
{
    int last = 0;
    for (int i = static_cast<int>(threadIdx.x); i < list.count; i += threads)
        last = list.probabilities[i] > 0.0 ? max(last, i) : last;
    return ranking::blockMax(last, memory);
}

/// A token of a row with a temperature.
__device__ __forceinline__ int pick(const SamplingRow &row, const RowWork &work, const Buckets &by)
{
    const double u = uniformAt(row.seed, row.position);
    const Divisor temperature = divisorOf(row.temperature);
    const bool byCount = row.topK > 0 && row.topK < work.vocab;
    List list = candidatesOf(row, work, by, temperature, u);
    if (!byCount && row.topP >= 1.0 && row.minP <= 0.0)
        return list.ids[list.count - 1];
#pragma unroll 1
    for (int stage = byCount && row.topP < 1.0 ? 0 : 1; stage < (row.minP > 0.0 ? 2 : 1); ++stage) {
        weigh(list, by.peak, {1.0, 1.0}, 0.0, work.warpNumbers);
        const int count =
            stage == 0 ? countUntil(list, {row.topP, false}, work.room.numbers) : countAbove(list, row.minP);
        list.count = count > 0 ? count : list.count;
    }
    weigh(list, by.peak, temperature, 0.0, work.warpNumbers);
    const int count = countUntil(list, {u, true}, work.room.numbers);
    return list.ids[count > 0 ? count - 1 : lastPossible(list, work.room.numbers)];
}

/// Cuts the row's share of the scratch memory, and what lists need of shared memory.
__device__ __forceinline__ RowWork workOf(const SamplingInputs &inputs, int row, std::byte *scratch)
{
    SIMT_SHARED(double, values, [ranking::mostShared]);
    SIMT_SHARED(double, probabilities, [ranking::mostShared]);
    SIMT_SHARED(int, ids, [ranking::mostShared]);
    SIMT_SHARED(int, numbers, [ranking::buckets + ranking::warps]);
    SIMT_SHARED(double, warpNumbers, [ranking::warps]);
    RowWork work{};
    work.logits = rowOf(inputs.logits, inputs.rows[row].logitRow);
    work.vocab = inputs.logits.columns;
    const std::int64_t room = work.vocab + work.vocab % 2;
    auto *memory = reinterpret_cast<double *>(scratch);
    work.values = memory;
    work.room.shared = {values, probabilities, ids, 0};
    work.room.global = {memory + room, memory + 2 * room, reinterpret_cast<int *>(memory + 3 * room), 0};
    work.room.numbers = numbers;
    work.counts = work.room.global.ids;
    work.warpNumbers = warpNumbers;
    return work;
}

/// Block b works on row firstRow + b, here and below. What is wrong with logits, the values to draw from, and the token
/// of a row without a temperature.
__global__ void __launch_bounds__(threads)
    valuesKernel(SamplingInputs inputs, int firstRow, std::byte *scratch, std::size_t rowBytes, SampledRow *sampled)
{
    const int row = firstRow + static_cast<int>(blockIdx.x);
    const RowWork work = workOf(inputs, row, scratch + blockIdx.x * rowBytes);
    SampledRow own;
    own.fault = faultOf(work, own.at);
    fillValues(inputs, inputs.rows[row], work);
    double peak = -INFINITY;
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads)
        peak = fmax(peak, work.values[i]);
    peak = ranking::blockMax(peak, work.warpNumbers);
    if (own.fault == SamplingFault::None && peak == -INFINITY)
        own.fault = SamplingFault::NothingAllowed;
    if (own.fault == SamplingFault::None && inputs.rows[row].temperature <= 0.0)
        own.token = firstWhere(work, [&](int i) { return work.values[i] == peak; });
    if (threadIdx.x == 0)
        sampled[row] = own;
}

__global__ void __launch_bounds__(threads, 2)
    drawKernel(SamplingInputs inputs, int firstRow, std::byte *scratch, std::size_t rowBytes, SampledRow *sampled)
{
    const int row = firstRow + static_cast<int>(blockIdx.x);
    const SamplingRow &parameters = inputs.rows[row];
    if (sampled[row].fault != SamplingFault::None || parameters.temperature <= 0.0)
        return; // the whole block
    const RowWork work = workOf(inputs, row, scratch + blockIdx.x * rowBytes);
    const int token = pick(parameters, work, bucketsOf(work));
    if (threadIdx.x == 0)
        sampled[row].token = token;
}

/// Log-probabilities of the raw logits: of the token drawn, and the best.
__global__ void __launch_bounds__(threads, 2)
    logprobsKernel(SamplingInputs inputs, int firstRow, std::byte *scratch, std::size_t rowBytes, SampledRow *sampled,
                   Alternative *alternatives, int perRow)
{
    const int row = firstRow + static_cast<int>(blockIdx.x);
    const int wanted = min(inputs.rows[row].alternatives, perRow);
    if (sampled[row].fault != SamplingFault::None || wanted < 0)
        return; // the whole block
    const RowWork work = workOf(inputs, row, scratch + blockIdx.x * rowBytes);
    for (int i = static_cast<int>(threadIdx.x); i < work.vocab; i += threads)
        work.values[i] = static_cast<double>(work.logits[i]);
    __syncthreads();
    const Buckets by = bucketsOf(work);
    const double logSum = by.peak + log(sumOfExponentials(work, by.peak, {1.0, 1.0}));
    if (threadIdx.x == 0)
        sampled[row].logprob = work.values[sampled[row].token] - logSum;
    if (wanted == 0)
        return; // the whole block
    const List list = ranking::bestOf(work.values, work.vocab, -largestDouble, by, wanted, work.room);
    Alternative *own = alternatives + static_cast<std::int64_t>(row) * perRow;
    for (int i = static_cast<int>(threadIdx.x); i < wanted; i += threads)
        own[i] = i < list.count ? Alternative{list.ids[i], list.values[i] - logSum} : Alternative{-1, -INFINITY};
}

void launchSample(const SamplingInputs &inputs, const SamplingScratch &scratch, SampledRow *sampled,
                  Alternative *alternatives, int perRow, StreamHandle stream)
{
    CHECK(scratch.rows > 0);
    const std::size_t rowBytes = samplingScratchBytes(1, inputs.logits.columns);
    for (int first = 0; first < inputs.rowCount; first += scratch.rows) {
        const int rows = inputs.rowCount - first < scratch.rows ? inputs.rowCount - first : scratch.rows;
        const dim3 grid(static_cast<unsigned>(rows));
        checkLaunch(simt::launch(valuesKernel, grid, dim3(threads), 0, stream, inputs, first, scratch.memory, rowBytes,
                                 sampled),
                    "samplingValues");
        checkLaunch(
            simt::launch(drawKernel, grid, dim3(threads), 0, stream, inputs, first, scratch.memory, rowBytes, sampled),
            "draw");
        if (perRow >= 0)
            checkLaunch(simt::launch(logprobsKernel, grid, dim3(threads), 0, stream, inputs, first, scratch.memory,
                                     rowBytes, sampled, alternatives, perRow),
                        "logprobs");
    }
}

} // namespace kernels::cuda
