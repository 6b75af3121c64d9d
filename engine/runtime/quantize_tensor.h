// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"
#include "engine/io/gguf_writer.h"
#include "engine/io/importance_file.h"
#include "kernels/thread_pool.h"

#include <functional>
#include <stop_token>

namespace engine {

/// A matrix, or a stack of them, on its way into another type.
struct TensorConversion {
    const Checkpoint &checkpoint;
    const TensorInfo &tensor;
    kernels::DType target = kernels::DType::F32;
    const ChannelImportance *importance = nullptr; ///< null: all columns count alike
};

/// Turns rows [first, first + count) of `conversion.tensor`, given as floats [count, columns], into `target` bytes.
/// `weights` [columns] or null is the importance of the rows' columns. Called from several threads at once.
using RowQuantizer = std::function<void(const TensorConversion &conversion, std::int64_t first, std::int64_t count,
                                        const float *rows, const float *weights, std::byte *target)>;

/// Rounds every row by itself, kernels::quantizeRow. Searches that look at a whole matrix take the same place.
[[nodiscard]] RowQuantizer rowByRow();

/// The largest magnitude in a tensor. \throws Error Refused when a value is not finite, naming its place; Cancelled
[[nodiscard]] float largestValue(const Checkpoint &checkpoint, const TensorInfo &tensor, kernels::ThreadPool &pool,
                                 const std::stop_token &stop);

/// Converts and writes a tensor that was begun. \throws Error Cancelled, IoError
void writeConverted(const TensorConversion &conversion, const RowQuantizer &quantizer, kernels::ThreadPool &pool,
                    GgufWriter &writer, const std::stop_token &stop);

} // namespace engine
