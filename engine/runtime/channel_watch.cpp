// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/channel_watch.h"

#include "kernels/checks.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace engine {

using kernels::PackedWeight;
using kernels::TensorView;

/// What was seen of each packed matrix.
struct ChannelWatch::State {
    struct Matrix {
        std::set<std::string> tensors; ///< whose rows it holds
        int expert = -1;               ///< its place among the experts of a layer; -1: no expert
        std::vector<double> sums;      ///< [columns]
        double rows = 0;
    };

    void add(const PackedWeight &weight, const float *row)
    {
        Matrix &matrix = matrices[&weight];
        for (std::size_t i = 0; i < matrix.sums.size(); ++i)
            matrix.sums[i] += static_cast<double>(row[i]) * row[i];
        matrix.rows += 1;
    }

    void addRows(const PackedWeight &weight, const TensorView &x)
    {
        for (std::int64_t t = 0; t < x.shape[0]; ++t)
            add(weight, x.as<const float>() + t * x.strides[0]);
    }

    /// Row t x k + r of the choices goes to the expert of that number; it meets row (t x k + r) / perRow of x.
    void addChosen(std::span<const PackedWeight *const> weights, const TensorView &x, const TensorView &ids,
                   std::int64_t perRow)
    {
        for (std::size_t e = 0; e < weights.size(); ++e)
            matrices[weights[e]].expert = static_cast<int>(e);
        const std::int64_t used = ids.shape[1];
        for (std::int64_t i = 0; i < ids.shape[0] * used; ++i) {
            const auto expert = static_cast<std::size_t>(ids.as<const std::int32_t>()[i]);
            add(*weights[expert], x.as<const float>() + i / perRow * x.strides[0]);
        }
    }

    std::unordered_map<const PackedWeight *, Matrix> matrices;
};

namespace {

class WatchedOps final : public kernels::Ops {
public:
    WatchedOps(std::unique_ptr<kernels::Ops> ops, ChannelWatch::State &state)
        : m_ops(std::move(ops))
        , m_state(state)
    {
    }

    [[nodiscard]] std::string_view name() const override { return m_ops->name(); }
    [[nodiscard]] std::string_view isa() const override { return m_ops->isa(); }
    [[nodiscard]] int threads() const override { return m_ops->threads(); }
    void setThreads(int threads) override { m_ops->setThreads(threads); }
    void useThreads(int used) override { m_ops->useThreads(used); }
    [[nodiscard]] int usedThreads() const override { return m_ops->usedThreads(); }
    [[nodiscard]] bool deterministic() const override { return m_ops->deterministic(); }
    [[nodiscard]] std::unique_ptr<kernels::Stream> makeStream() override { return m_ops->makeStream(); }
    [[nodiscard]] std::unique_ptr<kernels::Buffer> allocate(std::size_t bytes) override
    {
        return m_ops->allocate(bytes);
    }
    [[nodiscard]] std::unique_ptr<kernels::Buffer> allocateStaging(std::size_t bytes) override
    {
        return m_ops->allocateStaging(bytes);
    }
    [[nodiscard]] std::optional<std::size_t> freeOwnMemory() const override { return m_ops->freeOwnMemory(); }
    void transfer(const void *from, void *to, std::size_t bytes, kernels::Stream &stream) override
    {
        m_ops->transfer(from, to, bytes, stream);
    }
    [[nodiscard]] bool supportsKv(kernels::DType type) const override { return m_ops->supportsKv(type); }
    [[nodiscard]] bool supportsWeight(kernels::DType type) const override { return m_ops->supportsWeight(type); }
    [[nodiscard]] bool keepsSource() const override { return m_ops->keepsSource(); }

    [[nodiscard]] std::unique_ptr<PackedWeight> pack(std::span<const kernels::WeightPart> parts) override
    {
        std::unique_ptr<PackedWeight> packed = m_ops->pack(parts);
        ChannelWatch::State::Matrix &matrix = m_state.matrices[packed.get()];
        matrix.sums.assign(static_cast<std::size_t>(packed->columns()), 0.0);
        for (const kernels::WeightPart &part : parts)
            matrix.tensors.insert(part.name);
        return packed;
    }

    void linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias,
                kernels::Stream &stream) override
    {
        m_state.addRows(weight, x);
        m_ops->linear(weight, x, out, bias, stream);
    }
    void linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias,
                   kernels::Stream &stream) override
    {
        m_state.addRows(weight, x);
        m_ops->linearAdd(weight, x, inout, bias, stream);
    }
    void linearGated(const PackedWeight &gateUp, kernels::Activation activation, TensorView x, TensorView out,
                     const float *bias, kernels::Stream &stream) override
    {
        m_state.addRows(gateUp, x);
        m_ops->linearGated(gateUp, activation, x, out, bias, stream);
    }
    void linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out,
                     kernels::Stream &stream) override
    {
        for (std::size_t head = 0; head < weights.size(); ++head)
            m_state.addRows(*weights[head], kernels::headOf(x, static_cast<std::int64_t>(head)));
        m_ops->linearHeads(weights, x, out, stream);
    }
    void expertsGated(std::span<const PackedWeight *const> gateUp, kernels::Activation activation, TensorView x,
                      TensorView ids, std::span<const float *const> bias, TensorView out,
                      kernels::Stream &stream) override
    {
        m_state.addChosen(gateUp, x, ids, ids.shape[1]);
        m_ops->expertsGated(gateUp, activation, x, ids, bias, out, stream);
    }
    void expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids, TensorView weights,
                        std::span<const float *const> bias, TensorView inout, kernels::Stream &stream) override
    {
        m_state.addChosen(down, inner, ids, 1);
        m_ops->expertsCombine(down, inner, ids, weights, bias, inout, stream);
    }

    void embed(const PackedWeight &table, std::span<const int> ids, TensorView out, kernels::Stream &stream) override
    {
        m_ops->embed(table, ids, out, stream);
    }
    void activate(kernels::Activation activation, TensorView inout, kernels::Stream &stream) override
    {
        m_ops->activate(activation, inout, stream);
    }
    void rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, kernels::Stream &stream) override
    {
        m_ops->rmsNorm(x, weight, epsilon, out, stream);
    }
    void layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out,
                   kernels::Stream &stream) override
    {
        m_ops->layerNorm(x, weight, bias, epsilon, out, stream);
    }
    void add(TensorView x, TensorView inout, kernels::Stream &stream) override { m_ops->add(x, inout, stream); }
    void zero(TensorView out, kernels::Stream &stream) override { m_ops->zero(out, stream); }
    void copy(TensorView x, TensorView out, kernels::Stream &stream) override { m_ops->copy(x, out, stream); }
    void gatedAdd(TensorView x, TensorView gate, TensorView inout, kernels::Stream &stream) override
    {
        m_ops->gatedAdd(x, gate, inout, stream);
    }
    void scale(TensorView inout, float factor, kernels::Stream &stream) override
    {
        m_ops->scale(inout, factor, stream);
    }
    void softCap(TensorView inout, float cap, kernels::Stream &stream) override { m_ops->softCap(inout, cap, stream); }
    void clamp(TensorView inout, float limit, kernels::Stream &stream) override { m_ops->clamp(inout, limit, stream); }
    void rope(TensorView heads, std::span<const int> positions, const kernels::RopeTable &table,
              kernels::Stream &stream) override
    {
        m_ops->rope(heads, positions, table, stream);
    }
    void route(TensorView logits, const kernels::RouterShape &shape, TensorView ids, TensorView weights,
               kernels::Stream &stream) override
    {
        m_ops->route(logits, shape, ids, weights, stream);
    }
    void kvStore(TensorView k, TensorView v, const kernels::KvLayer &layer, std::span<const int> slots,
                 kernels::Stream &stream) override
    {
        m_ops->kvStore(k, v, layer, slots, stream);
    }
    void pagedAttention(TensorView q, const kernels::KvLayer &layer, const kernels::PagedBatch &batch,
                        const kernels::AttentionShape &shape, TensorView out, kernels::Stream &stream) override
    {
        m_ops->pagedAttention(q, layer, batch, shape, out, stream);
    }
    void gatherRows(TensorView x, std::span<const int> rows, TensorView out, kernels::Stream &stream) override
    {
        m_ops->gatherRows(x, rows, out, stream);
    }
    void copyBlock(const kernels::KvLayer &layer, int from, int to, kernels::Stream &stream) override
    {
        m_ops->copyBlock(layer, from, to, stream);
    }

private:
    std::unique_ptr<kernels::Ops> m_ops;
    ChannelWatch::State &m_state;
};

/// Adds what one matrix saw; an expert's part of a stacked tensor goes to its place.
void collect(const ChannelWatch::State::Matrix &matrix, const std::string &tensor, ImportanceMatrix &result)
{
    const bool stacked = matrix.expert >= 0 && tensor.find("_exps.") != std::string::npos;
    const std::size_t place = stacked ? static_cast<std::size_t>(matrix.expert) : 0;
    ChannelImportance &entry = result.tensors[tensor];
    const std::size_t columns = matrix.sums.size();
    entry.counts.resize(std::max(entry.counts.size(), place + 1), 0.0F);
    entry.sums.resize(std::max(entry.sums.size(), (place + 1) * columns), 0.0F);
    std::transform(matrix.sums.begin(), matrix.sums.end(),
                   entry.sums.begin() + static_cast<std::ptrdiff_t>(place * columns),
                   [](double sum) { return static_cast<float>(sum); });
    entry.counts[place] = static_cast<float>(matrix.rows);
}

} // namespace

ChannelWatch::ChannelWatch()
    : m_state(std::make_unique<State>())
{
}

ChannelWatch::~ChannelWatch() = default;

std::unique_ptr<kernels::Ops> ChannelWatch::around(std::unique_ptr<kernels::Ops> ops)
{
    if (ops->freeOwnMemory())
        throw kernels::Error(kernels::ErrorCode::InvalidArgument,
                             "activations can be watched where the host reads them, which device "
                                 + std::string(ops->name()) + " (" + std::string(ops->isa())
                                 + ") does not allow; wanted device cpu");
    return std::make_unique<WatchedOps>(std::move(ops), *m_state);
}

ImportanceMatrix ChannelWatch::result() const
{
    ImportanceMatrix result;
    for (const auto &[weight, matrix] : m_state->matrices) {
        for (const std::string &tensor : matrix.tensors) {
            const bool isTable = tensor == "output.weight" || tensor == "token_embd.weight";
            if (!isTable && (matrix.rows > 0 || matrix.expert >= 0))
                collect(matrix, tensor, result);
        }
    }
    return result;
}

} // namespace engine
