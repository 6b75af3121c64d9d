// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <functional>
#include <string>
#include <vector>

namespace engine::gguf_form {

using Bytes = std::vector<std::byte>;

/// One tensor of a model in GGUF's form and how its bytes come about.
struct FormedTensor {
    TensorInfo info;
    std::vector<const TensorInfo *> sources; ///< whose pages it reads
    std::function<Bytes()> make;             ///< empty: the bytes of the only source
};

/// All elements of a tensor, in row order. \throws Error Refused when its type cannot be computed
[[nodiscard]] std::vector<float> floatsOf(const Checkpoint &checkpoint, const TensorInfo &tensor);
[[nodiscard]] Bytes bytesOf(const std::vector<float> &values);
/// Makes `info` one of float32 elements in its shape.
void setFloats(TensorInfo &info);
/// Makes `info` one of `type`, which is no type of blocks, in its shape.
void setType(TensorInfo &info, kernels::DType type);

/// The rows of a head: `count` of them, of which `rotary` from `first` on rotate.
struct HeadRows {
    std::int64_t count = 0;
    std::int64_t first = 0;
    std::int64_t rotary = 0;
};

/// The rotating rows of each head moved from halves (i, i + n / 2) to neighbours (2i, 2i + 1).
/// \pre `rows` is a multiple of head.count, head.first + head.rotary <= head.count
[[nodiscard]] Bytes interleavedRows(std::span<const std::byte> source, std::int64_t rows, const HeadRows &head);

/// The matrix that makes keys and values of all heads from the latent vector, [heads * (keys + values), rank], as the
/// two that GGUF has: NAME attn_k_b [heads, rank, keys], each head transposed, and attn_v_b [heads, values, rank].
/// Keys of a type of blocks become floats, since blocks lie along rows.
/// \throws Error Refused when `keys` and `values` do not divide the rows
[[nodiscard]] std::vector<FormedTensor> splitLatentHeads(const Checkpoint &checkpoint, const TensorInfo &tensor,
                                                         std::int64_t keys, std::int64_t values);

} // namespace engine::gguf_form
