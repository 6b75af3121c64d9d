// SPDX-License-Identifier: GPL-3.0-or-later
// Times of the kernels at the shapes of SmolLM2-135M, for every level of the machine:
//   bench_ops --benchmark_filter='linear/avx2/Q4_1' --benchmark_repetitions=5
// GB/s counts the bytes of a pass over the weights, GOP/s two operations for every weight and row.
#include "kernels/ops.h"
#include "tests/support/kernel_data.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>
#include <thread>

using namespace kernels;

namespace {

constexpr std::size_t coldBytes = std::size_t{96} << 20; // more than the caches: one row reads weights from memory

int cores()
{
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void linear(benchmark::State &state, const std::string &level, DType type, std::int64_t rows, std::int64_t columns)
{
    const std::int64_t tokens = state.range(0);
    const auto ops = kernel_data::cpu(level, cores());
    const auto stream = ops->makeStream();
    const kernel_data::Weight weight = kernel_data::randomWeight(type, rows, columns, 1);
    const WeightPart part = weight.part();
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::size_t bytes = 0;
    do {
        packed.push_back(ops->pack({&part, 1}));
        bytes += packed.back()->bytesPerPass();
    } while (tokens < 8 && bytes < coldBytes);
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * columns), 2);
    std::vector<float> out(static_cast<std::size_t>(tokens * rows));
    std::size_t next = 0;
    for (auto _ : state)
        ops->linear(*packed[next++ % packed.size()], makeView(x.data(), DType::F32, tokens, columns),
                    makeView(out.data(), DType::F32, tokens, rows), nullptr, *stream);
    const auto passes = static_cast<double>(state.iterations());
    state.counters["GB/s"] =
        benchmark::Counter(passes * static_cast<double>(packed[0]->bytesPerPass()) * 1e-9, benchmark::Counter::kIsRate);
    state.counters["GOP/s"] =
        benchmark::Counter(passes * 2e-9 * static_cast<double>(tokens * rows * columns), benchmark::Counter::kIsRate);
}

/// Nine query heads on three key heads of 64.
void attention(benchmark::State &state, const std::string &level, DType type)
{
    const auto context = static_cast<int>(state.range(0));
    const auto tokens = static_cast<int>(state.range(1));
    constexpr int blockTokens = 16;
    const int blocks = (context + blockTokens - 1) / blockTokens;
    const auto ops = kernel_data::cpu(level, cores());
    const auto stream = ops->makeStream();
    KvLayer layer{nullptr, type, type, blocks, 3, blockTokens, 64, false};
    const auto cache = ops->allocate(static_cast<std::size_t>(blocks) * layer.blockBytes());
    layer.data = cache->data();
    std::vector<float> q = kernel_data::randomFloats(static_cast<std::size_t>(tokens) * 576, 1);
    std::vector<float> out(q.size());
    std::vector<int> table(static_cast<std::size_t>(blocks));
    std::iota(table.begin(), table.end(), 0);
    const std::vector<int> starts{0, tokens};
    const std::vector<int> lengths{context};
    const PagedBatch batch{starts, lengths, table, blocks, blockTokens};
    AttentionShape shape;
    shape.heads = 9;
    shape.kvHeads = 3;
    shape.headDim = 64;
    shape.scale = 0.125F;
    for (auto _ : state)
        ops->pagedAttention(makeView(q.data(), DType::F32, tokens, 9, 64), layer, batch, shape,
                            makeView(out.data(), DType::F32, tokens, 9, 64), *stream);
}

void rmsNorm(benchmark::State &state, const std::string &level)
{
    const std::int64_t tokens = state.range(0);
    const auto ops = kernel_data::cpu(level, cores());
    const auto stream = ops->makeStream();
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * 576), 1);
    std::vector<float> out(x.size());
    const std::vector<float> weight(576, 1.0F);
    for (auto _ : state)
        ops->rmsNorm(makeView(x.data(), DType::F32, tokens, 576), weight.data(), 1e-5F,
                     makeView(out.data(), DType::F32, tokens, 576), *stream);
}

void registerLinear(const std::string &level)
{
    constexpr std::int64_t shapes[][2] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}, {49152, 576}};
    for (const DType type : {DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q8_0, DType::F16}) {
        for (const auto &shape : shapes) {
            const std::string name = "linear/" + level + "/" + std::string(info(type).name) + "/"
                + std::to_string(shape[0]) + "x" + std::to_string(shape[1]);
            auto *bench = benchmark::RegisterBenchmark(name.c_str(), linear, level, type, shape[0], shape[1]);
            bench->Arg(1)->Arg(4)->Arg(16)->UseRealTime();
            if (shape[0] < 49152)
                bench->Arg(512);
        }
    }
}

} // namespace

int main(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    for (const std::string &level : availableIsaLevels()) {
        if (level == "scalar")
            continue;
        registerLinear(level);
        for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::E4M3})
            benchmark::RegisterBenchmark(("attention/" + level + "/" + std::string(info(type).name)).c_str(), attention,
                                         level, type)
                ->Args({128, 1})
                ->Args({1024, 1})
                ->Args({8192, 1})
                ->Args({512, 512})
                ->Args({4096, 512})
                ->UseRealTime();
        benchmark::RegisterBenchmark(("rmsNorm/" + level).c_str(), rmsNorm, level)->Arg(1)->Arg(512)->UseRealTime();
    }
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
