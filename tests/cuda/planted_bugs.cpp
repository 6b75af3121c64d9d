// SPDX-License-Identifier: GPL-3.0-or-later
// Kernels with a fault planted on purpose, each beside its right form: the emulator must tell them apart.
//   planted_bugs NAME SEEDS
// Exit 0: every seed gave the right result. 1: a wrong result, or the emulator's or a sanitizer's complaint.
#include "kernels/cuda/ptx.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>

using simt::Emulator;

namespace {

/// Exactly sized, so that ASan sees the true end.
template<typename T> class Array {
public:
    explicit Array(std::size_t count)
        : m_count(count)
    {
        void *memory = nullptr;
        if (posix_memalign(&memory, 256, count * sizeof(T)) != 0)
            throw std::bad_alloc();
        m_data.reset(static_cast<T *>(memory));
        std::memset(memory, 0, count * sizeof(T));
    }
    T *get() const { return m_data.get(); }
    T &operator[](std::size_t i) const { return m_data.get()[i]; }
    std::size_t size() const { return m_count; }

private:
    struct Free {
        void operator()(T *memory) const { std::free(memory); }
    };
    std::size_t m_count;
    std::unique_ptr<T, Free> m_data;
};

Array<float> someFloats(std::size_t count)
{
    Array<float> x(count);
    for (std::size_t i = 0; i < count; ++i)
        x[i] = static_cast<float>(i * 7919 % 64) - 20.0F;
    return x;
}

double sumOf(const Array<float> &x)
{
    return std::accumulate(x.get(), x.get() + x.size(), 0.0);
}

template<bool bug> __global__ void blockSum(const float *x, float *y, int n)
{
    SIMT_SHARED(float, parts, [32]);
    float sum = 0.0F;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < static_cast<unsigned>(n); i += gridDim.x * blockDim.x)
        sum += x[i];
    for (unsigned distance = 16; distance > 0; distance /= 2)
        sum += __shfl_down_sync(~0U, sum, distance);
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = sum;
    if constexpr (!bug)
        __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0F;
        for (unsigned i = 0; i < blockDim.x / 32; ++i)
            total += parts[i];
        atomicAdd(y, total);
    }
}

template<bool bug> bool blockSumIsRight(Emulator &device)
{
    const Array<float> x = someFloats(2000);
    const Array<float> y(1);
    simt::launch(blockSum<bug>, 3, 128, 0, device.stream(), x.get(), y.get(), 2000);
    return y[0] == static_cast<float>(sumOf(x));
}

template<bool bug> __global__ void warpExchange(const int *x, int *y)
{
    SIMT_SHARED(int, numbers, [64]);
    numbers[threadIdx.x] = x[threadIdx.x];
    if constexpr (!bug)
        __syncwarp();
    y[threadIdx.x] = numbers[threadIdx.x ^ 1U];
}

template<bool bug> bool warpExchangeIsRight(Emulator &device)
{
    const Array<int> x(64);
    const Array<int> y(64);
    for (int i = 0; i < 64; ++i)
        x[static_cast<std::size_t>(i)] = 3 * i;
    simt::launch(warpExchange<bug>, 1, 64, 0, device.stream(), x.get(), y.get());
    bool right = true;
    for (std::size_t i = 0; i < 64; ++i)
        right = right && y[i] == x[i ^ 1U];
    return right;
}

/// Two stages of cp.async; the fault is one of the steps that keep them apart.
enum class Step { None, Wait, SyncAfterWait, SyncAtEnd, LastCommit };

template<Step left> __global__ void pipelinedSum(const float *x, float *y, int stages)
{
    SIMT_SHARED(float, tile, [2][256]);
    const auto fetch = [&](int stage) {
        ptx::copyAsync16(&tile[stage & 1][threadIdx.x * 4], x + stage * 256 + threadIdx.x * 4, 16);
    };
    fetch(0);
    ptx::commitCopies();
    float sum = 0.0F;
    for (int stage = 0; stage < stages; ++stage) {
        if (stage + 1 < stages)
            fetch(stage + 1);
        if (left != Step::LastCommit || stage + 1 < stages)
            ptx::commitCopies();
        if constexpr (left != Step::Wait)
            ptx::waitCopies<1>();
        if constexpr (left != Step::SyncAfterWait)
            __syncthreads();
        for (int i = 0; i < 4; ++i)
            sum += tile[stage & 1][(threadIdx.x + 64 * i + 37) % 256];
        if constexpr (left != Step::SyncAtEnd)
            __syncthreads();
    }
    ptx::waitCopies<0>();
    y[threadIdx.x] = sum;
}

template<Step left> bool pipelineIsRight(Emulator &device)
{
    const Array<float> x = someFloats(5 * 256);
    const Array<float> y(64);
    simt::launch(pipelinedSum<left>, 1, 64, 0, device.stream(), x.get(), y.get(), 5);
    return sumOf(y) == sumOf(x);
}

/// Every "device" publishes its part, waits for all others and adds theirs.
template<bool bug>
__global__ void allReduce(float *const *parts, std::uint32_t *const *flags, const float *x, float *y, int n, int rank,
                          int devices)
{
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
        parts[rank][i] = x[i];
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < devices) {
        ptx::storeRelease(flags[threadIdx.x] + rank, 1);
        while (!bug && ptx::loadAcquire(flags[rank] + threadIdx.x) != 1) {
        }
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) {
        float sum = 0.0F;
        for (int r = 0; r < devices; ++r)
            sum += parts[r][i];
        y[i] = sum;
    }
}

template<bool bug> bool allReduceIsRight(Emulator &device)
{
    constexpr int devices = 3;
    constexpr int n = 200;
    std::vector<Array<float>> x, y, part;
    std::vector<Array<std::uint32_t>> flag;
    const Array<float *> parts(devices);
    const Array<std::uint32_t *> flags(devices);
    for (std::size_t r = 0; r < devices; ++r) {
        x.push_back(someFloats(n));
        y.emplace_back(n);
        parts[r] = part.emplace_back(n).get();
        flags[r] = flag.emplace_back(devices).get();
    }
    std::vector<simt::Launch> launches;
    for (int r = 0; r < devices; ++r)
        launches.push_back(simt::bind(allReduce<bug>, 1, 32, 0, parts.get(), flags.get(),
                                      x[static_cast<std::size_t>(r)].get(), y[static_cast<std::size_t>(r)].get(), n, r,
                                      devices));
    device.run(launches, true);
    bool right = true;
    for (std::size_t r = 0; r < devices; ++r)
        right = right && sumOf(y[r]) == devices * sumOf(x[r]);
    return right;
}

/// The first block hands its numbers to the second, which looks at the flag once where it should wait for it.
template<bool bug> __global__ void handOver(float *numbers, std::uint32_t *flag, float *y)
{
    if (blockIdx.x == 0) {
        numbers[threadIdx.x] = static_cast<float>(threadIdx.x + 1);
        __syncthreads();
        if (threadIdx.x == 0)
            ptx::storeRelease(flag, 1);
        return;
    }
    if (threadIdx.x == 0)
        while (ptx::loadAcquire(flag) != 1 && !bug) {
        }
    __syncthreads();
    y[threadIdx.x] = numbers[threadIdx.x];
}

template<bool bug> bool handOverIsRight(Emulator &device)
{
    const Array<float> numbers(64);
    const Array<std::uint32_t> flag(1);
    const Array<float> y(64);
    device.run({simt::bind(handOver<bug>, 2, 64, 0, numbers.get(), flag.get(), y.get())}, true);
    return y[63] == 64.0F;
}

/// The last block to come adds the parts of all.
template<bool bug> __global__ void lastBlockSum(const float *x, float *parts, std::uint32_t *counter, float *y, int n)
{
    if (threadIdx.x != 0)
        return;
    float sum = 0.0F;
    for (unsigned i = blockIdx.x; i < static_cast<unsigned>(n); i += gridDim.x)
        sum += x[i];
    parts[blockIdx.x] = sum;
    const std::uint32_t before = bug ? atomicAdd(counter, 1U) : ptx::addAcquireRelease(counter, 1U);
    if (before != gridDim.x - 1)
        return;
    float total = 0.0F;
    for (unsigned i = 0; i < gridDim.x; ++i)
        total += parts[i];
    *y = total;
}

template<bool bug> bool lastBlockIsRight(Emulator &device)
{
    const Array<float> x = someFloats(999);
    const Array<float> parts(8);
    const Array<float> y(1);
    const Array<std::uint32_t> counter(1);
    simt::launch(lastBlockSum<bug>, 8, 32, 0, device.stream(), x.get(), parts.get(), counter.get(), y.get(), 999);
    return y[0] == static_cast<float>(sumOf(x));
}

template<bool bug> __global__ void branches(float *y)
{
    if (bug && threadIdx.x < 16) {
        y[0] = 1.0F;
        __syncthreads();
    } else {
        y[1] = 2.0F;
        __syncthreads();
    }
}

template<bool bug> bool branchesAreRight(Emulator &device)
{
    const Array<float> y(2);
    simt::launch(branches<bug>, 1, 1, 0, device.stream(), y.get());
    if (bug)
        simt::launch(branches<bug>, 1, 32, 0, device.stream(), y.get());
    return true;
}

__global__ void fillShared(float *y, int n)
{
    SIMT_SHARED(float, numbers, [64]);
    for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
        numbers[i] = static_cast<float>(i);
    __syncthreads();
    y[threadIdx.x] = numbers[threadIdx.x];
}

template<bool bug> bool fillIsRight(Emulator &device)
{
    const Array<float> y(64);
    simt::launch(fillShared, 1, 64, 0, device.stream(), y.get(), bug ? 65 : 64);
    return y[63] == 63.0F;
}

__global__ void copyWide(const float *x, float *y, int offset)
{
    ptx::store<uint4>(y + threadIdx.x * 4, ptx::load<uint4>(x + threadIdx.x * 4 + offset));
}

template<bool bug> bool wideCopyIsRight(Emulator &device)
{
    const Array<float> x = someFloats(132);
    const Array<float> y(128);
    simt::launch(copyWide, 1, 32, 0, device.stream(), x.get(), y.get(), bug ? 1 : 4);
    return y[5] == x[9];
}

template<bool bug> __global__ void exitAndShuffle(int *y)
{
    if (bug && threadIdx.x >= 20)
        return;
    y[threadIdx.x] = __shfl_xor_sync(~0U, static_cast<int>(threadIdx.x), 1);
}

template<bool bug> bool shuffleIsRight(Emulator &device)
{
    const Array<int> y(32);
    simt::launch(exitAndShuffle<bug>, 1, 32, 0, device.stream(), y.get());
    return y[6] == 7 && y[7] == 6;
}

__global__ void waitForFlag(const std::uint32_t *flag)
{
    while (ptx::loadAcquire(flag) == 0) {
    }
}

template<bool bug> bool waitingEnds(Emulator &device)
{
    const Array<std::uint32_t> flag(1);
    flag[0] = bug ? 0 : 1;
    simt::launch(waitForFlag, 2, 32, 0, device.stream(), flag.get());
    return true;
}

template<bool bug> __global__ void leaveCopies(const float *x, float *y)
{
    SIMT_SHARED(float, tile, [128]);
    ptx::copyAsync16(tile + threadIdx.x * 4, x + threadIdx.x * 4, 16);
    ptx::commitCopies();
    if constexpr (!bug) {
        ptx::waitCopies<0>();
        y[threadIdx.x] = tile[threadIdx.x * 4];
    }
}

template<bool bug> bool copiesAreAwaited(Emulator &device)
{
    const Array<float> x = someFloats(128);
    const Array<float> y(32);
    simt::launch(leaveCopies<bug>, 1, 32, 0, device.stream(), x.get(), y.get());
    return bug || y[3] == x[12];
}

/// Groups without copies that nobody waits for do no harm, and hide none that has some.
template<bool bug> __global__ void leaveGroups(const float *x, float *y)
{
    SIMT_SHARED(float, tile, [128]);
    ptx::commitCopies();
    ptx::copyAsync16(tile + threadIdx.x * 4, x + threadIdx.x * 4, 16);
    ptx::commitCopies();
    ptx::commitCopies();
    if constexpr (!bug) {
        ptx::waitCopies<1>();
        y[threadIdx.x] = tile[threadIdx.x * 4];
    }
}

template<bool bug> bool emptyGroupsMayStay(Emulator &device)
{
    const Array<float> x = someFloats(128);
    const Array<float> y(32);
    simt::launch(leaveGroups<bug>, 1, 32, 0, device.stream(), x.get(), y.get());
    return y[3] == x[12];
}

/// Frames are smaller than the page that guards a stack, so that none steps over it.
__device__ __attribute__((noinline)) float sumOf(int calls)
{
    volatile float numbers[128];
    for (int i = 0; i < 128; ++i)
        numbers[i] = static_cast<float>(calls);
    return calls == 0 ? 0.0F : sumOf(calls - 1) + numbers[calls % 128];
}

template<bool bug> __global__ void deepStack(float *y)
{
    y[threadIdx.x] = sumOf(bug ? 4000 : 2);
}

template<bool bug> bool stackSuffices(Emulator &device)
{
    const Array<float> y(32);
    simt::launch(deepStack<bug>, 1, 32, 0, device.stream(), y.get());
    return y[3] == (bug ? 4000.0F * 4001 / 2 : 3.0F);
}

/// Reads one element beyond the end of an exactly sized buffer.
__global__ void shiftedCopy(const float *x, float *y, int shift)
{
    y[threadIdx.x] = x[threadIdx.x + static_cast<unsigned>(shift)];
}

template<bool bug> bool shiftedCopyIsRight(Emulator &device)
{
    const Array<float> x = someFloats(64);
    const Array<float> y(64);
    simt::launch(shiftedCopy, 1, 64, 0, device.stream(), x.get(), y.get(), bug ? 1 : 0);
    return y[62] == x[62];
}

using Check = bool (*)(Emulator &);

struct Pair {
    Check right;
    Check wrong;
};

const std::map<std::string, Pair> checks{
    {"block-sum", {blockSumIsRight<false>, blockSumIsRight<true>}},
    {"warp-exchange", {warpExchangeIsRight<false>, warpExchangeIsRight<true>}},
    {"no-wait", {pipelineIsRight<Step::None>, pipelineIsRight<Step::Wait>}},
    {"no-sync-after-wait", {pipelineIsRight<Step::None>, pipelineIsRight<Step::SyncAfterWait>}},
    {"no-sync-at-end", {pipelineIsRight<Step::None>, pipelineIsRight<Step::SyncAtEnd>}},
    {"no-last-commit", {pipelineIsRight<Step::None>, pipelineIsRight<Step::LastCommit>}},
    {"all-reduce", {allReduceIsRight<false>, allReduceIsRight<true>}},
    {"early-reader", {handOverIsRight<false>, handOverIsRight<true>}},
    {"last-block", {lastBlockIsRight<false>, lastBlockIsRight<true>}},
    {"divergent-barrier", {branchesAreRight<false>, branchesAreRight<true>}},
    {"shared-overrun", {fillIsRight<false>, fillIsRight<true>}},
    {"misaligned", {wideCopyIsRight<false>, wideCopyIsRight<true>}},
    {"exited-lane", {shuffleIsRight<false>, shuffleIsRight<true>}},
    {"unset-flag", {waitingEnds<false>, waitingEnds<true>}},
    {"unawaited-copy", {copiesAreAwaited<false>, copiesAreAwaited<true>}},
    {"empty-groups", {emptyGroupsMayStay<false>, emptyGroupsMayStay<true>}},
    {"stack-overflow", {stackSuffices<false>, stackSuffices<true>}},
    {"off-by-one", {shiftedCopyIsRight<false>, shiftedCopyIsRight<true>}},
};

int runSeeds(Check check, int seeds)
{
    for (int seed = 0; seed < seeds; ++seed) {
        simt::Config config;
        config.seed = static_cast<std::uint64_t>(seed);
        config.schedule = static_cast<simt::Schedule>(seed % 4);
        Emulator device(config);
        try {
            if (!check(device)) {
                std::printf("wrong result at seed %d\n", seed);
                return 1;
            }
        } catch (const simt::Fault &fault) {
            std::printf("%s\n", fault.what());
            return 1;
        }
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 4 || checks.find(argv[1]) == checks.end()) {
        std::puts("usage: planted_bugs NAME right|wrong SEEDS; names:");
        for (const auto &[name, pair] : checks)
            std::puts(name.c_str());
        return 2;
    }
    const Pair &pair = checks.at(argv[1]);
    return runSeeds(std::string(argv[2]) == "wrong" ? pair.wrong : pair.right, std::atoi(argv[3]));
}
