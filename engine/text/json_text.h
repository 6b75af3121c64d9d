// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"
#include "engine/text/text_language.h"

#include <map>
#include <optional>
#include <string_view>

namespace engine {

/// The texts of a `format` of JSON schema, or nothing when it is not one of these: date, time, date-time, duration,
/// email, hostname, ipv4, ipv6, uri, uuid, and the names that pydantic has beside them. Some that are right are left
/// out (29 February, leap seconds, quoted mailboxes, schemes but http and https), none that are wrong are in. Source:
/// RFC 3339, RFC 3986, RFC 4291, RFC 5321, RFC 9562.
[[nodiscard]] std::optional<TextLanguage> formatLanguage(std::string_view format, TextBudget &budget);
/// Whether a `format` only describes: every string has it.
[[nodiscard]] bool isFreeFormat(std::string_view format);

/// Writes languages into a grammar as strings of JSON, each text spelled in one way.
class JsonTexts {
public:
    explicit JsonTexts(Grammar &grammar)
        : m_grammar(grammar)
    {
    }
    /// Adds the strings with their quotes between two states. \pre `language` is not empty
    void add(int from, const TextLanguage &language, int to);

private:
    void addCharacters(int from, const CharacterSet &set, int to);
    [[nodiscard]] int ruleOf(const CharacterSet &set);

    Grammar &m_grammar;
    std::map<CharacterSet, int> m_rules; ///< of characters that take more than one byte
};

} // namespace engine
