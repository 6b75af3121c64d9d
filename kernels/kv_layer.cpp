// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/kv_layer.h"

#include "kernels/error.h"
#include "kernels/float_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace kernels {

namespace {

constexpr int quantBlock = 32; // elements of a Q8_0 block, behind its fp16 scale
constexpr std::size_t scaleBytes = 2;

/// One block of Q8_0 from up to 32 numbers.
void storeQuantBlock(const float *x, int count, std::byte *target)
{
    float largest = 0.0F;
    bool finite = true;
    for (int i = 0; i < count; ++i) {
        finite = finite && std::isfinite(x[i]);
        largest = std::max(largest, std::fabs(x[i]));
    }
    std::uint16_t scaleBits = floatToHalf(finite ? largest / 127.0F : std::numeric_limits<float>::quiet_NaN());
    float scale = halfToFloat(scaleBits);
    if (std::isinf(scale)) { // beyond 127 x 65504: no half holds the scale
        scaleBits = floatToHalf(std::numeric_limits<float>::quiet_NaN());
        scale = 0.0F;
    }
    const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
    std::int8_t numbers[quantBlock] = {};
    for (int i = 0; i < count && inverse > 0.0F; ++i)
        numbers[i] = static_cast<std::int8_t>(std::clamp(std::nearbyint(x[i] * inverse), -127.0F, 127.0F));
    std::memcpy(target, &scaleBits, scaleBytes);
    std::memcpy(target + scaleBytes, numbers, sizeof numbers);
}

std::uint8_t e4m3Of(float value)
{
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 24) & 0x80U;
    std::uint32_t rest = bits & 0x7fffffffU;
    if (rest >= 0x7f800000U)
        return static_cast<std::uint8_t>(sign | 0x7fU); // infinity or NaN
    rest = std::min(rest, std::bit_cast<std::uint32_t>(448.0F));
    if (rest < 0x3c800000U) // below 2^-6: let the adder round to steps of 2^-9, the spacing at 2^14
        return static_cast<std::uint8_t>(
            sign | (std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 16384.0F) & 0xffU));
    rest += 0x7ffffU + ((rest >> 20) & 1U);
    return static_cast<std::uint8_t>(sign | ((rest - (120U << 23)) >> 20)); // bias 127 becomes 7
}

std::size_t planeBytes(const KvLayer &layer, std::size_t rowBytes)
{
    return static_cast<std::size_t>(layer.kvHeads) * static_cast<std::size_t>(layer.blockTokens) * rowBytes;
}

} // namespace

bool isKvType(DType type)
{
    return type == DType::F32 || type == DType::F16 || type == DType::BF16 || type == DType::Q8_0
        || type == DType::E4M3;
}

std::size_t kvRowBytes(DType type, int elements)
{
    const DTypeInfo &layout = info(type);
    return static_cast<std::size_t>((elements + layout.blockElements - 1) / layout.blockElements)
        * static_cast<std::size_t>(layout.blockBytes);
}

void storeKvRow(DType type, const float *x, int elements, std::byte *target)
{
    CHECK(isKvType(type));
    const auto narrow = [&](auto convert) {
        auto *numbers = reinterpret_cast<decltype(convert(0.0F)) *>(target);
        std::transform(x, x + elements, numbers, convert);
    };
    switch (type) {
    case DType::Q8_0:
        for (int i = 0; i < elements; i += quantBlock, target += scaleBytes + quantBlock)
            storeQuantBlock(x + i, std::min(quantBlock, elements - i), target);
        return;
    case DType::F16:
        return narrow(floatToHalf);
    case DType::BF16:
        return narrow(floatToBf16);
    case DType::E4M3:
        return narrow(e4m3Of);
    default:
        std::memcpy(target, x, static_cast<std::size_t>(elements) * sizeof(float));
    }
}

void expandKvRow(DType type, const std::byte *row, int elements, float *target)
{
    CHECK(isKvType(type));
    const int whole = elements / info(type).blockElements * info(type).blockElements;
    dequantize(type, row, target, whole);
    if (whole < elements) {
        float last[quantBlock];
        dequantize(type, row + kvRowBytes(type, whole), last, quantBlock);
        std::copy(last, last + (elements - whole), target + whole);
    }
}

std::size_t KvLayer::blockBytes() const
{
    return planeBytes(*this, keyRowBytes()) + (keysOnly ? 0 : planeBytes(*this, valueRowBytes()));
}

std::byte *KvLayer::keys(int block, int head) const
{
    const auto rows = static_cast<std::size_t>(head) * static_cast<std::size_t>(blockTokens);
    return data + static_cast<std::size_t>(block) * bytesToNextBlock() + rows * keyRowBytes();
}

std::byte *KvLayer::values(int block, int head) const
{
    if (keysOnly)
        return keys(block, head);
    const auto rows = static_cast<std::size_t>(head) * static_cast<std::size_t>(blockTokens);
    return data + static_cast<std::size_t>(block) * bytesToNextBlock() + planeBytes(*this, keyRowBytes())
        + rows * valueRowBytes();
}

} // namespace kernels
