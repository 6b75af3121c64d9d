// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/bpe.h"

#include "engine/text/utf8.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
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
    std::string out;
    for (std::size_t position = 0; position < spelling.size();) {
        const utf8::Character character = utf8::decode(spelling, position);
        if (!character.valid || character.code >= tables.bytes.size() || tables.bytes[character.code] < 0)
            return std::string(spelling);
        out.push_back(static_cast<char>(tables.bytes[character.code]));
        position += static_cast<std::size_t>(character.bytes);
    }
    return out;
}

} // namespace byte_level

namespace {

/// Words that were met in one text, so that a repeated word costs a look-up. Entries point into the text and
/// into the ids made so far; a newer word replaces an older one in its slot.
class WordCache {
public:
    struct Entry {
        std::uint32_t text = 0;
        std::uint16_t bytes = 0;
        std::uint16_t count = 0;
        std::size_t firstId = 0;
    };
    static constexpr std::size_t longest = 64;

    explicit WordCache(std::size_t words)
        : m_entries(words < 32 ? 0 : std::min<std::size_t>(std::bit_ceil(words), 1U << 14U))
    {
    }
    [[nodiscard]] Entry *slot(std::string_view word)
    {
        if (m_entries.empty() || word.size() > longest)
            return nullptr;
        return &m_entries[XXH3_64bits(word.data(), word.size()) & (m_entries.size() - 1)];
    }

private:
    std::vector<Entry> m_entries;
};

std::uint64_t pairOf(int left, int right)
{
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) | static_cast<std::uint32_t>(right);
}

} // namespace

Bpe::Bpe(const TokenTable &tokens, const std::vector<BpeMerge> &merges, const BpeOptions &options)
    : m_tokens(tokens)
    , m_options(options)
    , m_rules(std::bit_ceil(merges.size() * 2 + 2))
{
    for (std::size_t byte = 0; byte < m_byteIds.size(); ++byte) {
        const char c = static_cast<char>(byte);
        m_byteIds[byte] = tokens.find(byte_level::spell({&c, 1}));
    }
    std::uint32_t rank = 0;
    for (const BpeMerge &merge : merges) {
        const std::uint64_t pair = pairOf(merge.left, merge.right);
        Rule &rule = m_rules[slotOf(pair)];
        if (rule.rank == noRank)
            rule = {pair, rank, merge.result};
        ++rank;
    }
}

void Bpe::encode(std::string_view text, std::span<const std::uint32_t> begins, std::span<const std::uint32_t> ends,
                 std::vector<int> &ids) const
{
    WordCache cache(ends.size());
    for (std::size_t i = 0; i < ends.size(); ++i) {
        const std::string_view word = text.substr(begins[i], ends[i] - begins[i]);
        WordCache::Entry *entry = cache.slot(word);
        if (entry != nullptr && entry->bytes == word.size() && text.substr(entry->text, entry->bytes) == word) {
            for (std::size_t k = 0; k < entry->count; ++k)
                ids.push_back(ids[entry->firstId + k]);
            continue;
        }
        const std::size_t first = ids.size();
        encodeWord(word, ids);
        if (entry != nullptr)
            *entry = {begins[i], static_cast<std::uint16_t>(word.size()),
                      static_cast<std::uint16_t>(ids.size() - first), first};
    }
}

void Bpe::encodeWord(std::string_view word, std::vector<int> &ids) const
{
    if (m_options.ignoreMerges) {
        const int whole = m_tokens.find(m_options.byteLevel ? byte_level::spell(word) : std::string(word));
        if (whole >= 0) {
            ids.push_back(whole);
            return;
        }
    }
    // The symbols are made and merged where the ids will stand.
    const std::size_t first = ids.size();
    std::vector<int> made;
    std::vector<int> &out = m_options.fuseUnknown ? made : ids;
    symbols(word, out);
    if (&out == &made)
        ids.insert(ids.end(), made.begin(), made.end());
    constexpr std::size_t shortWord = 24;
    const std::span<int> all = std::span(ids).subspan(first);
    ids.resize(first + (all.size() <= shortWord ? mergeShort(all) : mergeLong(all)));
}

void Bpe::symbols(std::string_view word, std::vector<int> &out) const
{
    if (m_options.byteLevel) {
        for (const char byte : word)
            addSymbol(m_byteIds[static_cast<std::uint8_t>(byte)], out);
        return;
    }
    for (std::size_t position = 0; position < word.size();) {
        const auto bytes = static_cast<std::size_t>(utf8::decode(word, position).bytes);
        addSymbol(m_tokens.find(word.substr(position, bytes)), out);
        position += bytes;
    }
}

void Bpe::addSymbol(int id, std::vector<int> &out) const
{
    if (id < 0)
        id = m_options.unknown;
    if (id < 0 || (m_options.fuseUnknown && id == m_options.unknown && !out.empty() && out.back() == id))
        return;
    out.push_back(id);
}

/// Looks for the best pair again after each merge; quickest for words of a few symbols.
std::size_t Bpe::mergeShort(std::span<int> symbols) const
{
    std::array<std::uint32_t, 24> ranks;
    std::size_t count = symbols.size();
    for (std::size_t i = 0; i + 1 < count; ++i)
        ranks[i] = rule(symbols[i], symbols[i + 1]).rank;
    while (count > 1) {
        const auto best = std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1);
        if (*best == noRank)
            break;
        const auto at = static_cast<std::size_t>(best - ranks.begin());
        symbols[at] = rule(symbols[at], symbols[at + 1]).result;
        std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                  symbols.begin() + static_cast<std::ptrdiff_t>(count),
                  symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        std::copy(best + 1, ranks.begin() + static_cast<std::ptrdiff_t>(count) - 1, best);
        --count;
        if (at + 1 < count)
            ranks[at] = rule(symbols[at], symbols[at + 1]).rank;
        if (at > 0)
            ranks[at - 1] = rule(symbols[at - 1], symbols[at]).rank;
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

const Bpe::Rule &Bpe::rule(int left, int right) const
{
    return m_rules[slotOf(pairOf(left, right))];
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
