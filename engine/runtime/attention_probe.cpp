// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/probe.h"
#include "engine/models/model_files.h"
#include "engine/models/model_registry.h"
#include "engine/runtime/baselines/score_matrix_attention.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>
#include <random>

namespace engine {
namespace {

constexpr int passes = 5;
constexpr int blockTokens = 16;

/// A line of /proc/self/status in bytes; 0 where there is none.
std::size_t statusBytes(const std::string &key)
{
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.starts_with(key + ":"))
            return static_cast<std::size_t>(std::strtoull(line.c_str() + key.size() + 1, nullptr, 10)) << 10U;
    return 0;
}

/// Most memory that `work` takes at once beyond what is there before, as the system counts it.
template<typename Work> std::size_t peakOf(const Work &work)
{
    std::ofstream("/proc/self/clear_refs") << "5"; // the peak starts anew
    const std::size_t before = statusBytes("VmRSS");
    work();
    const std::size_t after = statusBytes("VmHWM");
    return after > before ? after - before : 0;
}

template<typename Work> double bestSeconds(const Work &work)
{
    double best = std::numeric_limits<double>::max();
    for (int i = 0; i < passes; ++i) {
        const auto start = std::chrono::steady_clock::now();
        work();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return best;
}

std::vector<float> randomValues(std::size_t count, std::mt19937_64 &random)
{
    std::vector<float> values(count);
    for (float &value : values)
        value = static_cast<float>(random() >> 40U) / 8388608.0F - 1.0F;
    return values;
}

class LayerProbe final : public AttentionProbe {
public:
    LayerProbe(ModelShape model, const kernels::AttentionShape &shape, std::unique_ptr<kernels::Ops> ops)
        : m_model(std::move(model))
        , m_shape(shape)
        , m_ops(std::move(ops))
        , m_stream(m_ops->makeStream())
    {
    }

    [[nodiscard]] const ModelShape &shape() const override { return m_model; }
    [[nodiscard]] int threads() const override { return m_ops->threads(); }

    [[nodiscard]] Pair measure(int context, std::uint64_t seed) override
    {
        CHECK(context >= 1);
        std::mt19937_64 random(seed);
        const auto tokens = static_cast<std::size_t>(context);
        const auto dim = static_cast<std::size_t>(m_shape.headDim);
        const auto heads = static_cast<std::size_t>(m_shape.heads);
        const std::vector<float> q = randomValues(tokens * heads * dim, random);
        const std::size_t keyCount = tokens * static_cast<std::size_t>(m_shape.kvHeads) * dim;
        const std::vector<float> keys = randomValues(keyCount, random);
        const std::vector<float> values = randomValues(keyCount, random);
        std::vector<float> tiled(q.size());
        std::vector<float> materialised(q.size());
        Pair pair;
        measureTiled(context, q, keys, values, tiled, pair.tiled);
        measureMatrix(context, q, keys, values, materialised, pair.materialised);
        double difference = 0;
        for (std::size_t token = 0; token < tokens; ++token)
            for (std::size_t head = 0; head < heads; ++head)
                for (std::size_t i = 0; i < dim; ++i)
                    difference = std::max<double>(difference,
                                                  std::abs(tiled[(token * heads + head) * dim + i]
                                                           - materialised[(head * tokens + token) * dim + i]));
        pair.tiled.maxDifference = pair.materialised.maxDifference = difference;
        return pair;
    }

private:
    void measureTiled(int context, const std::vector<float> &q, const std::vector<float> &keys,
                      const std::vector<float> &values, std::vector<float> &out, AttentionCost &cost)
    {
        const int blocks = (context + blockTokens - 1) / blockTokens;
        kernels::KvLayer layer{nullptr,         kernels::DType::F32, kernels::DType::F32, blocks,
                               m_shape.kvHeads, blockTokens,         m_shape.headDim,     false};
        const std::unique_ptr<kernels::Buffer> layerBuffer =
            m_ops->allocate(static_cast<std::size_t>(blocks) * layer.blockBytes());
        layer.data = layerBuffer->data();
        const auto rows = [&](const std::vector<float> &data, int headCount) {
            return kernels::makeView(const_cast<float *>(data.data()), kernels::DType::F32, context, headCount,
                                     m_shape.headDim);
        };
        std::vector<int> slots(static_cast<std::size_t>(context));
        std::iota(slots.begin(), slots.end(), 0);
        m_ops->kvStore(rows(keys, m_shape.kvHeads), rows(values, m_shape.kvHeads), layer, slots, *m_stream);
        std::vector<int> table(static_cast<std::size_t>(blocks));
        std::iota(table.begin(), table.end(), 0);
        const std::array starts{0, context};
        const std::array contexts{context};
        const kernels::PagedBatch batch{starts, contexts, table, blocks, blockTokens};
        const auto once = [&] {
            m_ops->pagedAttention(rows(q, m_shape.heads), layer, batch, m_shape, rows(out, m_shape.heads), *m_stream);
        };
        cost.scratchBytes = peakOf(once);
        cost.seconds = bestSeconds(once);
    }

    /// The queries as [heads, context, headDim]: the order that the products want costs nothing here.
    void measureMatrix(int context, const std::vector<float> &q, const std::vector<float> &keys,
                       const std::vector<float> &values, std::vector<float> &out, AttentionCost &cost)
    {
        const auto heads = static_cast<std::size_t>(m_shape.heads);
        const auto dim = static_cast<std::size_t>(m_shape.headDim);
        std::vector<float> byHead(q.size());
        for (std::size_t token = 0; token < static_cast<std::size_t>(context); ++token)
            for (std::size_t head = 0; head < heads; ++head)
                std::copy_n(
                    q.begin() + static_cast<std::ptrdiff_t>((token * heads + head) * dim), dim,
                    byHead.begin()
                        + static_cast<std::ptrdiff_t>((head * static_cast<std::size_t>(context) + token) * dim));
        baselines::ScoreMatrixAttention attention(*m_ops, m_shape, context, keys, values);
        const auto once = [&] { attention.run(byHead, out); };
        cost.scratchBytes = peakOf(once);
        cost.seconds = bestSeconds(once);
    }

    ModelShape m_model;
    kernels::AttentionShape m_shape;
    std::unique_ptr<kernels::Ops> m_ops;
    std::unique_ptr<kernels::Stream> m_stream;
};

ModelShape shapeOf(const ModelConfig &model)
{
    ModelShape shape;
    shape.name = model.name;
    shape.layers = model.layers;
    shape.hidden = model.hidden;
    shape.heads = model.layer.front().heads;
    shape.kvHeads = model.layer.front().kvHeads;
    shape.headDim = model.headDim;
    shape.inner = model.layer.front().intermediate;
    shape.vocab = model.vocab;
    shape.contextLength = model.contextLength;
    return shape;
}

} // namespace

std::unique_ptr<AttentionProbe> makeAttentionProbe(const std::string &path, const EngineConfig &config)
{
    if (config.device != "auto" && config.device != "cpu")
        throw Error(ErrorCode::InvalidArgument,
                    "attention is measured beside its score matrix on the CPU, found device " + config.device
                        + ", wanted cpu");
    const std::unique_ptr<Checkpoint> checkpoint = openModelFiles(path);
    const ModelConfig model = familyOf(*checkpoint).readConfig(*checkpoint);
    const LayerConfig &layer = model.layer.front();
    if (layer.kvHeads < 1 || layer.heads % layer.kvHeads != 0 || model.headDim < 1)
        throw Error(ErrorCode::Refused,
                    path + ": found " + std::to_string(layer.heads) + " query and " + std::to_string(layer.kvHeads)
                        + " key heads, wanted grouped heads to measure attention on");
    kernels::AttentionShape shape;
    shape.heads = layer.heads;
    shape.kvHeads = layer.kvHeads;
    shape.headDim = model.headDim;
    shape.scale = 1.0F / std::sqrt(static_cast<float>(model.headDim));
    kernels::OpsOptions options;
    options.reference = config.backend == BackendKind::Reference;
    options.threads = config.threads;
    options.isa = config.isa;
    return std::make_unique<LayerProbe>(shapeOf(model), shape, kernels::makeOps(options));
}

} // namespace engine
