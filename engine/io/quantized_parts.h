// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/quantized_module.h"

#include <initializer_list>
#include <string>

namespace engine {

/// The parts of one module with checked access. \throws Error Refused
class QuantizedParts {
public:
    QuantizedParts(const SafetensorsSet &set, const QuantizedModule &module)
        : m_set(set)
        , m_module(module)
    {
    }

    [[nodiscard]] const SafetensorsSet::Entry *find(std::string_view ending) const;
    [[nodiscard]] const SafetensorsSet::Entry &need(std::string_view ending) const;
    [[nodiscard]] const SafetensorsSet &set() const { return m_set; }
    [[nodiscard]] const std::string &name() const { return m_module.name; }

    /// `"file": tensor "name" problem`
    [[noreturn]] void refuse(const SafetensorsSet::Entry &entry, const std::string &problem) const;
    /// The same about the first part.
    [[noreturn]] void refuseModule(const std::string &problem) const;
    void needType(const SafetensorsSet::Entry &entry, std::string_view type) const;
    /// F32, F16 or BF16
    void needFloats(const SafetensorsSet::Entry &entry) const;
    void needDimensions(const SafetensorsSet::Entry &entry, std::size_t count) const;
    void needShape(const SafetensorsSet::Entry &entry, std::initializer_list<std::int64_t> shape) const;
    /// Refuses parts that are none of `known` (besides those that no result depends on).
    void refuseOthers(std::initializer_list<std::string_view> known) const;

private:
    const SafetensorsSet &m_set;
    const QuantizedModule &m_module;
};

/// Values of a tensor of F32, F16 or BF16.
[[nodiscard]] std::vector<float> floatsOf(const SafetensorsSet &set, const SafetensorsSet::Entry &entry);
/// 32-bit words of a tensor.
[[nodiscard]] std::vector<std::uint32_t> wordsOf(const SafetensorsSet &set, const SafetensorsSet::Entry &entry);
/// The number of `bits` bits that begins at bit `index` x `bits` of a stream of words, lowest bits first.
[[nodiscard]] std::uint32_t packedNumber(const std::uint32_t *words, std::int64_t index, int bits);
/// The numbers of a word, the lowest first. \pre bits is 2, 4 or 8
void unpackWord(std::uint32_t word, int bits, std::uint8_t *target);

} // namespace engine
