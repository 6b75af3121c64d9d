// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <cstdint>
#include <memory>
#include <span>

namespace engine {

/// A contiguous tensor of up to four dimensions that owns its device memory. Moves, never copies.
class Tensor {
public:
    Tensor() = default;
    /// Zeroed. `shape` is slowest dimension first, one to four sizes; `dtype` is a plain (not quantized) type.
    /// \throws Error OutOfMemory naming the bytes asked for
    Tensor(kernels::Ops &ops, kernels::DType dtype, std::span<const std::int64_t> shape);

    [[nodiscard]] bool empty() const { return m_buffer == nullptr; }
    [[nodiscard]] std::size_t bytes() const { return m_buffer ? m_buffer->bytes() : 0; }
    /// Lives as long as this.
    [[nodiscard]] kernels::TensorView view() const { return m_view; }
    /// The first `rows` entries of the slowest dimension.
    [[nodiscard]] kernels::TensorView rows(std::int64_t rows) const;

private:
    std::unique_ptr<kernels::Buffer> m_buffer;
    kernels::TensorView m_view;
};

} // namespace engine
