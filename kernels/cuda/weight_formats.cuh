// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// All formats of weights, by their types.

#include "kernels/cuda/coded_formats.cuh"
#include "kernels/cuda/k_formats.cuh"
#include "kernels/cuda/plain_formats.cuh"

namespace kernels::cuda {

template<typename... Formats> struct FormatList { };

using PlainFormats = FormatList<FloatFormat<DType::F16>, FloatFormat<DType::BF16>, Q4_0Format, Q4_1Format,
                                Q5Format<false>, Q5Format<true>, Q8_0Format>;
using KFormats = FormatList<Q2_KFormat, Q3_KFormat, Q45KFormat<false>, Q45KFormat<true>, Q6_KFormat, IQ4Format<false>,
                            IQ4Format<true>, MXFP4Format>;
using GroupFormats = FormatList<GroupFormat<DType::INT2>, GroupFormat<DType::INT3>, GroupFormat<DType::INT4>,
                                ByteFormat<false>, ByteFormat<true>, FP8Format<DType::FP8>, FP8Format<DType::FP8_E5M2>>;
using LevelFormats = FormatList<LevelFormat<DType::NF4>, LevelFormat<DType::NF4_F16>, LevelFormat<DType::NF4_BF16>,
                                LevelFormat<DType::FP4>, LevelFormat<DType::FP4_F16>, LevelFormat<DType::FP4_BF16>>;

/// Calls use.operator()<Format>() for the format of the type; false when the list has none.
template<typename... Formats, typename Use> bool withFormat(FormatList<Formats...>, DType type, Use use)
{
    return ((type == Formats::type && (use.template operator()<Formats>(), true)) || ...);
}

/// Eight numbers of row `row` from column `column`, a multiple of 8.
template<typename Format>
__device__ __forceinline__ void expandAt(const WeightView &weight, int row, int column, float (&out)[8])
{
    constexpr BlockPlanes planes = Format::planes;
    const auto block = static_cast<std::int64_t>(row) * (weight.columns / planes.elements) + column / planes.elements;
    const std::int64_t head = Format::type == DType::INT8 ? block / weight.scaleUnits : block;
    Format::expand8(reinterpret_cast<const std::uint8_t *>(weight.head) + head * planes.headBytes,
                    reinterpret_cast<const std::uint8_t *>(weight.body) + block * planes.bodyBytes,
                    column % planes.elements, out);
}

} // namespace kernels::cuda
