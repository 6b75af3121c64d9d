// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/layers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace engine {
namespace {

/// The dimension (in pairs) that turns `rotations` times over the trained context. Source: arXiv:2309.00071,
/// section 3.2.
double yarnPair(const RopeConfig &rope, double rotations)
{
    return rope.dimensions * std::log(rope.originalContext / (rotations * 2.0 * std::numbers::pi))
        / (2.0 * std::log(rope.base));
}

/// Share of extrapolation of each pair: 1 for fast ones, which keep their frequency, down to 0 for slow ones.
std::vector<double> yarnRamp(const RopeConfig &rope)
{
    const int pairs = rope.dimensions / 2;
    const double low = std::max(0.0, std::floor(yarnPair(rope, rope.betaFast)));
    double high = std::min(rope.dimensions - 1.0, std::ceil(yarnPair(rope, rope.betaSlow)));
    if (high <= low)
        high = low + 0.001; // a step instead of a division by zero
    std::vector<double> ramp(static_cast<std::size_t>(pairs));
    for (int i = 0; i < pairs; ++i)
        ramp[static_cast<std::size_t>(i)] = rope.extrapolation * (1.0 - std::clamp((i - low) / (high - low), 0.0, 1.0));
    return ramp;
}

void applyYarn(const RopeConfig &rope, kernels::RopeTable &table)
{
    const std::vector<double> ramp = yarnRamp(rope);
    for (std::size_t i = 0; i < ramp.size(); ++i) {
        const double extrapolated = table.inverseFrequencies[i];
        table.inverseFrequencies[i] = extrapolated / rope.factor * (1.0 - ramp[i]) + extrapolated * ramp[i];
    }
    // Temperature of section 3.4; nothing to correct when the context does not grow.
    const double scale = rope.factor > 1.0 ? 0.1 * std::log(rope.factor) + 1.0 : 1.0;
    table.attentionFactor = static_cast<float>(rope.attentionFactor * scale);
}

} // namespace

kernels::RopeTable makeRopeTable(const RopeConfig &rope, std::span<const float> factors)
{
    kernels::RopeTable table;
    table.rotaryDim = rope.dimensions;
    table.interleaved = rope.interleaved;
    const int pairs = rope.dimensions / 2;
    CHECK(factors.empty() || factors.size() == static_cast<std::size_t>(pairs));
    for (int i = 0; i < pairs; ++i) {
        double frequency = std::pow(rope.base, -2.0 * i / rope.dimensions);
        if (!factors.empty())
            frequency /= static_cast<double>(factors[static_cast<std::size_t>(i)]);
        if (rope.scaling == RopeScaling::Linear)
            frequency /= rope.factor;
        table.inverseFrequencies.push_back(frequency);
    }
    if (rope.scaling == RopeScaling::Yarn)
        applyYarn(rope, table);
    return table;
}

WeightLoader::WeightLoader(const Checkpoint &checkpoint, kernels::Ops &ops, ProgressCallback progress,
                           std::stop_token stop)
    : m_checkpoint(checkpoint)
    , m_ops(ops)
    , m_progress(std::move(progress))
    , m_stop(std::move(stop))
{
    for (const TensorInfo &tensor : checkpoint.tensors())
        m_totalBytes += static_cast<double>(tensor.bytes);
}

void WeightLoader::finish(const TensorInfo &tensor)
{
    if (!m_ops.keepsSource())
        m_checkpoint.releasePages(tensor);
    m_doneBytes += static_cast<double>(tensor.bytes);
    if (m_progress)
        m_progress(std::min(1.0, m_doneBytes / m_totalBytes));
    if (m_stop.stop_requested())
        throw Error(ErrorCode::Cancelled, "loading was cancelled after tensor " + tensor.name);
}

std::unique_ptr<kernels::PackedWeight> WeightLoader::matrix(std::initializer_list<std::string> names)
{
    std::vector<kernels::WeightPart> parts;
    std::vector<const TensorInfo *> sources;
    for (const std::string &name : names) {
        const TensorInfo *tensor = m_checkpoint.find(name);
        CHECK(tensor && tensor->shape.size() == 2);
        parts.push_back({name, tensor->type, tensor->shape[0], tensor->shape[1], m_checkpoint.bytes(*tensor).data()});
        sources.push_back(tensor);
    }
    auto packed = m_ops.pack(parts);
    for (const TensorInfo *tensor : sources)
        finish(*tensor);
    return packed;
}

std::vector<float> WeightLoader::values(const std::string &name)
{
    const TensorInfo *tensor = m_checkpoint.find(name);
    if (!tensor)
        return {};
    CHECK(tensor->shape.size() == 1);
    std::vector<float> result(static_cast<std::size_t>(tensor->shape[0]));
    kernels::dequantize(tensor->type, m_checkpoint.bytes(*tensor).data(), result.data(), tensor->shape[0]);
    finish(*tensor);
    return result;
}

Tensor WeightLoader::upload(std::span<const float> values)
{
    if (values.empty())
        return {};
    Tensor tensor(m_ops, kernels::DType::F32, std::array{static_cast<std::int64_t>(values.size())});
    std::copy(values.begin(), values.end(), tensor.view().as<float>());
    return tensor;
}

Tensor WeightLoader::vector(const std::string &name)
{
    return upload(values(name));
}

Tensor WeightLoader::stackedBias(std::initializer_list<std::string> names, std::initializer_list<std::int64_t> sizes)
{
    CHECK(names.size() == sizes.size());
    if (std::none_of(names.begin(), names.end(), [this](const std::string &name) { return has(name); }))
        return {};
    std::vector<float> all;
    auto size = sizes.begin();
    for (const std::string &name : names) {
        std::vector<float> part = values(name);
        part.resize(static_cast<std::size_t>(*size++), 0.0F);
        all.insert(all.end(), part.begin(), part.end());
    }
    return upload(all);
}

kernels::TensorView headsView(const kernels::TensorView &matrix, std::int64_t first, int heads, int headDim)
{
    kernels::TensorView view = kernels::columns(matrix, first, std::int64_t{heads} * headDim);
    view.rank = 3;
    view.shape = {matrix.shape[0], heads, headDim, 0};
    view.strides = {matrix.strides[0], headDim, 1, 0};
    return view;
}

kernels::PagedBatch pagedBatch(const ForwardBatch &batch, const KvCache &kv)
{
    kernels::PagedBatch paged;
    paged.queryStarts = batch.queryStarts;
    paged.contextLengths = batch.contextLengths;
    paged.blockTables = batch.blockTables;
    paged.maxBlocks = batch.maxBlocks;
    paged.blockTokens = kv.shape().blockTokens;
    return paged;
}

} // namespace engine
