// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/tensor_view.h"

#include <cstdint>
#include <vector>

namespace kernel_data {

/// The floats of a vector as dense rows.
[[nodiscard]] inline kernels::TensorView viewOf(std::vector<float> &data, std::int64_t rows, std::int64_t columns)
{
    return kernels::makeView(data.data(), kernels::DType::F32, rows, columns);
}

} // namespace kernel_data
