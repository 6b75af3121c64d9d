// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/tiny_model.h"

#include "engine/models/model_registry.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tiny_model {
namespace {

std::int64_t elementsOf(const std::vector<std::int64_t> &shape)
{
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Uniform in ±`range`; mt19937's own output, as distributions differ between libraries.
std::vector<float> randomValues(std::mt19937 &random, std::int64_t count, float range)
{
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values)
        value = (static_cast<float>(random() >> 8U) / 8388608.0F - 1.0F) * range;
    return values;
}

} // namespace

void MemoryCheckpoint::set(const std::string &key, engine::MetadataValue value)
{
    m_entries.insert_or_assign(key, std::move(value));
    rebuild();
}

void MemoryCheckpoint::erase(const std::string &key)
{
    m_entries.erase(key);
    rebuild();
}

void MemoryCheckpoint::rebuild()
{
    m_metadata = {};
    for (const auto &[key, value] : m_entries)
        m_metadata.add(key, value);
}

void MemoryCheckpoint::setTensor(const std::string &name, std::vector<std::int64_t> shape, std::vector<float> values)
{
    CHECK(static_cast<std::size_t>(elementsOf(shape)) == values.size());
    eraseTensor(name);
    engine::TensorInfo info;
    info.name = name;
    info.shape = std::move(shape);
    info.bytes = values.size() * sizeof(float);
    info.typeName = "F32";
    m_tensors.push_back(info);
    m_values[name] = std::move(values);
}

void MemoryCheckpoint::setTensorType(const std::string &name, kernels::DType type, const std::string &typeName)
{
    for (engine::TensorInfo &tensor : m_tensors) {
        if (tensor.name == name) {
            tensor.type = type;
            tensor.typeName = typeName;
        }
    }
}

void MemoryCheckpoint::eraseTensor(const std::string &name)
{
    std::erase_if(m_tensors, [&name](const engine::TensorInfo &tensor) { return tensor.name == name; });
    m_values.erase(name);
}

const engine::TensorInfo *MemoryCheckpoint::find(std::string_view name) const
{
    const auto found =
        std::find_if(m_tensors.begin(), m_tensors.end(), [name](const auto &tensor) { return tensor.name == name; });
    return found == m_tensors.end() ? nullptr : &*found;
}

std::span<const std::byte> MemoryCheckpoint::bytes(const engine::TensorInfo &tensor) const
{
    return std::as_bytes(std::span(m_values.at(tensor.name)));
}

MemoryCheckpoint makeLlama(const Sizes &sizes, std::uint32_t seed)
{
    MemoryCheckpoint checkpoint;
    std::mt19937 random(seed);
    const auto count = [&](const char *key, std::int64_t value) { checkpoint.set(std::string("llama.") + key, value); };
    checkpoint.set("general.architecture", std::string("llama"));
    checkpoint.set("general.name", std::string("tiny"));
    count("block_count", sizes.layers);
    count("context_length", sizes.contextLength);
    count("embedding_length", sizes.hidden);
    count("feed_forward_length", sizes.intermediate);
    count("attention.head_count", sizes.heads);
    count("attention.head_count_kv", sizes.kvHeads);
    count("attention.key_length", sizes.headDim);
    checkpoint.set("llama.attention.layer_norm_rms_epsilon", 1e-5);
    checkpoint.set("llama.rope.freq_base", 10000.0);

    const auto matrix = [&](const std::string &name, std::int64_t rows, std::int64_t columns) {
        const float range = 1.7F / std::sqrt(static_cast<float>(columns));
        checkpoint.setTensor(name, {rows, columns}, randomValues(random, rows * columns, range));
    };
    const auto vector = [&](const std::string &name, std::int64_t size, float middle) {
        std::vector<float> values = randomValues(random, size, 0.3F);
        for (float &value : values)
            value += middle;
        checkpoint.setTensor(name, {size}, std::move(values));
    };
    const int queries = sizes.heads * sizes.headDim;
    const int keys = sizes.kvHeads * sizes.headDim;
    matrix("token_embd.weight", sizes.vocab, sizes.hidden);
    vector("output_norm.weight", sizes.hidden, 1.0F);
    if (!sizes.tied)
        matrix("output.weight", sizes.vocab, sizes.hidden);
    for (int i = 0; i < sizes.layers; ++i) {
        const std::string layer = "blk." + std::to_string(i) + ".";
        vector(layer + "attn_norm.weight", sizes.hidden, 1.0F);
        matrix(layer + "attn_q.weight", queries, sizes.hidden);
        matrix(layer + "attn_k.weight", keys, sizes.hidden);
        matrix(layer + "attn_v.weight", keys, sizes.hidden);
        matrix(layer + "attn_output.weight", sizes.hidden, queries);
        vector(layer + "ffn_norm.weight", sizes.hidden, 1.0F);
        matrix(layer + "ffn_gate.weight", sizes.intermediate, sizes.hidden);
        matrix(layer + "ffn_up.weight", sizes.intermediate, sizes.hidden);
        matrix(layer + "ffn_down.weight", sizes.hidden, sizes.intermediate);
        if (sizes.biases) {
            vector(layer + "attn_q.bias", queries, 0.0F);
            vector(layer + "attn_k.bias", keys, 0.0F);
            vector(layer + "attn_v.bias", keys, 0.0F);
            vector(layer + "attn_output.bias", sizes.hidden, 0.0F);
        }
    }
    return checkpoint;
}

std::unique_ptr<engine::ModelRunner> makeRunner(const engine::Checkpoint &checkpoint,
                                                const kernels::OpsOptions &options, kernels::DType kvType,
                                                int maxTokens)
{
    return makeRunner(checkpoint, kernels::makeOps(options), kvType, maxTokens);
}

std::unique_ptr<engine::ModelRunner> makeRunner(const engine::Checkpoint &checkpoint, std::unique_ptr<kernels::Ops> ops,
                                                kernels::DType kvType, int maxTokens)
{
    const engine::ModelFamily &family = engine::familyOf(checkpoint);
    const engine::ModelConfig config = family.readConfig(checkpoint);
    engine::checkTensors(checkpoint, family.tensors(config), config.layers,
                         [&ops](kernels::DType type) { return ops->supportsWeight(type); });
    engine::WeightLoader loader(checkpoint, *ops, {}, {});
    auto model = family.load(config, loader);
    auto runner =
        std::make_unique<engine::ModelRunner>(std::move(ops), std::move(model), engine::KvTypes{kvType, kvType});
    runner->reserve(maxTokens, maxTokens);
    return runner;
}

engine::Batch makeBatch(const std::vector<Piece> &pieces, int blockTokens)
{
    engine::Batch batch;
    engine::ForwardBatch &forward = batch.forward;
    forward.queryStarts.push_back(0);
    for (const Piece &piece : pieces)
        forward.maxBlocks = std::max(forward.maxBlocks, static_cast<int>(piece.blocks.size()));
    for (const Piece &piece : pieces) {
        for (std::size_t i = 0; i < piece.ids.size(); ++i) {
            const int position = piece.first + static_cast<int>(i);
            forward.logitRows.push_back(static_cast<int>(forward.tokenIds.size()));
            forward.tokenIds.push_back(piece.ids[i]);
            forward.positions.push_back(position);
            const int block = piece.blocks.at(static_cast<std::size_t>(position / blockTokens));
            forward.slotIds.push_back(block * blockTokens + position % blockTokens);
        }
        forward.queryStarts.push_back(static_cast<int>(forward.tokenIds.size()));
        forward.contextLengths.push_back(piece.first + static_cast<int>(piece.ids.size()));
        std::vector<int> table = piece.blocks;
        table.resize(static_cast<std::size_t>(forward.maxBlocks), 0);
        forward.blockTables.insert(forward.blockTables.end(), table.begin(), table.end());
    }
    return batch;
}

std::vector<float> allLogits(engine::ModelRunner &runner, const std::vector<int> &ids, int chunk, int blockTokens,
                             const std::vector<int> &blocks)
{
    const int total = static_cast<int>(ids.size());
    std::vector<int> table = blocks;
    if (table.empty()) {
        table.resize(static_cast<std::size_t>((total + blockTokens - 1) / blockTokens));
        std::iota(table.begin(), table.end(), 0);
    }
    const int most = chunk > 0 ? chunk : total;
    std::vector<float> all;
    for (int first = 0; first < total; first += most) {
        const int count = std::min(most, total - first);
        engine::Batch batch =
            makeBatch({{{ids.begin() + first, ids.begin() + first + count}, first, table}}, blockTokens);
        batch.forward.ropeVariants = {runner.ropeVariants().of(total)};
        const kernels::TensorView logits = runner.run(batch);
        all.insert(all.end(), logits.as<float>(), logits.as<float>() + logits.elements());
    }
    return all;
}

Difference compare(std::span<const float> found, std::span<const float> wanted)
{
    CHECK(found.size() == wanted.size() && !wanted.empty());
    Difference result;
    double squares = 0;
    double wantedSquares = 0;
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        const double difference = std::abs(static_cast<double>(found[i]) - static_cast<double>(wanted[i]));
        // A NaN must not pass as "no difference".
        result.maxAbs = std::isfinite(difference) ? std::max(result.maxAbs, difference) : INFINITY;
        result.meanAbs += difference / static_cast<double>(wanted.size());
        squares += difference * difference;
        wantedSquares += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    result.nmse = squares / wantedSquares;
    return result;
}

} // namespace tiny_model
