// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/quantized_parts.h"

#include "engine/core/printable.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace engine {
namespace {

using Entry = SafetensorsSet::Entry;

/// Scales of activations and of the cache: weights do not depend on them, and both stay unrounded here.
constexpr std::array<std::string_view, 4> unused = {"input_scale", "output_scale", "k_scale", "v_scale"};

std::string describe(const std::vector<std::int64_t> &shape)
{
    std::string text = "[";
    for (std::size_t i = 0; i < shape.size(); ++i)
        text += (i > 0 ? ", " : "") + std::to_string(shape[i]);
    return text + "]";
}

} // namespace

const Entry *QuantizedParts::find(std::string_view ending) const
{
    const auto found = m_module.parts.find(ending);
    return found == m_module.parts.end() ? nullptr : found->second;
}

const Entry &QuantizedParts::need(std::string_view ending) const
{
    if (const Entry *entry = find(ending))
        return *entry;
    refuseModule("needs the tensor " + inQuotes(m_module.name + "." + std::string(ending)) + ", which is missing");
}

void QuantizedParts::refuse(const Entry &entry, const std::string &problem) const
{
    throw Error(ErrorCode::Refused,
                inQuotes(m_set.filePath(entry)) + ": tensor " + inQuotes(entry.tensor.name) + " " + problem);
}

void QuantizedParts::refuseModule(const std::string &problem) const
{
    CHECK(!m_module.parts.empty());
    refuse(*m_module.parts.begin()->second, problem);
}

void QuantizedParts::needType(const Entry &entry, std::string_view type) const
{
    if (entry.tensor.type != type)
        refuse(entry, "has the dtype " + entry.tensor.type + ", wanted " + std::string(type));
}

void QuantizedParts::needFloats(const Entry &entry) const
{
    const std::string &type = entry.tensor.type;
    if (type != "F32" && type != "F16" && type != "BF16")
        refuse(entry, "has the dtype " + type + ", wanted F32, F16 or BF16");
}

void QuantizedParts::needDimensions(const Entry &entry, std::size_t count) const
{
    const std::vector<std::int64_t> &shape = entry.tensor.shape;
    if (shape.size() != count || std::any_of(shape.begin(), shape.end(), [](std::int64_t size) { return size <= 0; }))
        refuse(entry, "has the shape " + describe(shape) + ", wanted " + std::to_string(count) + " sizes above 0");
}

void QuantizedParts::needShape(const Entry &entry, std::initializer_list<std::int64_t> shape) const
{
    if (!std::equal(shape.begin(), shape.end(), entry.tensor.shape.begin(), entry.tensor.shape.end()))
        refuse(entry, "has the shape " + describe(entry.tensor.shape) + ", wanted " + describe(shape));
}

void QuantizedParts::refuseOthers(std::initializer_list<std::string_view> known) const
{
    for (const auto &[ending, entry] : m_module.parts) {
        if (std::find(known.begin(), known.end(), ending) == known.end()
            && std::find(unused.begin(), unused.end(), ending) == unused.end())
            refuse(*entry, "has no meaning in this kind of quantised module; it cannot be left out");
    }
}

std::vector<float> floatsOf(const SafetensorsSet &set, const Entry &entry)
{
    const std::string &type = entry.tensor.type;
    const kernels::DType dtype = type == "F32" ? kernels::DType::F32
        : type == "F16"                        ? kernels::DType::F16
                                               : kernels::DType::BF16;
    const std::span<const std::byte> bytes = set.bytes(entry);
    std::vector<float> values(bytes.size() / (type == "F32" ? 4 : 2));
    kernels::dequantize(dtype, bytes.data(), values.data(), static_cast<std::int64_t>(values.size()));
    return values;
}

std::vector<std::uint32_t> wordsOf(const SafetensorsSet &set, const Entry &entry)
{
    const std::span<const std::byte> bytes = set.bytes(entry);
    std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
    if (!words.empty())
        std::memcpy(words.data(), bytes.data(), words.size() * sizeof(std::uint32_t));
    return words;
}

std::uint32_t packedNumber(const std::uint32_t *words, std::int64_t index, int bits)
{
    const std::int64_t bit = index * bits;
    const auto shift = static_cast<int>(bit % 32);
    std::uint32_t number = words[bit / 32] >> shift;
    if (shift + bits > 32)
        number |= words[bit / 32 + 1] << (32 - shift);
    return number & ((1U << bits) - 1U);
}

void unpackWord(std::uint32_t word, int bits, std::uint8_t *target)
{
    const std::uint32_t mask = (1U << bits) - 1U;
    if (bits == 4) { // the common case: nibbles move apart all at once
        std::uint64_t spread = word;
        spread = (spread | spread << 16U) & 0x0000ffff0000ffffULL;
        spread = (spread | spread << 8U) & 0x00ff00ff00ff00ffULL;
        spread = (spread | spread << 4U) & 0x0f0f0f0f0f0f0f0fULL;
        std::memcpy(target, &spread, sizeof(spread));
        return;
    }
    for (int shift = 0; shift < 32; shift += bits)
        *target++ = static_cast<std::uint8_t>((word >> shift) & mask);
}

} // namespace engine
