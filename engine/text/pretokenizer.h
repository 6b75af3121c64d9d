// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/pretokenizer_regex.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace engine {

/// Text cut into words: word i is the bytes begins[i]..ends[i]. Words are in order and never empty.
struct Words {
    std::string_view given;
    std::string changed; ///< the text after a step has changed it, else empty
    std::vector<std::uint32_t> begins;
    std::vector<std::uint32_t> ends;
    bool atStart = false; ///< the first word stands where the whole text begins

    [[nodiscard]] std::string_view text() const { return changed.empty() ? given : std::string_view(changed); }
    [[nodiscard]] std::string_view word(std::size_t i) const { return text().substr(begins[i], ends[i] - begins[i]); }
};

/// What becomes of the matches of a splitting pattern and of the text between them.
enum class SplitBehavior { Isolated, Removed, Contiguous, MergedWithPrevious, MergedWithNext };

/// SentencePiece's way with spaces: each becomes a mark that belongs to the word behind it.
struct Metaspace {
    enum class Prepend { Always, First, Never }; ///< where a mark is put before a word that has none

    std::string mark = "\xE2\x96\x81"; ///< U+2581
    Prepend prepend = Prepend::Always;
    bool split = true; ///< words end before each mark
};

/// Cuts text into the words that BPE never merges across: steps, each applied to every word of the one before.
/// Immutable; any thread. Source of the steps' meaning: huggingface/tokenizers, documentation of pre-tokenizers.
class PreTokenizer {
public:
    /// `invert` swaps matches and the text between them.
    void addSplit(Regex regex, SplitBehavior behavior = SplitBehavior::Isolated, bool invert = false);
    using CharacterTest = bool (*)(char32_t code);
    /// Every character that passes is a match of its own.
    void addSplit(CharacterTest test, SplitBehavior behavior = SplitBehavior::Isolated);
    void addFixedLength(std::size_t characters); ///< words of so many characters. \pre characters > 0
    /// A space before every word that does not begin with one.
    void addPrefixSpace();
    void addMetaspace(Metaspace rule);
    void addByteLevel(); ///< every byte becomes the character that the byte-level table has for it
    /// Drops a last step that addByteLevel() added, for a model that takes bytes. \return whether there was one
    bool takeByteLevel();

    /// `atStart`: `text` begins with what the whole text began with. \pre `text` is valid UTF-8 of less than 2^31 bytes
    /// and outlives the result
    [[nodiscard]] Words split(std::string_view text, bool atStart, RegexScratch &scratch) const;

private:
    struct Split {
        std::variant<Regex, CharacterTest> what;
        SplitBehavior behavior = SplitBehavior::Isolated;
        bool invert = false;
    };
    struct FixedLength {
        std::size_t characters = 1;
    };
    struct PrefixSpace { };
    struct ByteLevel { };
    using Step = std::variant<Split, FixedLength, PrefixSpace, Metaspace, ByteLevel>;

    static void apply(const Step &step, RegexScratch &scratch, Words &words);

    std::vector<Step> m_steps;
};

/// What a GGUF file's `tokenizer.ggml.pre` stands for.
struct PreTokenizerRule {
    PreTokenizer steps;
    bool ignoreMerges = false;
    bool addsBos = false; ///< unless the file says otherwise
};

/// \throws Error Refused naming an unknown `pre`
[[nodiscard]] PreTokenizerRule preTokenizerRule(std::string_view pre);
/// The split of GPT-2, which a ByteLevel pre-tokenizer with use_regex makes.
[[nodiscard]] Regex gpt2Split();

} // namespace engine
