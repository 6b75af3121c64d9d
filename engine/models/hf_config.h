// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// One object of a Hugging Face JSON file, with typed access; null counts as absent. Copies share the text.
/// Every function \throws Error Refused naming file, key, what was found and what is wanted.
class HfConfig {
public:
    /// Parses `text`; `path` is for errors.
    HfConfig(std::string_view text, std::string path);
    /// Reads the file. \throws Error also IoError
    [[nodiscard]] static HfConfig read(const std::string &path);

    [[nodiscard]] const std::string &path() const { return m_path; }
    [[nodiscard]] bool has(std::string_view key) const;
    [[nodiscard]] std::optional<std::int64_t> integer(std::string_view key) const;
    [[nodiscard]] std::optional<double> number(std::string_view key) const; ///< finite
    [[nodiscard]] std::optional<bool> boolean(std::string_view key) const;
    [[nodiscard]] std::optional<std::string> text(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<std::int64_t>> integers(std::string_view key) const; ///< one or a list
    [[nodiscard]] std::optional<std::vector<double>> numbers(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<std::string>> texts(std::string_view key) const;
    [[nodiscard]] std::optional<std::vector<bool>> booleans(std::string_view key) const; ///< 0 and 1 as well
    [[nodiscard]] std::optional<HfConfig> object(std::string_view key) const;
    [[nodiscard]] std::vector<std::string> keys() const;

    /// A whole number from `least` to `most`; `fallback` where the key is absent, which is refused without one.
    [[nodiscard]] std::int64_t count(std::string_view key, std::int64_t most,
                                     std::optional<std::int64_t> fallback = std::nullopt, std::int64_t least = 1) const;

    /// The configuration of the text model: members of `text_config` over those of this object, where there is one.
    [[nodiscard]] HfConfig textModel() const;

    /// With the members of a JSON object where this one has none.
    [[nodiscard]] HfConfig withDefaults(std::string_view jsonText) const;

    [[nodiscard]] const nlohmann::ordered_json &json() const { return *m_node; }

    /// `key "a.b" is <found>, wanted <wanted>`
    [[noreturn]] void refuse(std::string_view key, const std::string &found, const std::string &wanted) const;
    /// As above with the value as the file writes it.
    [[noreturn]] void refuseValue(std::string_view key, const std::string &wanted) const;

private:
    HfConfig() = default;
    [[nodiscard]] const nlohmann::ordered_json *find(std::string_view key) const;

    std::string m_path;
    std::string m_prefix; ///< of keys in errors: "rope_scaling."
    std::shared_ptr<const nlohmann::ordered_json> m_root;
    const nlohmann::ordered_json *m_node = nullptr; ///< in m_root, an object
};

} // namespace engine
