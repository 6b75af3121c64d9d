// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/model.h"

#include <array>
#include <cstddef>
#include <span>

namespace engine {

/// A step of one token for each sequence, filled up to one of a few shapes, so that a device that captures steps meets
/// the same shape again. Rows that fill it up stand for no token: they are stored nowhere, read nothing, and no token
/// is drawn from them. Kept between steps for its memory.
class PaddedStep {
public:
    /// Bytes that the arrays of a step may have together; longer tables are not worth the copy.
    static constexpr std::size_t mostBytes = 8U << 20U;

    /// Rows of the shape: 1, 2, 4, 8, 16, 24 and so on, at most `most`.
    [[nodiscard]] static int rowsFor(int rows, int most);
    /// Width of the tables: a power of two.
    [[nodiscard]] static int blocksFor(int blocks);

    /// False where the batch is no such step: it computes prompts, leaves logits out, mixes variants of the rotary
    /// embedding, has one that is of a single length, or is too large.
    [[nodiscard]] bool fill(const ForwardBatch &batch, int mostRows, const RopeVariants &variants);
    /// The largest shape for sequences of `maxBlocks` blocks at most, without a token.
    void fillLargest(int rows, int maxBlocks, bool windowed);

    [[nodiscard]] const ForwardBatch &forward() const { return m_forward; }
    [[nodiscard]] const kernels::StepShape &shape() const { return m_shape; }
    /// Valid until the next step is filled.
    [[nodiscard]] kernels::StepInputs inputs() const { return m_inputs; }

private:
    [[nodiscard]] static std::size_t tableBytes(const kernels::StepShape &shape, bool windowed);
    void clear(const kernels::StepShape &shape, bool windowed);
    void listInputs();

    ForwardBatch m_forward;
    kernels::StepShape m_shape;
    std::array<std::span<const std::byte>, 9> m_inputs;
};

} // namespace engine
