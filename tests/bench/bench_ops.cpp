// SPDX-License-Identifier: GPL-3.0-or-later
// Times of the kernels at the shapes of real models, for every level of the machine:
//   bench_ops --benchmark_filter='linear/avx2/Q4_1/smollm2' --benchmark_repetitions=5
// Names: linear/LEVEL/TYPE/MODEL-ROWSxCOLUMNS/TOKENS, pack/TYPE/.., attention/LEVEL/TYPE/MODEL/CONTEXT/TOKENS,
// rmsNorm, rope and round/LEVEL/MODEL/TOKENS, sample/MODEL/PARAMETERS. `fast` as a level: avx512 with products in
// bfloat16 allowed. GB/s counts the bytes of a pass over the weights, or of the file's form when they are packed, GOP/s
// two operations for every weight and row.
#include "engine/runtime/sampler.h"
#include "kernels/cpu/level_choice.h"
#include "kernels/cpu/rounded_activations.h"
#include "kernels/ops.h"
#include "tests/support/kernel_data.h"

#include <benchmark/benchmark.h>

#include <cmath>
#include <numeric>
#include <thread>

using namespace kernels;

namespace {

constexpr std::size_t coldBytes = std::size_t{96} << 20; // more than the caches: one row reads weights from memory

struct Shape {
    std::int64_t rows;
    std::int64_t columns;
};

/// What a step of a model does.
struct ModelShapes {
    const char *name;
    int hidden;
    int heads;
    int kvHeads;
    int headDim;
    int vocab;
    std::vector<Shape> matrices; ///< QKV, the output of attention, gate and up, down; the head is [vocab, hidden]
};

const std::vector<ModelShapes> &models()
{
    static const std::vector<ModelShapes> list{
        {"smollm2", 576, 9, 3, 64, 49152, {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}}},
        {"gemma270m", 640, 4, 1, 256, 262144, {{1536, 640}, {640, 1024}, {4096, 640}, {640, 2048}}},
        {"llama1b", 2048, 32, 4, 64, 32000, {{2560, 2048}, {2048, 2048}, {11264, 2048}, {2048, 5632}}},
    };
    return list;
}

int cores()
{
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::unique_ptr<Ops> opsOf(const std::string &level)
{
    return level == "fast" ? makeOps({.threads = cores(), .deterministic = false}) : kernel_data::cpu(level, cores());
}

benchmark::Counter rate(double amount)
{
    return {amount, benchmark::Counter::kIsRate};
}

void linear(benchmark::State &state, const std::string &level, DType type, Shape shape)
{
    const std::int64_t tokens = state.range(0);
    const auto ops = opsOf(level);
    const auto stream = ops->makeStream();
    const kernel_data::Weight weight = kernel_data::randomWeight(type, shape.rows, shape.columns, 1);
    const WeightPart part = weight.part();
    std::vector<std::unique_ptr<PackedWeight>> packed;
    std::size_t bytes = 0;
    do {
        packed.push_back(ops->pack({&part, 1}));
        bytes += packed.back()->bytesPerPass();
    } while (tokens < 8 && bytes < coldBytes);
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * shape.columns), 2);
    std::vector<float> out(static_cast<std::size_t>(tokens * shape.rows));
    std::size_t next = 0;
    for (auto _ : state)
        ops->linear(*packed[next++ % packed.size()], makeView(x.data(), DType::F32, tokens, shape.columns),
                    makeView(out.data(), DType::F32, tokens, shape.rows), nullptr, *stream);
    const auto passes = static_cast<double>(state.iterations());
    state.counters["GB/s"] = rate(passes * static_cast<double>(packed[0]->bytesPerPass()) * 1e-9);
    state.counters["GOP/s"] = rate(passes * 2e-9 * static_cast<double>(tokens * shape.rows * shape.columns));
}

/// From the file's form to panels. Bytes are those of the file.
void pack(benchmark::State &state, DType type, Shape shape)
{
    const auto ops = kernel_data::cpu("auto", cores());
    const kernel_data::Weight weight = kernel_data::randomWeight(type, shape.rows, shape.columns, 1);
    const WeightPart part = weight.part();
    for (auto _ : state)
        benchmark::DoNotOptimize(ops->pack({&part, 1}));
    state.counters["GB/s"] =
        rate(static_cast<double>(state.iterations()) * static_cast<double>(weight.bytes.size()) * 1e-9);
}

void attention(benchmark::State &state, const std::string &level, DType type, const ModelShapes &model)
{
    const auto context = static_cast<int>(state.range(0));
    const auto tokens = static_cast<int>(state.range(1));
    constexpr int blockTokens = 16;
    const int blocks = (context + blockTokens - 1) / blockTokens;
    const auto ops = opsOf(level);
    const auto stream = ops->makeStream();
    KvLayer layer{nullptr, type, type, blocks, model.kvHeads, blockTokens, model.headDim, false};
    const auto cache = ops->allocate(static_cast<std::size_t>(blocks) * layer.blockBytes());
    layer.data = cache->data();
    std::vector<float> q =
        kernel_data::randomFloats(static_cast<std::size_t>(tokens) * static_cast<std::size_t>(model.heads)
                                      * static_cast<std::size_t>(model.headDim),
                                  1);
    std::vector<float> out(q.size());
    std::vector<int> table(static_cast<std::size_t>(blocks));
    std::iota(table.begin(), table.end(), 0);
    const std::vector<int> starts{0, tokens};
    const std::vector<int> lengths{context};
    const PagedBatch batch{starts, lengths, table, blocks, blockTokens};
    AttentionShape shape;
    shape.heads = model.heads;
    shape.kvHeads = model.kvHeads;
    shape.headDim = model.headDim;
    shape.scale = 0.125F;
    for (auto _ : state)
        ops->pagedAttention(makeView(q.data(), DType::F32, tokens, model.heads, model.headDim), layer, batch, shape,
                            makeView(out.data(), DType::F32, tokens, model.heads, model.headDim), *stream);
    state.counters["GB/s"] = rate(static_cast<double>(state.iterations()) * 1e-9 * static_cast<double>(blocks)
                                  * static_cast<double>(layer.blockBytes()));
}

void rmsNorm(benchmark::State &state, const std::string &level, const ModelShapes &model)
{
    const std::int64_t tokens = state.range(0);
    const auto ops = opsOf(level);
    const auto stream = ops->makeStream();
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * model.hidden), 1);
    std::vector<float> out(x.size());
    const std::vector<float> weight(static_cast<std::size_t>(model.hidden), 1.0F);
    for (auto _ : state)
        ops->rmsNorm(makeView(x.data(), DType::F32, tokens, model.hidden), weight.data(), 1e-5F,
                     makeView(out.data(), DType::F32, tokens, model.hidden), *stream);
}

void rope(benchmark::State &state, const std::string &level, const ModelShapes &model)
{
    const std::int64_t tokens = state.range(0);
    const auto ops = opsOf(level);
    const auto stream = ops->makeStream();
    std::vector<float> heads =
        kernel_data::randomFloats(static_cast<std::size_t>(tokens * model.heads * model.headDim), 1);
    std::vector<int> positions(static_cast<std::size_t>(tokens));
    std::iota(positions.begin(), positions.end(), 100);
    RopeTable table;
    table.rotaryDim = model.headDim;
    for (int i = 0; i < model.headDim / 2; ++i)
        table.inverseFrequencies.push_back(std::pow(10000.0, -2.0 * i / model.headDim));
    for (auto _ : state)
        ops->rope(makeView(heads.data(), DType::F32, tokens, model.heads, model.headDim), positions, table, *stream);
}

/// Activations to int8 with outliers, once per product.
void roundActivations(benchmark::State &state, const std::string &level, const ModelShapes &model)
{
    const std::int64_t tokens = state.range(0);
    const LevelKernels functions = kernelsOf(chooseIsa(level));
    ThreadPool pool(cores());
    RoundedActivations rounded;
    std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * model.hidden), 1);
    std::vector<RowRange> ranges;
    for (std::int64_t first = 0; first < tokens; first += tileRows)
        ranges.push_back({first, static_cast<int>(std::min<std::int64_t>(tileRows, tokens - first))});
    for (auto _ : state)
        rounded.round(functions, pool, makeView(x.data(), DType::F32, tokens, model.hidden), ranges, true);
    state.counters["Mrows/s"] = rate(static_cast<double>(state.iterations()) * 1e-6 * static_cast<double>(tokens));
}

void sample(benchmark::State &state, const ModelShapes &model, const engine::SamplingParams &params)
{
    const std::vector<float> logits = kernel_data::randomFloats(static_cast<std::size_t>(model.vocab), 1);
    engine::Sampler sampler;
    std::uint64_t seed = 0;
    for (auto _ : state)
        benchmark::DoNotOptimize(sampler.sample(logits, params, {}, ++seed));
}

void registerLinear(const std::string &level, const ModelShapes &model)
{
    std::vector<DType> types{DType::Q4_0, DType::Q4_1,   DType::Q4_K,  DType::Q5_0, DType::Q5_K, DType::Q6_K,
                             DType::Q8_0, DType::IQ4_XS, DType::MXFP4, DType::INT4, DType::F16,  DType::BF16};
    if (level == "fast")
        types = {DType::F16, DType::BF16, DType::F32};
    for (const DType type : types) {
        std::vector<Shape> shapes = model.matrices;
        shapes.push_back({model.vocab, model.hidden});
        for (const Shape &shape : shapes) {
            if (shape.columns % info(type).blockElements != 0)
                continue;
            const std::string name = "linear/" + level + "/" + std::string(info(type).name) + "/" + model.name + "-"
                + std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
            auto *bench = benchmark::RegisterBenchmark(name.c_str(), linear, level, type, shape);
            bench->Arg(1)->Arg(4)->Arg(16)->UseRealTime();
            if (shape.rows < model.vocab)
                bench->Arg(512);
        }
    }
}

void registerLevel(const std::string &level, const ModelShapes &model)
{
    registerLinear(level, model);
    if (level == "fast")
        return;
    const std::string end = level + "/" + model.name;
    for (const DType type : {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::E4M3})
        benchmark::RegisterBenchmark(
            ("attention/" + level + "/" + std::string(info(type).name) + "/" + model.name).c_str(), attention, level,
            type, model)
            ->Args({128, 1})
            ->Args({1024, 1})
            ->Args({8192, 1})
            ->Args({512, 512})
            ->Args({4096, 512})
            ->UseRealTime();
    benchmark::RegisterBenchmark(("rmsNorm/" + end).c_str(), rmsNorm, level, model)->Arg(1)->Arg(512)->UseRealTime();
    benchmark::RegisterBenchmark(("rope/" + end).c_str(), rope, level, model)->Arg(1)->Arg(512)->UseRealTime();
    benchmark::RegisterBenchmark(("round/" + end).c_str(), roundActivations, level, model)
        ->Arg(1)
        ->Arg(16)
        ->Arg(512)
        ->UseRealTime();
}

void registerSampling(const ModelShapes &model)
{
    engine::SamplingParams greedy;
    greedy.temperature = 0;
    engine::SamplingParams cut;
    cut.temperature = 0.8;
    cut.topK = 40;
    cut.topP = 0.95;
    engine::SamplingParams nucleus;
    nucleus.temperature = 1.0;
    nucleus.topK = 0;
    nucleus.topP = 0.9;
    engine::SamplingParams warm = nucleus;
    warm.temperature = 0.8;
    warm.topP = 0.95;
    engine::SamplingParams likely = nucleus;
    likely.topP = 1.0;
    likely.minP = 0.05;
    const std::string begin = std::string("sample/") + model.name;
    benchmark::RegisterBenchmark((begin + "/greedy").c_str(), sample, model, greedy);
    benchmark::RegisterBenchmark((begin + "/top-k40-p95").c_str(), sample, model, cut);
    benchmark::RegisterBenchmark((begin + "/top-p90").c_str(), sample, model, nucleus);
    benchmark::RegisterBenchmark((begin + "/top-p95-t0.8").c_str(), sample, model, warm);
    benchmark::RegisterBenchmark((begin + "/min-p05").c_str(), sample, model, likely);
}

} // namespace

int main(int argc, char **argv)
{
    benchmark::Initialize(&argc, argv);
    std::vector<std::string> levels = availableIsaLevels();
    levels.erase(levels.begin()); // scalar
    if (hasBfloatProducts() && !levels.empty())
        levels.emplace_back("fast");
    for (const ModelShapes &model : models()) {
        for (const std::string &level : levels)
            registerLevel(level, model);
        registerSampling(model);
    }
    for (const DType type : kernel_data::weightTypes())
        benchmark::RegisterBenchmark(("pack/" + std::string(info(type).name)).c_str(), pack, type, Shape{4096, 2048})
            ->UseRealTime();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
