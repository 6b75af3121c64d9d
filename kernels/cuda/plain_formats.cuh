// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// Weights as plain floats and in blocks of 32 with half-precision scales. Source of the blocks: the GGUF
/// specification.

#include "kernels/cuda/format_bytes.cuh"

namespace kernels::cuda {

/// Floats of 2 or 4 bytes in "blocks" of 32.
template<DType floatType> struct FloatFormat {
    static constexpr DType type = floatType;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *, const std::uint8_t *body, int first, float (&out)[8])
    {
        if constexpr (type == DType::F32) {
            for (int i = 0; i < 8; ++i)
                out[i] = reinterpret_cast<const float *>(body)[first + i];
        } else {
            const auto bits = ptx::load<uint4>(body + 2 * first);
            const unsigned words[4] = {bits.x, bits.y, bits.z, bits.w};
            for (int i = 0; i < 8; ++i) {
                const unsigned number = words[i / 2] >> 16 * (i % 2) & 0xffffU;
                out[i] = type == DType::F16 ? __half2float(__ushort_as_half(static_cast<unsigned short>(number)))
                                            : __uint_as_float(number << 16);
            }
        }
    }
};

struct Q4_0Format {
    static constexpr DType type = DType::Q4_0;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const auto word = ptx::load<unsigned>(body + first / 2);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(static_cast<int>(arrangedNibble(word, i)) - 8);
    }
};

struct Q4_1Format {
    static constexpr DType type = DType::Q4_1;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const float minimum = halfAt(head, 1);
        const auto word = ptx::load<unsigned>(body + first / 2);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(arrangedNibble(word, i)) + minimum;
    }
};

/// Q5_0, and with a minimum Q5_1; head: scale, minimum, 32 fifth bits.
template<bool hasMinimum> struct Q5Format {
    static constexpr DType type = hasMinimum ? DType::Q5_1 : DType::Q5_0;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const unsigned bits = head[(hasMinimum ? 4 : 2) + first / 8];
        const auto bytes = ptx::load<uint2>(body + first % 16);
        for (int i = 0; i < 8; ++i) {
            const auto number = static_cast<int>(nibbleOf(bytes, i, first) | (bits >> i & 1U) << 4);
            if constexpr (hasMinimum)
                out[i] = scale * static_cast<float>(number) + halfAt(head, 1);
            else
                out[i] = scale * static_cast<float>(number - 16);
        }
    }
};

struct Q8_0Format {
    static constexpr DType type = DType::Q8_0;
    static constexpr BlockPlanes planes = planesOf(type);

    __device__ static void expand8(const std::uint8_t *head, const std::uint8_t *body, int first, float (&out)[8])
    {
        const float scale = halfAt(head, 0);
        const auto bytes = ptx::load<uint2>(body + first);
        for (int i = 0; i < 8; ++i)
            out[i] = scale * static_cast<float>(static_cast<std::int8_t>(byteOf(bytes, i)));
    }
};

} // namespace kernels::cuda
