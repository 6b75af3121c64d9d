// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/tensor.h"

#include <algorithm>

namespace engine {
namespace {

kernels::TensorView shapedView(std::byte *data, kernels::DType dtype, std::span<const std::int64_t> shape)
{
    kernels::TensorView view;
    view.data = data;
    view.dtype = dtype;
    view.rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
        view.shape[i] = shape[i];
        view.strides[i] = stride;
        stride *= shape[i];
    }
    return view;
}

} // namespace

Tensor::Tensor(kernels::Ops &ops, kernels::DType dtype, std::span<const std::int64_t> shape)
{
    CHECK(!shape.empty() && shape.size() <= 4 && !kernels::info(dtype).quantized);
    CHECK(std::all_of(shape.begin(), shape.end(), [](std::int64_t size) { return size > 0; }));
    m_view = shapedView(nullptr, dtype, shape);
    const auto bytes =
        static_cast<std::size_t>(m_view.elements()) * static_cast<std::size_t>(kernels::info(dtype).blockBytes);
    m_buffer = ops.allocate(bytes);
    m_view.data = m_buffer->data();
}

kernels::TensorView Tensor::rows(std::int64_t rows) const
{
    CHECK(m_buffer && rows >= 0 && rows <= m_view.shape[0]);
    kernels::TensorView view = m_view;
    view.shape[0] = rows;
    return view;
}

} // namespace engine
