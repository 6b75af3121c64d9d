// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// Typed, range-checked access to the keys of one architecture: `block_count` reads `llama.block_count`.
/// Every function \throws Error Refused naming the key, what was found and what is wanted.
class ConfigReader {
public:
    ConfigReader(const Metadata &metadata, std::string prefix)
        : m_metadata(metadata)
        , m_prefix(std::move(prefix))
    {
    }

    [[nodiscard]] bool has(std::string_view key) const;
    /// A whole number from 1 to `most`; `fallback` where the key is absent, which is refused without one.
    [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t most,
                                     std::optional<std::int64_t> fallback = std::nullopt) const;
    /// A whole number from 0 to `most`; 0 where the key is absent.
    [[nodiscard]] std::int64_t countOrZero(std::string_view key, std::int64_t most) const;
    /// One number for all layers or an array of one per layer.
    [[nodiscard]] std::vector<int> countPerLayer(std::string_view key, int layers, std::int64_t most) const;
    /// Finite and above 0, in double and in float.
    [[nodiscard]] double positive(std::string_view key, std::optional<double> fallback = std::nullopt) const;
    /// Finite and at least 0.
    [[nodiscard]] double zeroOrPositive(std::string_view key, double fallback) const;
    [[nodiscard]] double number(std::string_view key, double fallback) const; ///< finite
    [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
    /// An array of whole numbers; empty where the key is absent.
    [[nodiscard]] std::vector<std::int64_t> numbers(std::string_view key) const;
    /// An array of finite numbers above 0; empty where the key is absent.
    [[nodiscard]] std::vector<double> positives(std::string_view key) const;
    /// One flag per layer from an array of booleans or of numbers, where 0 is false; none where the key is absent.
    [[nodiscard]] std::optional<std::vector<bool>> flagPerLayer(std::string_view key, int layers) const;
    [[nodiscard]] bool isArray(std::string_view key) const;
    [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const;

    /// "key llama.block_count is <found>; wanted <wanted>"
    [[noreturn]] void refuse(std::string_view key, const std::string &found, const std::string &wanted) const;

private:
    [[nodiscard]] std::string full(std::string_view key) const;
    void checkRange(std::string_view key, std::int64_t value, std::int64_t least, std::int64_t most) const;

    const Metadata &m_metadata;
    std::string m_prefix;
};

} // namespace engine
