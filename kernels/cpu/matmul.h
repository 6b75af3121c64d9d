// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/packed_panels.h"
#include "kernels/cpu/rounded_activations.h"
#include "kernels/ops.h"
#include "kernels/thread_pool.h"

namespace kernels {

/// Activation rows that meet one matrix.
struct WeightTile {
    const PackedPanels *weight = nullptr;
    const float *bias = nullptr; ///< [rows of the matrix] or null
    RowRange range;
};

/// Matrix products of one CPU backend: quantizes activations once per call, shares panels among the threads, and
/// finishes each tile (bias, residual, activation) while it is in the first cache.
class Matmul {
public:
    /// \pre every weight that comes was shown to chooseProducts before, when the level has bfloatPanel
    Matmul(const LevelKernels &level, ThreadPool &pool)
        : m_level(level)
        , m_pool(pool)
    {
    }

    /// out (+)= x Wᵀ (+ bias)
    void linear(const PackedPanels &weight, const TensorView &x, const TensorView &out, const float *bias,
                bool accumulate);
    /// out = act(x Gᵀ + b) x (x Uᵀ + c)
    void gated(const PackedPanels &gateUp, Activation activation, const TensorView &x, const TensorView &out,
               const float *bias);

    /// The same for tiles with matrices of their own, all of one shape; they hold every row of x once, in order. Row i
    /// of the result is row outRows[i] of `out`, or row i when outRows is null.
    void linear(std::span<const WeightTile> tiles, const TensorView &x, const TensorView &out,
                const std::int64_t *outRows, bool accumulate);
    void gated(std::span<const WeightTile> tiles, Activation activation, const TensorView &x, const TensorView &out,
               const std::int64_t *outRows);

    /// Measures, once for each type and width, whether products of many rows in bfloat16 are faster.
    void chooseProducts(const PackedPanels &weight);
    /// Whether they are for some of the weights shown.
    [[nodiscard]] bool usesBfloat() const;

private:
    struct Worker;

    /// Which panels were measured, and whether bfloat16 pays.
    struct Choice {
        PanelLayout layout;
        bool bfloat;
    };

    /// The activations in one order of their columns.
    struct Input {
        AlignedMemory memory;
        TensorView x;
        RoundedActivations rounded;
        AlignedMemory bfloatMemory;
        std::uint16_t *bfloat = nullptr; ///< [rows, bfloatStride]
        std::int64_t bfloatStride = 0;
    };

    [[nodiscard]] std::span<const WeightTile> tilesOf(const PackedPanels &weight, const TensorView &x,
                                                      const float *bias);
    /// Orders and rounds the activations as the matrices want them.
    void prepare(std::span<const WeightTile> tiles, const TensorView &x);
    [[nodiscard]] TensorView ordered(std::span<const WeightTile> tiles, const TensorView &x, std::size_t input);
    void roundToBfloat(Input &input);
    /// Whether bfloat16 is faster for tileRows of the activations in m_inputs.
    [[nodiscard]] bool isBfloatFaster(const PackedPanels::Panel &panel, Worker &worker);
    [[nodiscard]] const Choice *choiceOf(const PanelLayout &layout) const;
    [[nodiscard]] bool takesBfloat(const PanelLayout &layout, int rows) const;
    void panelProducts(const PackedPanels::Panel &panel, std::int64_t index, const RowRange &range, Worker &worker,
                       float *tile);
    /// The same for two panels, into the worker's tiles.
    void pairProducts(const PackedPanels::Panel &first, const PackedPanels::Panel &second, std::int64_t index,
                      const RowRange &range, Worker &worker);
    /// A tile's rows to their places in `out`.
    void finish(const float *tile, const RowRange &range, const float *bias, const PackedPanels::Panel &panel,
                bool accumulate, const TensorView &out, const std::int64_t *outRows) const;
    /// Calls body(first panel, end, number of the tile, worker) for stretches of [0, panels) and every tile; they begin
    /// at multiples of `together`.
    template<typename Body> void overTiles(std::int64_t panels, int together, std::size_t tiles, Body body);

    const LevelKernels &m_level;
    ThreadPool &m_pool;
    std::vector<AlignedMemory> m_workers;
    std::vector<Choice> m_choices;
    std::vector<Input> m_inputs;     ///< by PackedPanels::Panel::input
    std::vector<WeightTile> m_tiles; ///< of this call, as m_ranges, kept for their memory
    std::vector<RowRange> m_ranges;
};

} // namespace kernels
