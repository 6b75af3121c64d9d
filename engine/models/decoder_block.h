// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/model.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace engine {

/// Memory that the blocks of a step use one after another. Allocates nothing: it hands out parts of one tensor.
class Scratch {
public:
    Scratch() = default;
    /// `floats` is contiguous and lives as long as this.
    explicit Scratch(kernels::TensorView floats)
        : m_memory(floats.as<float>())
        , m_size(floats.elements())
    {
    }

    /// Floats that a part of that size takes.
    [[nodiscard]] static std::int64_t sizeOf(std::int64_t rows, std::int64_t columns)
    {
        return (rows * columns + alignment - 1) / alignment * alignment;
    }
    /// Gives back all parts; called before each block.
    void reset() { m_used = 0; }
    /// A contiguous part [rows, columns] of F32 or I32, valid until the next reset(). Its content is undefined.
    [[nodiscard]] kernels::TensorView take(std::int64_t rows, std::int64_t columns,
                                           kernels::DType type = kernels::DType::F32)
    {
        CHECK(m_used + sizeOf(rows, columns) <= m_size);
        float *first = m_memory + m_used;
        m_used += sizeOf(rows, columns);
        return kernels::makeView(first, type, rows, columns);
    }

private:
    static constexpr std::int64_t alignment = 16; ///< floats of one cache line

    float *m_memory = nullptr;
    std::int64_t m_size = 0;
    std::int64_t m_used = 0;
};

/// What the blocks of one layer share in one step.
struct DecoderStep {
    const ForwardBatch &batch;
    kernels::PagedBatch paged;    ///< of the layer that runs, as the next two
    std::span<const int> slotIds; ///< [tokens]
    kernels::KvLayer kvLayer;
    Scratch &scratch;
    kernels::Stream &stream;
    std::int64_t tokens = 0;
    int layer = 0;                           ///< that runs
    const RouterCallback *onRoute = nullptr; ///< or null
};

/// One branch of a layer with its weights: attention or feed-forward, without norms and residual.
/// Thread: the rank's worker.
class DecoderBlock {
public:
    virtual ~DecoderBlock() = default;
    /// target = branch(x), or target += branch(x) when it accumulates. x, target [tokens, hidden], not the same.
    virtual void run(kernels::TensorView x, kernels::TensorView target, bool accumulate, DecoderStep &step) = 0;
    /// Floats that run() takes from the scratch memory for that many tokens.
    [[nodiscard]] virtual std::int64_t scratchFloats(std::int64_t tokens) const = 0;
    [[nodiscard]] virtual std::size_t weightBytes() const = 0;   ///< resident
    [[nodiscard]] virtual std::size_t bytesPerToken() const = 0; ///< of weights, read for one token
};

} // namespace engine
