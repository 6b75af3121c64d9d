// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/bpe_tokens.h"
#include "engine/text/merge_cuts.h"
#include "engine/text/word_model.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// The table of byte-level BPE: every byte stands in the vocabulary as one printable character.
/// Source: openai/gpt-2, src/encoder.py, bytes_to_unicode.
namespace byte_level {
[[nodiscard]] std::string spell(std::string_view bytes);
/// The bytes that a spelling stands for; a spelling with a character outside the table stands for itself.
[[nodiscard]] std::string unspell(std::string_view spelling);
} // namespace byte_level

/// One merge rule: two neighbours `left`, `right` become `result`. Rules are given in rank order.
struct BpeMerge {
    int left = -1;
    int right = -1;
    int result = -1;
};

struct BpeOptions {
    bool byteLevel = true;      ///< words are bytes; false: words are characters of the vocabulary
    bool ignoreMerges = false;  ///< a word that is itself in the vocabulary becomes that token
    int unknown = -1;           ///< stands for what the vocabulary lacks; -1: such symbols are left out, or
    std::string lackingUnknown; ///< refused: what the file calls that token, though it is none
    bool fuseUnknown = false;   ///< neighbouring unknowns become one
    bool byteFallback = false;  ///< what the vocabulary lacks becomes the tokens <0x00> to <0xFF> of its bytes
    std::string continuation;   ///< stands before every symbol but the first of a word
    std::string wordEnd;        ///< stands behind the last one
    /// By id; given, neighbours whose texts together spell a token merge into it, the highest score first, and the
    /// list of merges is not used. Minus infinity: the token takes no part.
    std::vector<float> scores;
    std::vector<int> outsideModel; ///< ids in the table that are no words of the model: added tokens
};

/// Byte pair encoding of words. Immutable; any thread. Time n log n in the length of one word.
/// Source: Sennrich et al. 2016, arXiv:1508.07909, section 3.2; merging by scores: google/sentencepiece,
/// src/bpe_model.cc.
class Bpe final : public WordModel {
public:
    /// The first of two equal rules wins. `tokens` stays the caller's and must outlive this.
    Bpe(const TokenTable &tokens, const std::vector<BpeMerge> &merges, const BpeOptions &options);

    void encode(std::string_view text, std::span<const std::uint32_t> begins, std::span<const std::uint32_t> ends,
                std::vector<int> &ids) const override;

private:
    static constexpr std::uint32_t noRank = 0xFFFFFFFF;
    static constexpr std::size_t shortWord = 24; ///< symbols
    enum class Whole : std::uint8_t { Unknown, No, Yes };
    struct Rule {
        std::uint64_t pair = ~0ULL;
        std::uint32_t rank = noRank;
        std::int32_t result = -1;
    };

    [[nodiscard]] bool mayCut(const std::vector<BpeMerge> &merges) const;
    [[nodiscard]] std::vector<int> results(const std::vector<BpeMerge> &merges) const;
    void encodeWord(std::string_view word, std::vector<int> &ids) const override;
    void symbols(std::string_view word, std::vector<int> &out) const;
    [[nodiscard]] int wordOf(std::string_view spelling) const;
    [[nodiscard]] int affixedAt(std::string_view word, std::size_t position, std::size_t &bytes,
                                std::string &symbol) const;
    [[nodiscard]] int symbolAt(std::string_view word, std::size_t position, std::size_t &bytes) const;
    [[nodiscard]] bool appendBytes(std::string_view symbol, std::vector<int> &out) const;
    [[nodiscard]] int findWhole(std::string_view word) const;
    [[nodiscard]] std::size_t mergeShort(std::span<int> symbols) const;
    [[nodiscard]] std::size_t mergeLong(std::span<int> symbols) const;
    [[nodiscard]] Rule rule(int left, int right) const;
    [[nodiscard]] Rule joined(int left, int right) const;
    [[nodiscard]] std::size_t slotOf(std::uint64_t pair) const;

    const TokenTable &m_tokens;
    BpeOptions m_options;
    std::vector<bool> m_outside; ///< by id; empty when all tokens are words of the model
    std::array<int, 256> m_byteIds{};
    std::array<int, 256> m_asciiIds{};
    bool m_fallsBack = false;           ///< every byte has its token
    std::vector<std::uint32_t> m_ranks; ///< by id, from the scores
    std::optional<MergeCuts> m_cuts;
    std::vector<Rule> m_rules; ///< open addressing by pair
    std::size_t m_longest = 0; ///< bytes of the longest spelling
    /// Whether the word that a token spells becomes that token; found out when the word is first met, by any thread.
    mutable std::vector<std::atomic<Whole>> m_whole;
};

} // namespace engine
