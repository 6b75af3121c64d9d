// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace kernels {

/// The truth for tests: the plainest loop for every operation, with sums in double. Weights stay where they are;
/// one row at a time is expanded into a small buffer.
class ReferenceOps final : public Ops {
public:
    explicit ReferenceOps(int threads)
        : m_pool(threads)
    {
    }

    std::string_view name() const override { return "reference"; }
    std::string_view isa() const override { return "scalar"; }
    int threads() const override { return m_pool.threads(); }
    void setThreads(int threads) override { m_pool.setThreads(threads); }
    std::unique_ptr<Stream> makeStream() override;
    std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
    bool supportsWeight(DType type) const override;
    std::unique_ptr<PackedWeight> pack(std::span<const WeightPart> parts) override;
    bool keepsSource() const override { return true; }

    void embed(const PackedWeight &table, std::span<const int> ids, TensorView out, Stream &stream) override;
    void linear(const PackedWeight &weight, TensorView x, TensorView out, const float *bias, Stream &stream) override;
    void linearAdd(const PackedWeight &weight, TensorView x, TensorView inout, const float *bias,
                   Stream &stream) override;
    void linearGated(const PackedWeight &gateUp, Activation activation, TensorView x, TensorView out, const float *bias,
                     Stream &stream) override;
    void linearHeads(std::span<const PackedWeight *const> weights, TensorView x, TensorView out,
                     Stream &stream) override;
    void activate(Activation activation, TensorView inout, Stream &stream) override;
    void rmsNorm(TensorView x, const float *weight, float epsilon, TensorView out, Stream &stream) override;
    void layerNorm(TensorView x, const float *weight, const float *bias, float epsilon, TensorView out,
                   Stream &stream) override;
    void zero(TensorView out, Stream &stream) override;
    void copy(TensorView x, TensorView out, Stream &stream) override;
    void add(TensorView x, TensorView inout, Stream &stream) override;
    void gatedAdd(TensorView x, TensorView gate, TensorView inout, Stream &stream) override;
    void scale(TensorView inout, float factor, Stream &stream) override;
    void softCap(TensorView inout, float cap, Stream &stream) override;
    void clamp(TensorView inout, float limit, Stream &stream) override;
    void route(TensorView logits, const RouterShape &shape, TensorView ids, TensorView weights,
               Stream &stream) override;
    void expertsGated(std::span<const PackedWeight *const> gateUp, Activation activation, TensorView x, TensorView ids,
                      std::span<const float *const> bias, TensorView out, Stream &stream) override;
    void expertsCombine(std::span<const PackedWeight *const> down, TensorView inner, TensorView ids, TensorView weights,
                        std::span<const float *const> bias, TensorView inout, Stream &stream) override;
    void rope(TensorView heads, std::span<const int> positions, const RopeTable &table, Stream &stream) override;
    void kvStore(TensorView k, TensorView v, const KvLayer &layer, std::span<const int> slots, Stream &stream) override;
    void pagedAttention(TensorView q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                        TensorView out, Stream &stream) override;
    void gatherRows(TensorView x, std::span<const int> rows, TensorView out, Stream &stream) override;
    void copyBlock(const KvLayer &layer, int from, int to, Stream &stream) override;

private:
    ThreadPool m_pool;
};

} // namespace kernels
