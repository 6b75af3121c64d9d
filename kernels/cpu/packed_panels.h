// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/level.h"
#include "kernels/packed_weight.h"
#include "kernels/thread_pool.h"

#include <span>
#include <vector>

namespace kernels {

/// A weight matrix as panels of 16 rows (kernels/README.md). Each part has panels of its own, so that parts of
/// different types stand in one matrix; rows that fill up the last panel of a part are zero.
class PackedPanels final : public PackedWeight {
public:
    struct Part {
        PanelLayout layout{};
        std::int64_t firstRow = 0;
        std::int64_t rows = 0;
        std::int64_t firstPanel = 0;
        std::int64_t panels = 0;
        std::size_t input = 0; ///< which order of the columns it has
        std::shared_ptr<std::uint8_t> data;
    };

    /// One panel and the output rows that it holds.
    struct Panel {
        const PanelLayout *layout = nullptr;
        const std::uint8_t *data = nullptr;
        std::int64_t firstRow = 0;
        int rows = 0;
        std::size_t input = 0; ///< the order of activations that it meets
    };

    PackedPanels(std::span<const WeightPart> parts, WeightArena &arena, ThreadPool &pool);

    /// \pre `weight` was packed by the CPU backend
    [[nodiscard]] static const PackedPanels &of(const PackedWeight &weight);

    [[nodiscard]] std::int64_t panels() const;
    [[nodiscard]] Panel panel(std::int64_t index) const;
    [[nodiscard]] const std::vector<Part> &parts() const { return m_parts; }
    [[nodiscard]] bool needsQuantized() const { return m_needsQuantized; } ///< int8 activations
    [[nodiscard]] bool needsHalves() const { return m_needsHalves; }       ///< and sums of 16 of them

    /// Orders of the columns that differ between parts, at least one.
    [[nodiscard]] std::size_t inputs() const { return m_inputs.size(); }
    /// Column k meets activation input(i)[k]; empty = k, as for every i that no part has.
    [[nodiscard]] std::span<const std::int32_t> input(std::size_t index) const
    {
        return index < m_inputs.size() ? m_inputs[index] : std::span<const std::int32_t>();
    }

    /// Expands row `row` to `target` [columns].
    void expandRow(std::int64_t row, float *target) const;

private:
    [[nodiscard]] std::size_t addInput(const WeightPart &part);

    std::vector<Part> m_parts;
    std::vector<std::vector<std::int32_t>> m_inputs;
    bool m_needsQuantized = false;
    bool m_needsHalves = false;
};

} // namespace kernels
