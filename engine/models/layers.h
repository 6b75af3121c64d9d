// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/tensor.h"
#include "engine/models/model.h"
#include "engine/models/tensor_names.h"

#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// Turns the tensors of a checkpoint into a backend's own form, one at a time: packs, gives the file's pages back,
/// reports progress, and looks whether to stop.
class WeightLoader {
public:
    using ProgressCallback = std::function<void(double fraction)>;

    /// All references must outlive this.
    WeightLoader(const Checkpoint &checkpoint, kernels::Ops &ops, ProgressCallback progress, std::stop_token stop);

    [[nodiscard]] kernels::Ops &ops() { return m_ops; }
    [[nodiscard]] bool has(const std::string &name) const { return m_checkpoint.find(name) != nullptr; }
    /// The matrices of those names stacked along the rows. \throws Error Cancelled
    [[nodiscard]] std::unique_ptr<kernels::PackedWeight> matrix(std::initializer_list<std::string> names);
    /// One matrix seen as `parts` matrices of equal rows, as of gate and up in one tensor. \throws Error Cancelled
    [[nodiscard]] std::unique_ptr<kernels::PackedWeight> splitMatrix(const std::string &name, int parts);
    /// Rows [first, first + count) of a tensor, whose leading dimensions are counted through, for pack(). Valid while
    /// the checkpoint is; pages are given back by release().
    [[nodiscard]] kernels::WeightPart rows(const std::string &name, std::int64_t first, std::int64_t count) const;
    [[nodiscard]] std::unique_ptr<kernels::PackedWeight> pack(std::span<const kernels::WeightPart> parts)
    {
        return m_ops.pack(parts);
    }
    /// The tensor has been read by rows(). \throws Error Cancelled
    void release(const std::string &name);
    /// The experts of a layer, each with its matrices of these names stacked: part "ffn_gate" is expert e's slab of
    /// "ffn_gate_exps", seen as `pieces` matrices of equal rows, or the tensor "ffn_gate.e". \throws Error Cancelled
    [[nodiscard]] std::vector<std::unique_ptr<kernels::PackedWeight>> experts(int layer,
                                                                              std::initializer_list<const char *> parts,
                                                                              int count, int pieces = 1);
    /// A norm weight or bias as float32 on the device, each element larger by `offset`; empty when the tensor is
    /// absent. \throws Error Cancelled
    [[nodiscard]] Tensor vector(const std::string &name, float offset = 0.0F);
    /// The same for the tensors "<name>.0.weight", "<name>.1.weight" and so on, one after another.
    [[nodiscard]] Tensor numberedVectors(const std::string &name, float offset = 0.0F);
    /// Biases of stacked matrices one after another, zeros for absent ones; empty when all are absent.
    /// `sizes` are the rows of the matrices.
    [[nodiscard]] Tensor stackedBias(std::initializer_list<std::string> names,
                                     std::initializer_list<std::int64_t> sizes);
    /// Values of a small tensor on the host, slowest dimension first; empty when it is absent.
    [[nodiscard]] std::vector<float> values(const std::string &name);

    /// Values on the device; empty for none.
    [[nodiscard]] Tensor upload(std::span<const float> values);

private:
    void finish(const TensorInfo &tensor);
    /// Of kernels::WeightPart.
    [[nodiscard]] const std::int32_t *columnOrder(const TensorInfo &tensor) const;

    const Checkpoint &m_checkpoint;
    kernels::Ops &m_ops;
    ProgressCallback m_progress;
    std::stop_token m_stop;
    double m_totalBytes = 1;
    double m_doneBytes = 0;
};

/// Columns [first, first + heads * headDim) of a float matrix [tokens, columns], seen as [tokens, heads, headDim].
[[nodiscard]] kernels::TensorView headsView(const kernels::TensorView &matrix, std::int64_t first, int heads,
                                            int headDim);

/// The batch as attention wants it.
[[nodiscard]] kernels::PagedBatch pagedBatch(const ForwardBatch &batch, const KvCache &kv, bool windowed);

/// Null for an empty tensor.
[[nodiscard]] inline const float *floats(const Tensor &tensor)
{
    return tensor.empty() ? nullptr : tensor.view().as<const float>();
}

} // namespace engine
