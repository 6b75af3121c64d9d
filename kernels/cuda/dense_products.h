// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/step_memory.h"

#include <functional>
#include <memory>

namespace kernels::cuda {

/// Products of many rows by cuBLASLt: weights are expanded to halves, a piece at a time, and multiplied there. What
/// comes out for a row depends on how many there are, by float rounding.
class DenseProducts {
public:
    /// \param pieceBytes expanded weights at a time, 16 features at least
    DenseProducts(std::unique_ptr<CublasLt> library, int pieceBytes)
        : m_library(std::move(library))
        , m_pieceBytes(pieceBytes)
    {
    }

    /// The least rows that it takes; any at first.
    void setFromRows(int rows) { m_fromRows = rows; }
    [[nodiscard]] int fromRows() const { return m_fromRows; }
    [[nodiscard]] const std::string &name() const { return m_library->name(); }
    /// Not for bfloat16, whose activations have two terms, nor for weights that are multiplied in float or in integers.
    [[nodiscard]] bool takes(DType type, int rows) const { return rows >= m_fromRows && isDense(type); }
    [[nodiscard]] static bool isDense(DType type);

    /// Memory of one product, from the stream's workspace.
    struct Room {
        int columns = 0;
        int pieceFeatures = 0;
        std::uint16_t *weights = nullptr; ///< [pieceFeatures, columns]
        float *sums = nullptr;            ///< [rows, pieceFeatures]
        std::byte *library = nullptr;
    };
    [[nodiscard]] Room roomFor(int rows, int columns, DeviceStream &stream) const;
    void multiply(const WeightView &weight, const CastRows &x, const ProductTarget &target, const Room &room,
                  DeviceStream &stream);

private:
    std::unique_ptr<CublasLt> m_library;
    int m_pieceBytes;
    int m_fromRows = 1;
};

/// Seconds of a product with so many rows, by the library or by the kernels.
using ProductTimer = std::function<double(int rows, bool dense)>;

/// The least of some numbers of rows from which on the library is faster; 0 where it never is.
[[nodiscard]] int fasterFromRows(const ProductTimer &seconds);

/// Times both on the device, with weights of 4,096 x 4,096; `dense` is used whatever the number of rows.
[[nodiscard]] ProductTimer timerOn(Runtime &runtime, DenseProducts &dense);

} // namespace kernels::cuda
