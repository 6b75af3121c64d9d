// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/kernel_data.h"

#include "kernels/cpu/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace kernel_data {

namespace {

using kernels::DType;

/// Places of the fp16 numbers in a block.
std::vector<std::size_t> halfPlaces(DType type)
{
    switch (type) {
    case DType::Q4_1:
    case DType::Q5_1:
    case DType::Q4_K:
    case DType::Q5_K:
        return {0, 2};
    case DType::Q2_K:
        return {80, 82};
    case DType::Q3_K:
        return {108};
    case DType::Q6_K:
        return {208};
    case DType::TQ1_0:
        return {52};
    case DType::TQ2_0:
        return {64};
    case DType::MXFP4:
    case DType::NVFP4:
    case DType::IQ1_M:
    case DType::INT2:
    case DType::INT3:
    case DType::INT4:
    case DType::INT8:
    case DType::W8A8:
    case DType::INT8Z:
    case DType::FP8:
    case DType::FP8_E5M2:
    case DType::NF4:
    case DType::NF4_F16:
    case DType::NF4_BF16:
    case DType::FP4:
    case DType::FP4_F16:
    case DType::FP4_BF16:
        return {};
    default:
        return {0};
    }
}

float scaleOf(Scales kind, std::mt19937 &random)
{
    const float unit = static_cast<float>(random() & 0xffff) / 65536.0F;
    switch (kind) {
    case Scales::Tiny:
        return std::ldexp(1.0F + unit, -20);
    case Scales::Huge:
        return 40000.0F + 20000.0F * unit;
    case Scales::Usual:
        break;
    }
    return 0.001F + 0.02F * unit;
}

std::uint8_t exponentOf(Scales kind, std::mt19937 &random)
{
    if (kind == Scales::Tiny)
        return static_cast<std::uint8_t>(random() % 3);
    return static_cast<std::uint8_t>((kind == Scales::Huge ? 150 : 118) + random() % 4);
}

/// IQ1_M spreads its fp16 scale over the top four bits of four words.
void setSpreadHalf(std::byte *words, std::uint16_t half)
{
    for (int i = 0; i < 4; ++i) {
        const auto top = static_cast<std::byte>((half >> (4 * i) & 15) << 4);
        words[2 * i + 1] = (words[2 * i + 1] & std::byte{15}) | top;
    }
}

/// A zero that a file may have; numbers of FP8 that are NaN become 0.
void setZero(DType type, std::byte *rest, std::mt19937 &random)
{
    const std::int16_t zero = static_cast<std::int16_t>(random() % 257);
    if (type == DType::INT2 || type == DType::INT3 || type == DType::INT4)
        rest[0] = static_cast<std::byte>(zero % 17);
    if (type == DType::INT8Z)
        std::memcpy(rest, &zero, sizeof zero);
    for (int i = 0; i < 32 && type == DType::FP8; ++i) {
        if ((rest[i] & std::byte{0x7f}) == std::byte{0x7f})
            rest[i] = std::byte{0};
    }
    for (int i = 0; i < 32 && type == DType::FP8_E5M2; ++i)
        rest[i] = (rest[i] & std::byte{0xbf}) | std::byte{0x20}; // far from infinity, and within eight powers of two
}

void setScales(DType type, std::byte *block, std::mt19937 &random, Scales scales)
{
    if (type == DType::MXFP4)
        block[0] = static_cast<std::byte>(exponentOf(scales, random));
    for (int i = 0; i < 4 && type == DType::NVFP4; ++i) // E4M3: subnormal, usual, close to the largest
        block[i] = static_cast<std::byte>(scales == Scales::Tiny       ? random() % 8
                                              : scales == Scales::Huge ? 112 + random() % 15
                                                                       : 8 + random() % 48);
    const auto half = [&] {
        const float sign = (random() & 1) != 0 ? 1.0F : -1.0F;
        return kernels::floatToHalf(sign * scaleOf(scales, random));
    };
    if (type >= DType::INT2 && type <= DType::FP4_BF16) {
        const float scale = (random() & 1) != 0 ? scaleOf(scales, random) : -scaleOf(scales, random);
        std::memcpy(block, &scale, sizeof scale);
        setZero(type, block + sizeof scale, random);
    }
    if (type == DType::IQ1_M)
        setSpreadHalf(block + 48, half());
    for (const std::size_t place : halfPlaces(type)) {
        const std::uint16_t bits = half();
        std::memcpy(block + place, &bits, 2);
    }
}

void fillQuantized(Weight &weight, std::mt19937 &random, Scales scales)
{
    for (std::byte &byte : weight.bytes)
        byte = static_cast<std::byte>(random() & 0xff);
    const auto blockBytes = static_cast<std::size_t>(kernels::info(weight.type).blockBytes);
    for (std::size_t at = 0; at < weight.bytes.size(); at += blockBytes)
        setScales(weight.type, weight.bytes.data() + at, random, scales);
}

void fillFloats(Weight &weight, std::mt19937 &random, Scales scales)
{
    const auto size = static_cast<std::size_t>(kernels::info(weight.type).blockBytes);
    for (std::size_t at = 0; at < weight.bytes.size(); at += size) {
        const float value = scaleOf(scales, random) * (static_cast<float>(random() & 0xffff) / 32768.0F - 1.0F);
        const std::uint16_t narrow =
            weight.type == DType::F16 ? kernels::floatToHalf(value) : kernels::floatToBf16(value);
        std::memcpy(weight.bytes.data() + at, weight.type == DType::F32 ? static_cast<const void *>(&value) : &narrow,
                    size);
    }
}

} // namespace

const std::vector<DType> &weightTypes()
{
    static const std::vector<DType> types{
        DType::F32,     DType::F16,      DType::BF16,  DType::Q4_0,    DType::Q4_1,    DType::Q5_0,     DType::Q5_1,
        DType::Q8_0,    DType::Q2_K,     DType::Q3_K,  DType::Q4_K,    DType::Q5_K,    DType::Q6_K,     DType::IQ4_NL,
        DType::IQ4_XS,  DType::MXFP4,    DType::IQ1_S, DType::IQ1_M,   DType::IQ2_XXS, DType::IQ2_XS,   DType::IQ2_S,
        DType::IQ3_XXS, DType::IQ3_S,    DType::TQ1_0, DType::TQ2_0,   DType::NVFP4,   DType::INT2,     DType::INT3,
        DType::INT4,    DType::INT8,     DType::W8A8,  DType::INT8Z,   DType::FP8,     DType::FP8_E5M2, DType::NF4,
        DType::NF4_F16, DType::NF4_BF16, DType::FP4,   DType::FP4_F16, DType::FP4_BF16};
    return types;
}

kernels::WeightPart Weight::part(const std::string &name) const
{
    return {name, type, rows, columns, bytes.data()};
}

std::vector<float> Weight::expanded() const
{
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    kernels::dequantize(type, bytes.data(), values.data(), rows * columns);
    return values;
}

Weight randomWeight(DType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed, Scales scales)
{
    Weight weight{type, rows, columns, {}};
    weight.bytes.resize(static_cast<std::size_t>(rows) * kernels::rowBytes(type, columns));
    std::mt19937 random(seed);
    if (kernels::info(type).quantized)
        fillQuantized(weight, random, scales);
    else
        fillFloats(weight, random, scales);
    return weight;
}

std::vector<float> randomFloats(std::size_t count, std::uint32_t seed)
{
    std::mt19937 random(seed);
    std::vector<float> values(count);
    for (float &value : values)
        value = static_cast<float>(random() & 0xffffff) / 8388608.0F - 1.0F;
    return values;
}

std::vector<float> exactActivations(std::int64_t rows, std::int64_t columns, std::uint32_t seed)
{
    std::mt19937 random(seed);
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t row = i / static_cast<std::size_t>(columns);
        const std::size_t inRow = i % static_cast<std::size_t>(columns);
        const std::size_t block = inRow / 32;
        const float scale = std::ldexp(1.0F, static_cast<int>((block * 7 + row) % 9) - 8);
        const bool largest = inRow % 16 == (block * 5 + row * 3) % 16; // two, so that the scale stays without one
        const int number = largest ? (inRow % 32 < 16 ? 127 : -127) : static_cast<int>(random() % 255) - 127;
        values[i] = static_cast<float>(number) * scale;
    }
    return values;
}

std::unique_ptr<kernels::Ops> reference()
{
    kernels::OpsOptions options;
    options.reference = true;
    options.threads = 2;
    return kernels::makeOps(options);
}

std::unique_ptr<kernels::Ops> cpu(const std::string &isa, int threads)
{
#if defined(LATHE_EMULATED_AMX)
    if (isa == emulatedAmx)
        return std::make_unique<kernels::CpuOps>(kernels::Isa::Amx, kernels::emulatedAmxKernels(), threads);
#endif
    kernels::OpsOptions options;
    options.isa = isa;
    options.threads = threads;
    return kernels::makeOps(options);
}

bool hasLevel(const std::string &isa)
{
    const std::vector<std::string> levels = kernels::availableIsaLevels();
#if defined(LATHE_EMULATED_AMX)
    const std::string needed = isa == emulatedAmx ? "avx512-vnni" : isa;
#else
    const std::string &needed = isa;
#endif
    return std::find(levels.begin(), levels.end(), needed) != levels.end();
}

const std::vector<std::string> &allLevels()
{
    static const std::vector<std::string> levels{"scalar", "avx2", "avx512", "avx512-vnni", "amx"};
    return levels;
}

} // namespace kernel_data
