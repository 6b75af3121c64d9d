// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/bpe.h"

#include "engine/text/byte_fallback.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <queue>

namespace engine {
namespace byte_level {
namespace {

struct Tables {
    std::array<char32_t, 256> characters{};
    std::array<int, 324> bytes{}; ///< by character, -1 where none
};

constexpr Tables makeTables()
{
    Tables tables;
    tables.bytes.fill(-1);
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        const char32_t character = printable ? static_cast<char32_t>(byte) : next++;
        tables.characters[static_cast<std::size_t>(byte)] = character;
        tables.bytes[character] = byte;
    }
    return tables;
}

constexpr Tables tables = makeTables();

} // namespace

std::string spell(std::string_view bytes)
{
    std::string out;
    for (const char byte : bytes)
        utf8::append(out, tables.characters[static_cast<std::uint8_t>(byte)]);
    return out;
}

std::string unspell(std::string_view spelling)
{
    // The characters of the table are all below U+0144: one byte, or two of which the first is C2 to C5.
    std::string out(spelling.size(), '\0');
    std::size_t made = 0;
    for (std::size_t position = 0; position < spelling.size();) {
        char32_t code = static_cast<std::uint8_t>(spelling[position++]);
        if (code >= 0x80) {
            const bool known = code >= 0xC2 && code <= 0xC5 && position < spelling.size();
            const std::uint8_t second = known ? static_cast<std::uint8_t>(spelling[position++]) : 0;
            if ((second & 0xC0U) != 0x80)
                return std::string(spelling);
            code = (code & 0x1FU) << 6U | (second & 0x3FU);
        }
        if (code >= tables.bytes.size() || tables.bytes[code] < 0)
            return std::string(spelling);
        out[made++] = static_cast<char>(tables.bytes[code]);
    }
    out.resize(made);
    return out;
}

} // namespace byte_level

namespace {

std::uint64_t pairOf(int left, int right)
{
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
}

/// Higher scores come first; the bits of floats, turned about, order as their values do.
std::uint32_t rankOf(float score)
{
    constexpr std::uint32_t sign = 0x80000000U;
    if (score == -std::numeric_limits<float>::infinity())
        return std::numeric_limits<std::uint32_t>::max();
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0F); // -0 and 0 are one score
    return ~((bits & sign) != 0 ? ~bits : bits | sign);
}

} // namespace

Bpe::Bpe(const TokenTable &tokens, const std::vector<BpeMerge> &merges, const BpeOptions &options)
    : m_tokens(tokens)
    , m_options(options)
    , m_rules(std::bit_ceil(merges.size() * 2 + 2))
    , m_whole(static_cast<std::size_t>(tokens.size()))
{
    for (int id = 0; id < tokens.size(); ++id) {
        m_longest = std::max(m_longest, tokens.spelling(id).size());
        m_whole[static_cast<std::size_t>(id)] = options.ignoreMerges ? Whole::Yes : Whole::Unknown;
    }
    if (!options.outsideModel.empty())
        m_outside.resize(m_whole.size());
    for (const int id : options.outsideModel) {
        m_whole[static_cast<std::size_t>(id)] = Whole::No;
        m_outside[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t byte = 0; byte < m_byteIds.size(); ++byte) {
        const char c = static_cast<char>(byte);
        const std::string own(1, c);
        m_byteIds[byte] = wordOf(options.byteLevel ? byte_level::spell(own) : byte_fallback::spelling(c));
        m_asciiIds[byte] = options.byteLevel || byte >= 0x80 ? -1 : wordOf(own);
    }
    m_fallsBack = options.byteFallback && std::find(m_byteIds.begin(), m_byteIds.end(), -1) == m_byteIds.end();
    for (const float score : options.scores)
        m_ranks.push_back(rankOf(score));
    std::uint32_t rank = 0;
    for (const BpeMerge &merge : merges) {
        const std::uint64_t pair = pairOf(merge.left, merge.right);
        Rule &rule = m_rules[slotOf(pair)];
        if (rule.rank == noRank)
            rule = {pair, rank, merge.result};
        ++rank;
    }
    if (mayCut(merges))
        m_cuts.emplace(tokens, results(merges));
}

/// Whether words fall apart where no merge can cross, with nothing lost by it.
bool Bpe::mayCut(const std::vector<BpeMerge> &merges) const
{
    // Otherwise what the vocabulary lacks may vanish between two symbols or become one with its neighbours.
    const bool unknownsStandApart =
        m_fallsBack || (m_options.unknown >= 0 && !m_options.byteFallback && !m_options.fuseUnknown);
    const bool affixed = !m_options.continuation.empty() || !m_options.wordEnd.empty();
    if (m_options.byteLevel || m_options.ignoreMerges || affixed || !unknownsStandApart)
        return false;
    // A text's bytes and unknown characters are not spelled as their tokens are.
    const auto isStandIn = [&](int id) {
        return id == m_options.unknown || byte_fallback::byteOf(m_tokens.spelling(id)).has_value();
    };
    return std::none_of(merges.begin(), merges.end(),
                        [&](const BpeMerge &merge) { return isStandIn(merge.left) || isStandIn(merge.right); });
}

/// The tokens that merges make.
std::vector<int> Bpe::results(const std::vector<BpeMerge> &merges) const
{
    std::vector<int> ids;
    for (const BpeMerge &merge : merges)
        ids.push_back(merge.result);
    for (std::size_t id = 0; id < m_ranks.size(); ++id) {
        if (m_ranks[id] != noRank)
            ids.push_back(static_cast<int>(id));
    }
    return ids;
}

void Bpe::encode(std::string_view text, std::span<const std::uint32_t> begins, std::span<const std::uint32_t> ends,
                 std::vector<int> &ids) const
{
    if (!m_cuts) {
        WordModel::encode(text, begins, ends, ids);
        return;
    }
    std::vector<std::uint32_t> cutBegins, cutEnds;
    m_cuts->cut(text, begins, ends, cutBegins, cutEnds);
    WordModel::encode(text, cutBegins, cutEnds, ids);
}

void Bpe::encodeWord(std::string_view word, std::vector<int> &ids) const
{
    const int whole = findWhole(word);
    const Whole state =
        whole < 0 ? Whole::No : m_whole[static_cast<std::size_t>(whole)].load(std::memory_order_relaxed);
    if (state == Whole::Yes) {
        ids.push_back(whole);
        return;
    }
    // The symbols are made and merged where the ids will stand.
    const std::size_t first = ids.size();
    symbols(word, ids);
    const std::span<int> all = std::span(ids).subspan(first);
    ids.resize(first + (all.size() <= shortWord ? mergeShort(all) : mergeLong(all)));
    if (state == Whole::Unknown) {
        const bool itself = ids.size() == first + 1 && ids.back() == whole;
        m_whole[static_cast<std::size_t>(whole)].store(itself ? Whole::Yes : Whole::No, std::memory_order_relaxed);
    }
}

int Bpe::findWhole(std::string_view word) const
{
    if (word.size() > m_longest)
        return -1;
    if (!m_options.byteLevel)
        return m_tokens.find(word);
    std::array<char, 256> buffer;
    if (word.size() * 2 > buffer.size())
        return m_tokens.find(byte_level::spell(word));
    std::size_t bytes = 0;
    for (const char c : word) {
        const char32_t character = byte_level::tables.characters[static_cast<std::uint8_t>(c)];
        if (character < 0x80) {
            buffer[bytes++] = static_cast<char>(character);
        } else {
            buffer[bytes++] = static_cast<char>(0xC0U | character >> 6U);
            buffer[bytes++] = static_cast<char>(0x80U | (character & 0x3FU));
        }
    }
    return m_tokens.find({buffer.data(), bytes});
}

/// The tokens of single bytes or characters. An unknown one is held until a known one comes, so that neighbours may
/// become one; bytes that stand for a character pass it by.
void Bpe::symbols(std::string_view word, std::vector<int> &out) const
{
    bool unknown = false;
    const auto flush = [&] {
        if (unknown)
            out.push_back(m_options.unknown);
        unknown = false;
    };
    const bool affixed = !m_options.continuation.empty() || !m_options.wordEnd.empty();
    std::string spelled;
    for (std::size_t position = 0; position < word.size();) {
        std::size_t bytes = 1;
        const int id = affixed ? affixedAt(word, position, bytes, spelled) : symbolAt(word, position, bytes);
        const std::string_view symbol = affixed ? std::string_view(spelled) : word.substr(position, bytes);
        if (id >= 0) {
            flush();
            out.push_back(id);
        } else if (!appendBytes(symbol, out)) {
            if (m_options.unknown < 0 && !m_options.lackingUnknown.empty())
                refuseUnknown(symbol, m_options.lackingUnknown);
            if (!m_options.fuseUnknown)
                flush();
            unknown = m_options.unknown >= 0;
        }
        position += bytes;
    }
    flush();
}

/// The token that a spelling stands for in the model.
int Bpe::wordOf(std::string_view spelling) const
{
    const int id = m_tokens.find(spelling);
    return id >= 0 && !m_outside.empty() && m_outside[static_cast<std::size_t>(id)] ? -1 : id;
}

int Bpe::symbolAt(std::string_view word, std::size_t position, std::size_t &bytes) const
{
    const auto byte = static_cast<std::uint8_t>(word[position]);
    if (m_options.byteLevel)
        return m_byteIds[byte];
    if (byte < 0x80)
        return m_asciiIds[byte];
    bytes = static_cast<std::size_t>(utf8::decode(word, position).bytes);
    return wordOf(word.substr(position, bytes));
}

/// The token of the character at `position` with what its place in the word adds to it, which is left in `symbol`.
int Bpe::affixedAt(std::string_view word, std::size_t position, std::size_t &bytes, std::string &symbol) const
{
    bytes = static_cast<std::size_t>(utf8::decode(word, position).bytes);
    symbol = position > 0 ? m_options.continuation : std::string();
    symbol += word.substr(position, bytes);
    if (position + bytes == word.size())
        symbol += m_options.wordEnd;
    return wordOf(symbol);
}

bool Bpe::appendBytes(std::string_view symbol, std::vector<int> &out) const
{
    const auto idOf = [&](char byte) { return m_byteIds[static_cast<std::uint8_t>(byte)]; };
    if (!m_options.byteFallback
        || (!m_fallsBack && std::any_of(symbol.begin(), symbol.end(), [&](char c) { return idOf(c) < 0; })))
        return false;
    for (const char byte : symbol)
        out.push_back(idOf(byte));
    return true;
}

/// Looks for the best pair again after each merge; quickest for words of a few symbols.
std::size_t Bpe::mergeShort(std::span<int> symbols) const
{
    std::array<std::uint32_t, shortWord> ranks;
    std::array<std::int32_t, shortWord> results;
    const auto look = [&](std::size_t at) {
        const Rule found = rule(symbols[at], symbols[at + 1]);
        ranks[at] = found.rank;
        results[at] = found.result;
    };
    std::size_t count = symbols.size();
    for (std::size_t i = 0; i + 1 < count; ++i)
        look(i);
    while (count > 1) {
        std::size_t best = 0;
        for (std::size_t i = 1; i + 1 < count; ++i)
            best = ranks[i] < ranks[best] ? i : best;
        if (ranks[best] == noRank)
            break;
        symbols[best] = results[best];
        for (std::size_t i = best + 1; i + 1 < count; ++i) {
            symbols[i] = symbols[i + 1];
            ranks[i - 1] = ranks[i];
            results[i - 1] = results[i];
        }
        --count;
        if (best + 1 < count)
            look(best);
        if (best > 0)
            look(best - 1);
    }
    return count;
}

/// A linked list of symbols and a heap of pairs (rank, place). A pair that has changed since it was queued is
/// known by its place having another rank now, and is passed over.
std::size_t Bpe::mergeLong(std::span<int> symbols) const
{
    const auto count = static_cast<std::uint32_t>(symbols.size());
    std::vector<std::uint32_t> next(count), previous(count), ranks(count, noRank);
    std::vector<std::uint64_t> queued;
    queued.reserve(count);
    const auto queue = [&](std::uint32_t place, auto put) {
        ranks[place] = next[place] < count ? rule(symbols[place], symbols[next[place]]).rank : noRank;
        if (ranks[place] != noRank)
            put((static_cast<std::uint64_t>(ranks[place]) << 32U) | place);
    };
    for (std::uint32_t i = 0; i < count; ++i) {
        next[i] = i + 1;
        previous[i] = i - 1; // wraps at 0, never read there
    }
    for (std::uint32_t i = 0; i < count; ++i)
        queue(i, [&](std::uint64_t entry) { queued.push_back(entry); });
    std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap(std::greater<>(),
                                                                                        std::move(queued));
    const auto push = [&](std::uint64_t entry) { heap.push(entry); };
    while (!heap.empty()) {
        const std::uint64_t entry = heap.top();
        heap.pop();
        const auto place = static_cast<std::uint32_t>(entry);
        if (ranks[place] != entry >> 32U)
            continue;
        const std::uint32_t gone = next[place];
        symbols[place] = rule(symbols[place], symbols[gone]).result;
        ranks[gone] = noRank;
        next[place] = next[gone];
        if (next[place] < count)
            previous[next[place]] = place;
        queue(place, push);
        if (place > 0)
            queue(previous[place], push);
    }
    std::size_t kept = 0;
    for (std::uint32_t i = 0; i < count; i = next[i])
        symbols[kept++] = symbols[i];
    return kept;
}

Bpe::Rule Bpe::rule(int left, int right) const
{
    return m_ranks.empty() ? m_rules[slotOf(pairOf(left, right))] : joined(left, right);
}

/// The rule of two neighbours when merges go by the text they make.
Bpe::Rule Bpe::joined(int left, int right) const
{
    const auto rankOfToken = [&](int id) { return m_ranks[static_cast<std::size_t>(id)]; };
    if (rankOfToken(left) == noRank || rankOfToken(right) == noRank)
        return {};
    const std::string_view first = m_tokens.spelling(left);
    const std::string_view second = m_tokens.spelling(right);
    if (first.size() + second.size() > m_longest)
        return {};
    std::array<char, 256> buffer;
    std::string large;
    char *text = buffer.data();
    if (first.size() + second.size() > buffer.size()) {
        large.resize(first.size() + second.size());
        text = large.data();
    }
    std::copy(second.begin(), second.end(), std::copy(first.begin(), first.end(), text));
    const int id = m_tokens.find({text, first.size() + second.size()});
    return id < 0 || rankOfToken(id) == noRank ? Rule{} : Rule{pairOf(left, right), rankOfToken(id), id};
}

std::size_t Bpe::slotOf(std::uint64_t pair) const
{
    const std::size_t mask = m_rules.size() - 1;
    // Fibonacci hashing; the high bits of the product are the mixed ones.
    std::size_t slot = (pair * 0x9E3779B97F4A7C15ULL) >> 32U & mask;
    while (m_rules[slot].pair != pair && m_rules[slot].rank != noRank)
        slot = (slot + 1) & mask;
    return slot;
}

} // namespace engine
