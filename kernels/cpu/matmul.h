// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/packed_panels.h"
#include "kernels/cpu/rounded_activations.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace kernels {

/// Matrix products of one CPU backend: quantizes activations once per call, shares panels among the threads, and
/// finishes each tile (bias, residual, activation) while it is in the first cache.
class Matmul {
public:
    Matmul(const LevelKernels &level, ThreadPool &pool)
        : m_level(level)
        , m_pool(pool)
    {
    }

    /// out (+)= x Wᵀ (+ bias)
    void linear(const PackedPanels &weight, const TensorView &x, const TensorView &out, const float *bias,
                bool accumulate);
    /// out = act(x Gᵀ) x (x Uᵀ)
    void gated(const PackedPanels &gateUp, Activation activation, const TensorView &x, const TensorView &out);

private:
    struct Worker;

    void quantize(const PackedPanels &weight, const TensorView &x);
    void panelProducts(const PackedPanels::Panel &panel, const TensorView &x, std::int64_t firstRow, int rows,
                       Worker &worker, float *tile);
    /// Calls body(panel, first row, rows, worker) for every panel in [0, panels) and block of activation rows.
    template<typename Body> void overTiles(std::int64_t panels, std::int64_t rows, Body body);

    const LevelKernels &m_level;
    ThreadPool &m_pool;
    std::vector<AlignedMemory> m_workers;
    RoundedActivations m_rounded;
};

} // namespace kernels
