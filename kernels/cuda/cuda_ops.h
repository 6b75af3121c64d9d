// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/dense_products.h"
#include "kernels/cuda/launch_experts.h"
#include "kernels/cuda/packed_matrix.h"
#include "kernels/cuda/step_memory.h"
#include "kernels/ops.h"

#include <memory>
#include <utility>
#include <vector>

namespace kernels::cuda {

/// The operations on a CUDA device, real or emulated: each queues kernels on its stream and returns. Nothing is
/// allocated in a step that was planned (Stream::plan), and the host waits in synchronize() alone.
class CudaOps final : public Ops {
public:
    CudaOps(std::unique_ptr<Runtime> runtime, const CudaOptions &options);

    std::string_view name() const override { return "cuda"; }
    std::string_view isa() const override { return m_runtime->name(); }
    int threads() const override { return m_runtime->threads(); }
    void setThreads(int threads) override { m_runtime->setThreads(threads); }
    std::unique_ptr<Stream> makeStream() override { return std::make_unique<DeviceStream>(*m_runtime); }
    bool capturesSteps() const override { return true; }
    std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return m_runtime->allocate(bytes); }
    std::unique_ptr<Buffer> allocateStaging(std::size_t bytes) override { return m_runtime->allocatePinned(bytes); }
    std::optional<std::size_t> freeOwnMemory() const override { return m_runtime->freeBytes(); }
    void transfer(const void *from, void *to, std::size_t bytes, Stream &stream) override;
    bool supportsWeight(DType type) const override { return isMatrixType(type); }
    bool supportsKv(DType type) const override { return isAttentionType(type); }
    std::unique_ptr<PackedWeight> pack(std::span<const WeightPart> parts) override;
    bool keepsSource() const override { return false; }
    bool deterministic() const override { return m_dense == nullptr; }

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
    bool samples() const override { return true; }
    void sample(TensorView logits, const SamplingBatch &batch, SampledRow *sampled, Alternative *alternatives,
                Stream &stream) override;

private:
    /// What tells the casts of one operation's activations apart.
    struct CastKey {
        const int *order = nullptr;
        DType numbers = DType::F16;
        float fixedScale = 0.0F;
        const float *expertScales = nullptr;
        bool operator==(const CastKey &) const = default;
    };
    /// The cast that was made for another part of the product under way, or null.
    [[nodiscard]] const CastRows *castOf(const CastKey &key) const;
    /// Room for one, which whoever asks fills.
    [[nodiscard]] CastRows addCast(const CastKey &key, int rows, int columns, DeviceStream &stream);
    /// \param fixedScale of launchRound
    [[nodiscard]] CastRows castFor(DType type, const int *order, float fixedScale, const RowSpan &x,
                                   DeviceStream &stream);
    /// Each row of a product rounded with the scale of its expert.
    [[nodiscard]] CastRows roundFor(const ExpertScales &experts, const RowSpan &x, DeviceStream &stream);
    void multiply(const PackedMatrix &weight, const RowSpan &x, const ProductTarget &target, DeviceStream &stream);
    /// Rows [tokens, rows of an expert] of products, for the rows that ids give to each expert.
    [[nodiscard]] RowSpan multiplyExperts(const PackedMatrix::Together &experts, const RowSpan &x,
                                          const TensorView &ids, int rowsPerToken, DeviceStream &stream);

    std::unique_ptr<Runtime> m_runtime;
    std::unique_ptr<DenseProducts> m_dense;            ///< null: all products by the kernels
    std::vector<std::pair<CastKey, CastRows>> m_casts; ///< of the product under way
    std::vector<double> m_turns;                       ///< of the rope under way
    std::vector<AttentionTile> m_tiles;                ///< of the attention under way
};

} // namespace kernels::cuda
