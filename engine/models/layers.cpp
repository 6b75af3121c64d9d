// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/layers.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace engine {
namespace {

/// Moves column k of every row to column order[k].
void putInOrder(std::span<const std::int32_t> order, std::vector<float> &values)
{
    if (order.empty())
        return;
    std::vector<float> row(order.size());
    for (auto first = values.begin(); first != values.end(); first += static_cast<std::ptrdiff_t>(row.size())) {
        for (std::size_t k = 0; k < row.size(); ++k)
            row[static_cast<std::size_t>(order[k])] = first[static_cast<std::ptrdiff_t>(k)];
        std::copy(row.begin(), row.end(), first);
    }
}

} // namespace
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

const std::int32_t *WeightLoader::columnOrder(const TensorInfo &tensor) const
{
    const std::span<const std::int32_t> order = m_checkpoint.columnOrder(tensor);
    return order.empty() ? nullptr : order.data();
}

std::unique_ptr<kernels::PackedWeight> WeightLoader::matrix(std::initializer_list<std::string> names)
{
    std::vector<kernels::WeightPart> parts;
    std::vector<const TensorInfo *> sources;
    for (const std::string &name : names) {
        const TensorInfo *tensor = m_checkpoint.find(name);
        CHECK(tensor && tensor->shape.size() == 2);
        parts.push_back(rows(name, 0, tensor->shape[0]));
        sources.push_back(tensor);
    }
    auto packed = m_ops.pack(parts);
    for (const TensorInfo *tensor : sources)
        finish(*tensor);
    return packed;
}

std::unique_ptr<kernels::PackedWeight> WeightLoader::splitMatrix(const std::string &name, int parts)
{
    const TensorInfo *tensor = m_checkpoint.find(name);
    CHECK(tensor && tensor->shape.size() == 2 && parts > 0 && tensor->shape[0] % parts == 0);
    const std::int64_t count = tensor->shape[0] / parts;
    std::vector<kernels::WeightPart> pieces;
    for (int i = 0; i < parts; ++i)
        pieces.push_back(rows(name, i * count, count));
    auto packed = m_ops.pack(pieces);
    finish(*tensor);
    return packed;
}

kernels::WeightPart WeightLoader::rows(const std::string &name, std::int64_t first, std::int64_t count) const
{
    const TensorInfo *tensor = m_checkpoint.find(name);
    CHECK(tensor && tensor->shape.size() >= 2);
    const std::int64_t columns = tensor->shape.back();
    const std::size_t stride = kernels::rowBytes(tensor->type, columns);
    const std::span<const std::byte> bytes = m_checkpoint.bytes(*tensor);
    CHECK(first >= 0 && static_cast<std::size_t>(first + count) * stride <= bytes.size());
    kernels::WeightPart part{name,
                             tensor->type,
                             count,
                             columns,
                             bytes.data() + static_cast<std::size_t>(first) * stride,
                             columnOrder(*tensor),
                             m_checkpoint.activationScale(*tensor)};
    if (!m_ops.keepsSource())
        part.packed = [this, tensor, first, stride](std::int64_t begin, std::int64_t packed) {
            m_checkpoint.releasePart(*tensor, static_cast<std::size_t>(first + begin) * stride,
                                     static_cast<std::size_t>(packed) * stride);
        };
    return part;
}

void WeightLoader::release(const std::string &name)
{
    const TensorInfo *tensor = m_checkpoint.find(name);
    CHECK(tensor);
    finish(*tensor);
}

std::vector<std::unique_ptr<kernels::PackedWeight>> WeightLoader::experts(int layer,
                                                                          std::initializer_list<const char *> parts,
                                                                          int count, int pieces)
{
    const auto name = [&](const char *part, int expert) {
        const std::string stacked = layerTensor(layer, (part + std::string("_exps")).c_str());
        return has(stacked) ? stacked : layerTensor(layer, (part + ("." + std::to_string(expert))).c_str());
    };
    std::vector<std::unique_ptr<kernels::PackedWeight>> packed;
    for (int e = 0; e < count; ++e) {
        std::vector<kernels::WeightPart> matrices;
        for (const char *part : parts) {
            const TensorInfo *tensor = m_checkpoint.find(name(part, e));
            CHECK(tensor && tensor->shape.size() >= 2);
            const std::int64_t height = tensor->shape[tensor->shape.size() - 2];
            const std::int64_t first = tensor->shape.size() == 3 ? e * height : 0;
            for (int i = 0; i < pieces; ++i)
                matrices.push_back(rows(tensor->name, first + i * (height / pieces), height / pieces));
        }
        packed.push_back(pack(matrices));
        for (const char *part : parts) {
            if (e + 1 == count || name(part, e) != name(part, e + 1))
                release(name(part, e));
        }
    }
    return packed;
}

std::vector<float> WeightLoader::values(const std::string &name)
{
    const TensorInfo *tensor = m_checkpoint.find(name);
    if (!tensor)
        return {};
    const auto elements =
        std::accumulate(tensor->shape.begin(), tensor->shape.end(), std::int64_t{1}, std::multiplies<>());
    std::vector<float> result(static_cast<std::size_t>(elements));
    kernels::dequantize(tensor->type, m_checkpoint.bytes(*tensor).data(), result.data(), elements);
    putInOrder(m_checkpoint.columnOrder(*tensor), result);
    finish(*tensor);
    return result;
}

Tensor WeightLoader::upload(std::span<const float> values)
{
    if (values.empty())
        return {};
    Tensor tensor(m_ops, kernels::DType::F32, std::array{static_cast<std::int64_t>(values.size())});
    const std::unique_ptr<kernels::Stream> stream = m_ops.makeStream();
    m_ops.transfer(values.data(), tensor.view().data, values.size_bytes(), *stream);
    stream->synchronize();
    return tensor;
}

Tensor WeightLoader::vector(const std::string &name, float offset)
{
    std::vector<float> all = values(name);
    for (float &value : all)
        value += offset;
    return upload(all);
}

Tensor WeightLoader::numberedVectors(const std::string &name, float offset)
{
    std::vector<float> all;
    const auto numbered = [&name](int i) { return name + '.' + std::to_string(i) + ".weight"; };
    for (int i = 0; has(numbered(i)); ++i) {
        for (const float value : values(numbered(i)))
            all.push_back(value + offset);
    }
    return upload(all);
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

kernels::PagedBatch pagedBatch(const ForwardBatch &batch, const KvCache &kv, bool windowed)
{
    kernels::PagedBatch paged;
    paged.queryStarts = batch.queryStarts;
    paged.contextLengths = batch.contextLengths;
    paged.blockTables = windowed ? batch.windowTables : batch.blockTables;
    paged.maxBlocks = batch.maxBlocks;
    paged.blockTokens = kv.shape().blockTokens;
    return paged;
}

} // namespace engine
