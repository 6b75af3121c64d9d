// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_text.h"

#include "engine/text/schema_pattern.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace engine {
namespace {

// Parts are bounded, or weak models lose themselves in them.
const std::string octet = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const std::string ipv4 = octet + "(?:\\." + octet + "){3}";
const std::string group = "[0-9a-f]{1,4}";
const std::string ipv6 = "(?:(?:" + group + ":){7}" + group + "|(?:" + group + ":){1,6}:" + group + "|::(?:" + group
    + ":){0,5}" + group + "|::)";
const std::string date =
    "[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-"
    "9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";
const std::string clock = "(?:[01][0-9]|2[0-3]):[0-5][0-9]";
const std::string timeOfDay = clock + ":[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" + clock + ")";
const std::string hours = "(?:[0-9]{1,3}H(?:[0-9]{1,2}M(?:[0-9]{1,2}S)?)?|[0-9]{1,3}M(?:[0-9]{1,2}S)?|[0-9]{1,5}S)";
const std::string duration =
    "P(?:[0-9]{1,3}W|(?:[0-9]{1,3}Y(?:[0-9]{1,2}M(?:[0-9]{1,2}D)?)?|[0-9]{1,2}M(?:[0-9]{1,2}D)?"
    "|[0-9]{1,4}D)(?:T"
    + hours + ")?|T" + hours + ")";
const std::string hostname = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,19}(?:\\.[A-Za-z0-9](?:-?[A-Za-z0-9]){0,19}){0,3}";
const std::string domain = "[A-Za-z0-9](?:[-.]?[A-Za-z0-9]){0,19}\\.[a-z]{2,6}";
const std::string email = "[A-Za-z0-9](?:[._+-]?[A-Za-z0-9]){0,19}@" + domain;
const std::string uri = "https?://" + domain
    + "(?::[1-9][0-9]{1,3})?(?:/[A-Za-z0-9._~-]{1,24}){0,4}/"
      "?(?:\\?[A-Za-z0-9._~=&-]{1,48})?(?:#[A-Za-z0-9._~-]{1,24})?";

/// `version` is a digit or a set of them.
std::string uuid(const std::string &version, const std::string &variant)
{
    return "[0-9a-f]{8}-[0-9a-f]{4}-" + version + "[0-9a-f]{3}-" + variant + "[0-9a-f]{3}-[0-9a-f]{12}";
}

/// Empty for a format that is not known.
std::string patternOf(std::string_view format)
{
    static const std::array<std::pair<std::string_view, const std::string *>, 15> patterns{{
        {"date", &date},
        {"time", &timeOfDay},
        {"duration", &duration},
        {"email", &email},
        {"idn-email", &email},
        {"hostname", &hostname},
        {"idn-hostname", &hostname},
        {"ipv4", &ipv4},
        {"ipv6", &ipv6},
        {"ipvanyaddress", &ipv4},
        {"uri", &uri},
        {"uri-reference", &uri},
        {"iri", &uri},
        {"iri-reference", &uri},
        {"url", &uri},
    }};
    if (const auto known = std::ranges::find(patterns, format, &decltype(patterns)::value_type::first);
        known != patterns.end())
        return *known->second;
    if (format == "date-time")
        return date + 'T' + timeOfDay;
    if (format == "uuid")
        return uuid("[0-9a-f]", "[0-9a-f]");
    constexpr std::string_view versions = "134578";
    if (format.size() == 5 && format.starts_with("uuid") && versions.find(format.back()) != std::string_view::npos)
        return uuid(std::string(1, format.back()), "[89ab]");
    return {};
}

/// Bytes of one character in UTF-8.
std::vector<std::uint8_t> bytesOf(char32_t code)
{
    if (code < 0x80)
        return {static_cast<std::uint8_t>(code)};
    std::vector<std::uint8_t> bytes;
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr std::array<unsigned, 4> heads{0, 0xC0, 0xE0, 0xF0};
    bytes.push_back(
        static_cast<std::uint8_t>(heads[static_cast<std::size_t>(more)] | (code >> static_cast<unsigned>(6 * more))));
    for (int i = more - 1; i >= 0; --i)
        bytes.push_back(static_cast<std::uint8_t>(0x80U | ((code >> static_cast<unsigned>(6 * i)) & 0x3FU)));
    return bytes;
}

/// Characters whose bytes are as many, from `low` to `high` byte by byte. \pre low <= high, of the same length
void addBytes(Grammar &grammar, int from, const std::vector<std::uint8_t> &low, const std::vector<std::uint8_t> &high,
              std::size_t at, int to) // NOLINT(misc-no-recursion): four bytes at most
{
    if (at + 1 == low.size()) {
        grammar.addEdge(from, low[at], high[at], to);
        return;
    }
    const auto filled = [&](std::uint8_t byte) {
        std::vector<std::uint8_t> bytes = low;
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at) + 1, bytes.end(), byte);
        return bytes;
    };
    const auto least = filled(0x80);
    const auto most = filled(0xBF);
    if (low[at] == high[at]) {
        addBytes(grammar, grammar.byte(from, low[at], low[at]), low, high, at + 1, to);
        return;
    }
    addBytes(grammar, grammar.byte(from, low[at], low[at]), low, most, at + 1, to);
    if (low[at] + 1 < high[at])
        addBytes(grammar,
                 grammar.byte(from, static_cast<std::uint8_t>(low[at] + 1), static_cast<std::uint8_t>(high[at] - 1)),
                 least, most, at + 1, to);
    addBytes(grammar, grammar.byte(from, high[at], high[at]), least, high, at + 1, to);
}

constexpr char32_t lastAscii = 0x7F;

CharacterSet escaped()
{
    return CharacterSet({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
}

/// How JSON spells a character that may not stand for itself.
std::string escapeOf(char32_t code)
{
    static constexpr std::array<std::pair<char32_t, char>, 7> letters{
        {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
    for (const auto &[character, letter] : letters)
        if (code == character)
            return {'\\', letter};
    std::array<char, 8> text{};
    (void)std::snprintf(text.data(), text.size(), "\\u%04x", static_cast<unsigned>(code));
    return text.data();
}

} // namespace

std::optional<TextLanguage> formatLanguage(std::string_view format, TextBudget &budget)
{
    const std::string pattern = patternOf(format);
    return pattern.empty() ? std::nullopt : std::optional(patternLanguage("^(?:" + pattern + ")$", budget));
}

bool isFreeFormat(std::string_view format)
{
    constexpr std::array<std::string_view, 7> formats{"password",  "binary",         "byte",    "path",
                                                      "file-path", "directory-path", "textarea"};
    return std::ranges::find(formats, format) != formats.end();
}

void JsonTexts::add(int from, const TextLanguage &language, int to)
{
    std::vector<int> states;
    for (std::size_t i = 0; i < language.states().size(); ++i)
        states.push_back(i == 0 ? m_grammar.byte(from, '"', '"') : m_grammar.addState());
    for (std::size_t i = 0; i < states.size(); ++i) {
        const TextLanguage::State &state = language.states()[i];
        if (state.accepts)
            m_grammar.addEdge(states[i], '"', '"', to);
        std::map<int, CharacterSet> targets;
        for (std::size_t part = 0; part < state.next.size(); ++part)
            if (const int next = state.next[part]; next != TextLanguage::dead)
                targets[next] = targets[next].united(language.classes()[part]);
        for (const auto &[target, set] : targets)
            addCharacters(states[i], set, states[static_cast<std::size_t>(target)]);
    }
}

/// Bytes that stand for themselves lead on at once, all others through a rule that is shared.
void JsonTexts::addCharacters(int from, const CharacterSet &set, int to)
{
    const CharacterSet plain = CharacterSet({{0, lastAscii}}).intersected(escaped().complement());
    const CharacterSet direct = set.intersected(plain);
    for (const CharacterSet::Range &range : direct.ranges())
        m_grammar.addEdge(from, static_cast<std::uint8_t>(range.first), static_cast<std::uint8_t>(range.last), to);
    if (const CharacterSet others = set.intersected(plain.complement()); !others.empty())
        m_grammar.addCall(from, ruleOf(others), to);
}

int JsonTexts::ruleOf(const CharacterSet &set)
{
    const auto [at, isNew] = m_rules.try_emplace(set, 0);
    if (!isNew)
        return at->second;
    at->second = m_grammar.addRule();
    const Grammar::Rule rule = m_grammar.rule(at->second);
    const CharacterSet spelled = set.intersected(escaped());
    for (const CharacterSet::Range &range : spelled.ranges())
        for (char32_t code = range.first; code <= range.last; ++code)
            m_grammar.addEmpty(m_grammar.literal(rule.start, escapeOf(code)), rule.end);
    constexpr std::array<CharacterSet::Range, 3> lengths{{{0x80, 0x7FF}, {0x800, 0xFFFF}, {0x10000, 0x10FFFF}}};
    for (const CharacterSet::Range &range : set.ranges())
        for (const CharacterSet::Range &length : lengths)
            if (const char32_t first = std::max(range.first, length.first), last = std::min(range.last, length.last);
                first <= last)
                addBytes(m_grammar, rule.start, bytesOf(first), bytesOf(last), 0, rule.end);
    return at->second;
}

} // namespace engine
