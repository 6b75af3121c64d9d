// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"
#include "kernels/thread_pool.h"

#include <functional>

namespace kernels {

/// The parts as they were given, still read from the source bytes.
class ReferenceWeight final : public PackedWeight {
public:
    explicit ReferenceWeight(std::span<const WeightPart> parts);

    /// Expands row `row` of the stack to `target` [columns].
    void expandRow(std::int64_t row, float *target) const;

private:
    std::vector<WeightPart> m_parts;
};

/// Hands every product y[token, row] = sum over k of x[token, k] * w[row, k] to `store`, once each, from any worker.
void referenceProducts(ThreadPool &pool, const ReferenceWeight &weight, const TensorView &x,
                       const std::function<void(std::int64_t token, std::int64_t row, double value)> &store);

/// Activation functions in double. Source: Hendrycks and Gimpel 2016, arXiv:1606.08415, for both GELUs.
[[nodiscard]] double activated(Activation activation, double value);
/// act(gate) * up, or the clamped form of it.
[[nodiscard]] double gatedActivation(Activation activation, double gate, double up);

} // namespace kernels
