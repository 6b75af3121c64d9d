// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <array>
#include <cstdint>

namespace kernels {

/// A view of memory on one device; owns nothing. Shapes are written slowest dimension first; the last
/// dimension is contiguous, the others have strides in elements, so that a slice of columns is a view too.
struct TensorView {
    std::byte *data = nullptr;
    DType dtype = DType::F32;
    int rank = 0;
    std::array<std::int64_t, 4> shape{};   ///< [0, rank)
    std::array<std::int64_t, 4> strides{}; ///< elements; strides[rank - 1] == 1

    [[nodiscard]] std::int64_t elements() const
    {
        std::int64_t n = 1;
        for (int i = 0; i < rank; ++i)
            n *= shape[static_cast<std::size_t>(i)];
        return n;
    }
    template<typename T> [[nodiscard]] T *as() const { return reinterpret_cast<T *>(data); }
};

/// A contiguous view of up to four dimensions.
template<typename... Sizes> [[nodiscard]] TensorView makeView(void *data, DType dtype, Sizes... sizes)
{
    static_assert(sizeof...(sizes) >= 1 && sizeof...(sizes) <= 4);
    TensorView view;
    view.data = static_cast<std::byte *>(data);
    view.dtype = dtype;
    for (const std::int64_t size : {static_cast<std::int64_t>(sizes)...})
        view.shape[static_cast<std::size_t>(view.rank++)] = size;
    std::int64_t stride = 1;
    for (int i = view.rank - 1; i >= 0; --i) {
        view.strides[static_cast<std::size_t>(i)] = stride;
        stride *= view.shape[static_cast<std::size_t>(i)];
    }
    return view;
}

/// Columns [first, first + count) of a rank-2 float view [rows, columns].
[[nodiscard]] inline TensorView columns(const TensorView &matrix, std::int64_t first, std::int64_t count)
{
    TensorView view = matrix;
    view.data = matrix.data + first * info(matrix.dtype).blockBytes;
    view.shape[1] = count;
    return view;
}

} // namespace kernels
