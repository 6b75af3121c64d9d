// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/word_model.h"

#include "engine/api/error.h"
#include "engine/text/utf8.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace engine {
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

} // namespace

void WordModel::encode(std::string_view text, std::span<const std::uint32_t> begins,
                       std::span<const std::uint32_t> ends, std::vector<int> &ids) const
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

void refuseUnknown(std::string_view text, std::string_view unknown)
{
    constexpr std::size_t enough = 60; // bytes
    throw Error(ErrorCode::Refused,
                "text to encode: " + utf8::quoted(utf8::repaired(text.substr(0, enough)))
                    + " is not in the vocabulary, and the tokenizer has no token for unknown text"
                    + (unknown.empty() ? std::string() : ": " + utf8::quoted(unknown) + " is not in it either"));
}

} // namespace engine
