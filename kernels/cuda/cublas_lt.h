// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace kernels::cuda {

/// out [rows, features] = x [rows, columns] weights [features, columns]ᵀ; halves, sums and results in float, all dense.
struct DenseProduct {
    const void *weights = nullptr;
    int features = 0;
    const void *x = nullptr;
    int rows = 0;
    int columns = 0;
    float *out = nullptr;
};

/// NVIDIA's library of matrix products, found when the program runs. Thread: one caller at a time.
/// Source: cuBLAS documentation, "Using the cuBLASLt API".
class CublasLt {
public:
    /// The first of `names` that can be opened. \throws Error NoDevice saying why none can be used
    explicit CublasLt(std::span<const std::string> names);
    ~CublasLt();
    CublasLt(const CublasLt &) = delete;
    CublasLt &operator=(const CublasLt &) = delete;

    [[nodiscard]] const std::string &name() const; ///< of the file

    static constexpr std::size_t workspaceBytes = std::size_t{32} << 20;
    /// Queues the product. `workspace` of workspaceBytes is its own until it is done. \throws Error Internal
    void multiply(const DenseProduct &product, void *workspace, StreamHandle stream);

private:
    struct Library;
    std::unique_ptr<Library> m_library;
};

} // namespace kernels::cuda
