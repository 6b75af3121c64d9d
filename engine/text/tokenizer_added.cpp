// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_added.h"

#include "engine/api/error.h"
#include "engine/text/characters.h"
#include "engine/text/unicode_sets.h"
#include "engine/text/utf8.h"

namespace engine {
namespace {

char32_t lastCharacter(std::string_view text)
{
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (static_cast<std::uint8_t>(text[begin]) & 0xC0U) == 0x80)
        --begin;
    return utf8::decode(text, begin).code;
}

bool standsAlone(std::string_view before, std::string_view behind)
{
    return (before.empty() || !unicode_sets::isWordCharacter(lastCharacter(before)))
        && (behind.empty() || !unicode_sets::isWordCharacter(utf8::decode(behind, 0).code));
}

std::size_t spaceBefore(std::string_view text)
{
    const std::size_t whole = text.size();
    while (!text.empty()) {
        const char32_t code = lastCharacter(text);
        if (!characters::isWhiteSpace(code))
            break;
        std::string bytes;
        utf8::append(bytes, code);
        text.remove_suffix(bytes.size());
    }
    return whole - text.size();
}

std::size_t spaceBehind(std::string_view text)
{
    std::size_t position = 0;
    while (position < text.size()) {
        const utf8::Character character = utf8::decode(text, position);
        if (!characters::isWhiteSpace(character.code))
            break;
        position += static_cast<std::size_t>(character.bytes);
    }
    return position;
}

} // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken> &tokens, bool normalized, const Normalizer &normalizer)
{
    m_roots.fill(-1);
    RegexScratch scratch;
    std::string storage;
    for (const AddedToken &token : tokens) {
        if (token.normalized != normalized || token.content.empty())
            continue;
        const std::string_view content =
            normalized ? normalizer.apply(token.content, storage, scratch) : std::string_view(token.content);
        if (content.size() > longest)
            throw Error(ErrorCode::Refused,
                        "added token " + utf8::quoted(token.content) + " has " + std::to_string(content.size())
                            + " bytes, too long, at most " + std::to_string(longest) + " are read");
        if (content.empty())
            continue;
        m_tokens.push_back(token);
        insert(content, static_cast<std::int32_t>(m_tokens.size()) - 1);
    }
}

void AddedTokens::insert(std::string_view content, std::int32_t token)
{
    std::int32_t node = -1;
    for (std::size_t i = 0; i < content.size(); ++i) {
        std::int32_t &root = m_roots[static_cast<std::uint8_t>(content[0])];
        const std::int32_t known = i == 0 ? root : childOf(node, content[i]);
        if (known >= 0) {
            node = known;
            continue;
        }
        const auto made = static_cast<std::int32_t>(m_nodes.size());
        m_nodes.push_back({-1, -1, -1, content[i]});
        std::int32_t &head = i == 0 ? root : m_nodes[static_cast<std::size_t>(node)].child;
        m_nodes.back().sibling = i == 0 ? -1 : head;
        head = made;
        node = made;
    }
    if (m_nodes[static_cast<std::size_t>(node)].token < 0)
        m_nodes[static_cast<std::size_t>(node)].token = token;
}

std::int32_t AddedTokens::childOf(std::int32_t node, char byte) const
{
    std::int32_t child = m_nodes[static_cast<std::size_t>(node)].child;
    while (child >= 0 && m_nodes[static_cast<std::size_t>(child)].byte != byte)
        child = m_nodes[static_cast<std::size_t>(child)].sibling;
    return child;
}

AddedTokens::Found AddedTokens::longestAt(std::string_view text, std::size_t position) const
{
    Found found;
    std::int32_t node = m_roots[static_cast<std::uint8_t>(text[position])];
    while (node >= 0) {
        ++position;
        if (const std::int32_t token = m_nodes[static_cast<std::size_t>(node)].token; token >= 0)
            found = {token, position};
        node = position < text.size() ? childOf(node, text[position]) : -1;
    }
    return found;
}

std::vector<TextPart> AddedTokens::split(std::string_view text, bool parseSpecial) const
{
    std::vector<TextPart> parts;
    std::size_t done = 0;
    std::size_t spaceBegin = text.size() + 1;
    std::size_t spaceEnd = 0;
    for (std::size_t position = 0; position < text.size() && !m_tokens.empty();) {
        if (m_roots[static_cast<std::uint8_t>(text[position])] < 0) {
            ++position;
            continue;
        }
        const Found found = longestAt(text, position);
        if (found.token < 0) {
            ++position;
            continue;
        }
        const AddedToken &token = m_tokens[static_cast<std::size_t>(found.token)];
        std::size_t begin = position;
        std::size_t end = found.end;
        position = end; // not behind the white space that the token before this one took: that is searched, too
        if (token.special && !parseSpecial)
            continue;
        if (token.singleWord && !standsAlone(text.substr(0, begin), text.substr(end)))
            continue;
        if (token.lstrip)
            begin = begin < done ? done : begin - spaceBefore(text.substr(done, begin - done));
        if (token.rstrip && (end < spaceBegin || end > spaceEnd)) { // each run of white space is walked once
            spaceBegin = end;
            spaceEnd = end + spaceBehind(text.substr(end));
        }
        if (token.rstrip)
            end = spaceEnd;
        if (done < begin)
            parts.push_back({text.substr(done, begin - done), -1});
        if (begin < end)
            parts.push_back({text.substr(begin, end - begin), token.id});
        done = end;
    }
    if (done < text.size())
        parts.push_back({text.substr(done), -1});
    return parts;
}

} // namespace engine
