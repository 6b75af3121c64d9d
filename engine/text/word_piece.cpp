// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/word_piece.h"

#include "engine/text/utf8.h"

#include <utility>

namespace engine {
namespace {

bool isOutside(const WordPieceOptions &options, int id)
{
    const auto at = static_cast<std::size_t>(id);
    return at < options.outsideModel.size() && options.outsideModel[at];
}

/// The parts that begin with `prefix`, without it.
ByteTrie partsBehind(std::string_view prefix, const TokenTable &tokens, const WordPieceOptions &options)
{
    std::vector<std::pair<std::string_view, std::int32_t>> parts;
    for (int id = 0; id < tokens.size(); ++id) {
        const std::string_view spelling = tokens.spelling(id);
        if (tokens.has(id) && spelling.starts_with(prefix) && !isOutside(options, id))
            parts.emplace_back(spelling.substr(prefix.size()), id);
    }
    return ByteTrie(std::move(parts));
}

} // namespace

WordPiece::WordPiece(const TokenTable &tokens, WordPieceOptions options)
    : m_options(std::move(options))
    , m_first(partsBehind({}, tokens, m_options))
    , m_later(partsBehind(m_options.continuation, tokens, m_options))
{
    if (const int id = tokens.find(m_options.unknown); id >= 0 && !isOutside(m_options, id))
        m_unknown = id;
}

void WordPiece::encodeWord(std::string_view word, std::vector<int> &ids) const
{
    const std::size_t first = ids.size();
    if (utf8::length(word) <= m_options.longestWord && appendParts(word, ids))
        return;
    if (m_unknown < 0)
        refuseUnknown(word, m_options.unknown);
    ids.resize(first);
    ids.push_back(m_unknown);
}

bool WordPiece::appendParts(std::string_view word, std::vector<int> &ids) const
{
    for (std::size_t begin = 0; begin < word.size();) {
        std::size_t longest = begin;
        int id = -1;
        (begin == 0 ? m_first : m_later).forEachAt(word, begin, [&](std::size_t end, int found) {
            longest = end;
            id = found;
        });
        if (id < 0)
            return false;
        ids.push_back(id);
        begin = longest;
    }
    return true;
}

} // namespace engine
