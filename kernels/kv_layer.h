// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/dtype.h"

#include <cstddef>
#include <cstdint>

namespace kernels {

/// Whether keys and values may be stored as `type`: F32, F16, BF16, Q8_0 or E4M3.
[[nodiscard]] bool isKvType(DType type);

/// Bytes of one stored row (the key or value of one token and head); the last block of a row is filled up with zeros.
[[nodiscard]] std::size_t kvRowBytes(DType type, int elements);

/// Stores one row. Q8_0: scale = largest / 127 as fp16, numbers to nearest even of x / scale; a block with an infinity
/// or NaN gets a NaN scale. E4M3: to nearest even, finite numbers beyond +-448 become +-448, others NaN.
/// This is the definition; every level of every backend writes the same bytes. \pre isKvType(type)
void storeKvRow(DType type, const float *x, int elements, std::byte *target);
/// The stored row as floats, as dequantize() gives them.
void expandKvRow(DType type, const std::byte *row, int elements, float *target);

/// A view of the paged keys and values of one layer; owns nothing. Each block holds a plane of keys and, behind it, one
/// of values, both [kvHeads, blockTokens] rows of headDim elements; with `keysOnly` there is no second plane and
/// values are parts of the keys (latent attention).
struct KvLayer {
    std::byte *data = nullptr;
    DType keyType = DType::F16;
    DType valueType = DType::F16; ///< equal to keyType with keysOnly
    int blocks = 0;
    int kvHeads = 0;
    int blockTokens = 0; ///< a power of two, at least 8
    int headDim = 0;
    bool keysOnly = false;
    /// Bytes from one block to the next; 0: they follow one another. Between them lie the same blocks of other layers.
    std::size_t blockStride = 0;

    [[nodiscard]] std::size_t keyRowBytes() const { return kvRowBytes(keyType, headDim); }
    [[nodiscard]] std::size_t valueRowBytes() const { return kvRowBytes(valueType, headDim); }
    [[nodiscard]] std::size_t blockBytes() const;
    [[nodiscard]] std::size_t bytesToNextBlock() const { return blockStride != 0 ? blockStride : blockBytes(); }
    /// First row of a head in a block; the rows of later tokens follow.
    [[nodiscard]] std::byte *keys(int block, int head) const;
    /// The same of values; with keysOnly these are the keys.
    [[nodiscard]] std::byte *values(int block, int head) const;
};

} // namespace kernels
