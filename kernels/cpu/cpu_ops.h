// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/checks.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/experts.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/rope_cache.h"
#include "kernels/ops.h"

#include <vector>

namespace kernels {

/// Operations on the processor with one instruction level, chosen when the object is made.
class CpuOps final : public Ops {
public:
    /// \pre the machine has the level
    CpuOps(Isa isa, int threads);
    /// With functions that are not those of kernelsOf(isa).
    CpuOps(Isa isa, const LevelKernels &level, int threads);

    std::string_view name() const override { return "cpu"; }
    std::string_view isa() const override { return isaName(m_isa); }
    int threads() const override { return m_pool.most(); }
    void useThreads(int used) override { m_pool.useThreads(used); }
    int usedThreads() const override { return m_pool.threads(); }
    bool deterministic() const override { return !m_matmul.usesBfloat(); }
    void setThreads(int threads) override { m_pool.setThreads(threads); }
    std::unique_ptr<Stream> makeStream() override;
    std::unique_ptr<Buffer> allocate(std::size_t bytes) override;
    bool supportsWeight(DType type) const override;
    std::unique_ptr<PackedWeight> pack(std::span<const WeightPart> parts) override;
    bool keepsSource() const override { return false; }

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
    /// Calls body(row), or body(row, worker), for rows [0, count) of `width` floats; on several threads when that pays.
    template<typename Body> void overRows(std::int64_t count, std::int64_t width, Body body);

    Isa m_isa;
    LevelKernels m_level;
    ThreadPool m_pool;
    WeightArena m_arena;
    Matmul m_matmul;
    Experts m_experts;
    Attention m_attention;
    RopeCache m_rope;
    std::vector<HostRouter> m_routers; ///< of each thread
};

} // namespace kernels
