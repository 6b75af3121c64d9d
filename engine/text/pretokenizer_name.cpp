// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pretokenizer_table.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace engine {
namespace {

void replaceAll(std::string &text, std::string_view from, std::string_view to)
{
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

/// The character that "\x{4E00}" or "\u4E00" at `at` stands for, and the bytes of it; 0 when none does.
std::pair<std::string, std::size_t> escapedCharacter(std::string_view pattern, std::size_t at)
{
    const std::string_view rest = pattern.substr(at);
    const bool braces = rest.starts_with("\\x{");
    if (!braces && !rest.starts_with("\\u"))
        return {};
    const std::size_t start = braces ? 3 : 2;
    const std::size_t digits = braces ? std::min(rest.find('}'), rest.size()) - start : 4;
    std::uint32_t code = 0;
    const char *first = rest.data() + start;
    const char *last = first + std::min(digits, rest.size() - start);
    if (const auto [end, fault] = std::from_chars(first, last, code, 16); fault != std::errc() || end != last)
        return {};
    std::string character;
    utf8::append(character, static_cast<char32_t>(code));
    return {character, start + digits + (braces ? 1 : 0)};
}

/// The same text for patterns that differ in how they are written only. Possessive quantifiers count as greedy ones:
/// nothing that follows them in these patterns could match what they would give back.
std::string canonical(std::string_view pattern)
{
    std::string text;
    for (std::size_t i = 0; i < pattern.size();) {
        if (const auto [character, bytes] = escapedCharacter(pattern, i); bytes > 0) {
            text += character;
            i += bytes;
        } else {
            text += pattern[i++];
        }
    }
    replaceAll(text, "\r", "\\r");
    replaceAll(text, "\n", "\\n");
    replaceAll(text, "{1}", "");
    replaceAll(text, "?+", "?");
    replaceAll(text, "++", "+");
    return text;
}

bool samePatterns(const std::vector<const char *> &row, const std::vector<std::string> &patterns)
{
    return std::ranges::equal(
        row, patterns, [](const char *left, const std::string &right) { return canonical(left) == canonical(right); });
}

/// Names that llama.cpp gives to vocabularies of these architectures, where several have the same splits.
std::string_view usualName(const PreTokenizerRow &row, std::string_view architecture)
{
    constexpr std::array<std::pair<std::string_view, std::string_view>, 10> usual{{{"command-r", "command-r"},
                                                                                   {"cohere2", "command-r"},
                                                                                   {"starcoder2", "starcoder"},
                                                                                   {"granite", "refact"},
                                                                                   {"granitemoe", "refact"},
                                                                                   {"exaone", "exaone"},
                                                                                   {"exaone4", "exaone4"},
                                                                                   {"stablelm", "stablelm2"},
                                                                                   {"chatglm", "chatglm-bpe"},
                                                                                   {"phi2", "phi-2"}}};
    for (const auto &[owner, name] : usual) {
        if (owner == architecture && std::ranges::find(row.names, name) != row.names.end())
            return name;
    }
    return row.names.front();
}

} // namespace

std::string preTokenizerName(const std::vector<std::string> &patterns, bool ignoreMerges, std::string_view architecture)
{
    // DeepSeek's first models cut digits one by one, which llama.cpp leaves out: no token of theirs has two.
    const PreTokenizerRow *best = nullptr;
    std::vector<std::string> joined = patterns;
    if (!joined.empty() && joined.back() == "\\p{N}")
        joined.back() = "\\p{N}+";
    for (const PreTokenizerRow &row : preTokenizerTable()) {
        const bool same = samePatterns(row.patterns, patterns)
            || (row.names.front() == "deepseek-llm" && samePatterns(row.patterns, joined));
        if (same && (best == nullptr || (row.ignoreMerges == ignoreMerges && best->ignoreMerges != ignoreMerges)))
            best = &row;
    }
    return best != nullptr ? std::string(usualName(*best, architecture)) : std::string();
}

bool preTokenizerIgnoresMerges(std::string_view name)
{
    const auto &rows = preTokenizerTable();
    const auto found = std::ranges::find_if(
        rows, [&](const PreTokenizerRow &row) { return std::ranges::find(row.names, name) != row.names.end(); });
    return found != rows.end() && found->ignoreMerges;
}

} // namespace engine
