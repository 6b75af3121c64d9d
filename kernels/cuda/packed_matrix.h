// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"
#include "kernels/packed_weight.h"

#include <memory>
#include <span>
#include <vector>

namespace kernels::cuda {

/// Columns of weights and of cast activations on the device: filled up with zeros to what a warp multiplies at once.
[[nodiscard]] constexpr int wholeColumns(std::int64_t columns)
{
    constexpr std::int64_t step = 128;
    return static_cast<int>((columns + step - 1) / step * step);
}

/// Whether products need but one scale for each row of a W8A8 matrix: its blocks have the same, and a row's products
/// fit into an int.
[[nodiscard]] bool hasRowScales(const WeightPart &part);

/// A weight matrix on the device: of each part a plane of bodies, one of heads (block_planes.h), and the order of its
/// columns where it has one.
class PackedMatrix final : public PackedWeight {
public:
    struct Part {
        WeightView view;
        int firstRow = 0;
        const int *order = nullptr;   ///< on the device, [columns]; null = as they stand
        float activationScale = 0.0F; ///< of WeightPart
    };

    /// \throws Error Refused for a type that the kernels do not know, OutOfMemory
    PackedMatrix(std::span<const WeightPart> parts, Runtime &runtime);

    /// \pre `weight` was packed by CudaOps
    [[nodiscard]] static const PackedMatrix &of(const PackedWeight &weight);

    [[nodiscard]] const std::vector<Part> &parts() const { return m_parts; }

    /// What kernels need to know of experts or heads that are used together, made when they first are and kept with
    /// the first of them.
    struct Together {
        std::vector<const PackedWeight *> matrices;
        std::vector<const float *> biases;
        std::unique_ptr<Buffer> views;         ///< WeightView [parts, matrices]
        std::unique_ptr<Buffer> biasTable;     ///< [matrices] pointers, or null
        std::vector<std::vector<DType>> types; ///< that each part has among the matrices
        /// How the activations of each part are rounded to int8.
        struct Rounding {
            float scale = 0.0F;            ///< WeightPart::activationScale of all matrices
            const float *scales = nullptr; ///< where they differ: on the device, [matrices]
        };
        std::vector<Rounding> roundings;
        std::vector<std::vector<float>> scales; ///< of the tables
        std::vector<std::unique_ptr<Buffer>> scaleTables;
    };
    /// \throws Error Refused for columns in an order of their own, OutOfMemory
    [[nodiscard]] static const Together &together(std::span<const PackedWeight *const> matrices,
                                                  std::span<const float *const> biases, Runtime &runtime);

private:
    [[nodiscard]] std::byte *upload(std::span<const std::byte> bytes, Runtime &runtime);
    void add(const WeightPart &part, Runtime &runtime);

    std::vector<Part> m_parts;
    std::vector<std::unique_ptr<Buffer>> m_memory;
    std::string m_name;
    mutable std::unique_ptr<Together> m_together;
};

} // namespace kernels::cuda
