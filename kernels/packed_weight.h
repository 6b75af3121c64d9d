// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace kernels {

/// One weight matrix as the file holds it: [rows, columns], rows contiguous, `columns` a multiple of the block size.
struct WeightPart {
    std::string name;
    DType type = DType::F32;
    std::int64_t rows = 0;    ///< output features
    std::int64_t columns = 0; ///< input features
    const std::byte *data = nullptr;
    /// Column k of `data` is column columnOrder[k] of the matrix, a permutation of [columns]; null = as they stand.
    /// Valid as long as `data`. Files that sort columns by importance have one (GPTQ's desc_act).
    const std::int32_t *columnOrder = nullptr;
    /// Of W8A8: the scale of all activations, as the file has it; 0 = that of a row is its largest number / 127.
    float activationScale = 0.0F;
    /// Called by the packing thread for rows [first, first + count) when a copy of them is made and `data` is not read
    /// there any more; may be null. Backends need not call it.
    std::function<void(std::int64_t first, std::int64_t count)> packed = nullptr;
};

/// A backend's own layout of one weight matrix, or of several fused along the rows (QKV; gate and up).
/// Made once at load by Ops::pack; above `kernels` it is opaque. Computed in-quant, never expanded.
class PackedWeight {
public:
    virtual ~PackedWeight() = default;

    [[nodiscard]] std::int64_t rows() const { return m_rows; }
    [[nodiscard]] std::int64_t columns() const { return m_columns; }
    [[nodiscard]] const std::vector<std::int64_t> &partRows() const { return m_partRows; }
    /// Bytes that this object keeps resident, besides mapped file pages that it still reads.
    [[nodiscard]] std::size_t residentBytes() const { return m_residentBytes; }
    /// Bytes read from memory by one pass over the matrix; for roofline figures.
    [[nodiscard]] std::size_t bytesPerPass() const { return m_bytesPerPass; }

protected:
    std::int64_t m_rows = 0;
    std::int64_t m_columns = 0;
    std::vector<std::int64_t> m_partRows;
    std::size_t m_residentBytes = 0;
    std::size_t m_bytesPerPass = 0;
};

} // namespace kernels
