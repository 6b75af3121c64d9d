// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace engine {

enum class TensorUse {
    Matrix, ///< packed for a linear operation, or looked up by row
    Vector, ///< read as float32: norms, biases, frequency factors
};

/// One tensor that a family reads.
struct ExpectedTensor {
    std::string name;
    std::vector<std::int64_t> shape; ///< slowest dimension first
    TensorUse use = TensorUse::Matrix;
    bool optional = false;
};

/// "blk.3.attn_q.weight"
[[nodiscard]] std::string layerTensor(int layer, const char *part, const char *suffix = "weight");

/// "blk.3.attn_q"
[[nodiscard]] std::string layerPrefix(int layer, const char *part);

/// `tensor NAME` as the files spell it.
[[nodiscard]] std::string tensorPlace(const Checkpoint &checkpoint, const std::string &name);

/// "[64, 320]" in the order of files and tools: fastest dimension first.
[[nodiscard]] std::string describeShape(const std::vector<std::int64_t> &shape);

/// Checks names, shapes and types before any weight is read. `supportsWeight` says which types matrices may have.
/// \throws Error Refused naming the tensor, what was found and what is wanted; also for tensors of layers that
/// the configuration does not have
void checkTensors(const Checkpoint &checkpoint, std::span<const ExpectedTensor> expected, int layers,
                  const std::function<bool(kernels::DType)> &supportsWeight);

/// Names of tensors that nothing reads, in file order.
[[nodiscard]] std::vector<std::string> unusedTensors(const Checkpoint &checkpoint,
                                                     std::span<const ExpectedTensor> expected);

} // namespace engine
