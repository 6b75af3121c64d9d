// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/unigram.h"

#include "engine/api/error.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <limits>

namespace engine {
namespace {

constexpr double unknownPenalty = 10; // below the lowest score, as SentencePiece has it

constexpr double noPart = -std::numeric_limits<double>::infinity();

std::vector<std::pair<std::string_view, std::int32_t>> words(const TokenTable &tokens,
                                                             const std::vector<double> &scores)
{
    std::vector<std::pair<std::string_view, std::int32_t>> list;
    for (int id = 0; id < static_cast<int>(scores.size()); ++id) {
        if (scores[static_cast<std::size_t>(id)] == noPart)
            continue;
        const std::string_view spelling = tokens.spelling(id);
        if (spelling.size() > Unigram::longestToken)
            throw Error(ErrorCode::Refused,
                        "tokenizer: token " + std::to_string(id) + ", " + utf8::quoted(spelling) + ", has "
                            + std::to_string(spelling.size()) + " bytes, too long, at most "
                            + std::to_string(Unigram::longestToken) + " are read");
        list.emplace_back(spelling, id);
    }
    return list;
}

/// The best way to a place in the word.
struct Arrival {
    double score = 0;
    std::uint32_t from = unreached;
    std::int32_t id = -1;

    static constexpr std::uint32_t unreached = 0xFFFFFFFF;
    [[nodiscard]] bool takes(double candidate) const { return from == unreached || candidate > score; }
    void offer(double candidate, std::size_t begin, int token)
    {
        if (takes(candidate))
            *this = {candidate, static_cast<std::uint32_t>(begin), token};
    }
};

} // namespace

Unigram::Unigram(const TokenTable &tokens, UnigramOptions options)
    : m_tokens(tokens)
    , m_options(std::move(options))
    , m_trie(words(tokens, m_options.scores))
{
    double lowest = std::numeric_limits<double>::infinity();
    for (const double score : m_options.scores)
        lowest = score == noPart ? lowest : std::min(lowest, score);
    m_unknownScore = lowest - unknownPenalty;
    for (std::size_t byte = 0; byte < m_byteIds.size(); ++byte)
        m_byteIds[byte] = m_options.byteFallback ? tokens.find(byte_fallback::spelling(static_cast<char>(byte))) : -1;
}

void Unigram::encodeWord(std::string_view word, std::vector<int> &ids) const
{
    std::vector<Arrival> best(word.size() + 1);
    for (std::size_t begin = 0; begin < word.size();) {
        const double score = best[begin].score;
        const std::size_t next = begin + static_cast<std::size_t>(utf8::decode(word, begin).bytes);
        bool single = false;
        m_trie.forEachAt(word, begin, [&](std::size_t end, int id) {
            best[end].offer(score + m_options.scores[static_cast<std::size_t>(id)], begin, id);
            single = single || end == next;
        });
        if (!single && best[next].takes(score + m_unknownScore)) {
            if (m_options.unknown < 0 && m_options.refusesUnknown)
                refuseUnknown(word.substr(begin, next - begin), {});
            best[next] = {score + m_unknownScore, static_cast<std::uint32_t>(begin), m_options.unknown};
        }
        begin = next;
    }
    // Backwards: neighbouring unknowns become one part.
    std::vector<std::string_view> parts;
    bool joining = false;
    for (std::size_t end = word.size(); end > 0; end = best[end].from) {
        const std::string_view part = word.substr(best[end].from, end - best[end].from);
        const bool unknown = best[end].id == m_options.unknown;
        if (unknown && joining)
            parts.back() = {part.data(), part.size() + parts.back().size()};
        else
            parts.push_back(part);
        joining = unknown;
    }
    std::for_each(parts.rbegin(), parts.rend(), [&](std::string_view part) { appendPart(part, ids); });
}

void Unigram::appendPart(std::string_view part, std::vector<int> &ids) const
{
    const int id = m_tokens.find(part);
    if (id >= 0 && static_cast<std::size_t>(id) < m_options.scores.size()
        && m_options.scores[static_cast<std::size_t>(id)] != noPart) {
        ids.push_back(id);
        return;
    }
    const auto byteId = [&](char byte) { return m_byteIds[static_cast<std::uint8_t>(byte)]; };
    if (m_options.byteFallback && std::all_of(part.begin(), part.end(), [&](char c) { return byteId(c) >= 0; }))
        std::transform(part.begin(), part.end(), std::back_inserter(ids), byteId);
    else if (m_options.unknown >= 0)
        ids.push_back(m_options.unknown);
}

} // namespace engine
