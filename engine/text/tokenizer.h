// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"
#include "engine/api/text.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

enum class TokenKind { Normal, Unknown, Control, UserDefined, Unused, Byte };

/// A vocabulary as plain data, read from GGUF keys by the runtime.
struct VocabularyData {
    std::string model; ///< tokenizer.ggml.model: "gpt2", "llama", "t5", ...
    std::string pre;   ///< tokenizer.ggml.pre
    std::vector<std::string> tokens;
    std::vector<TokenKind> kinds;    ///< empty or as long as tokens
    std::vector<float> scores;       ///< empty or as long as tokens
    std::vector<std::string> merges; ///< "left right"
    std::optional<int> bos, eos, eot, eom, unk, pad;
    std::optional<bool> addBos, addEos, addSpacePrefix;
    bool removeExtraSpaces = false;   ///< Unigram: runs of spaces count as one, those at the ends as none
    std::string characterMap;         ///< Unigram: bytes of SentencePiece's normalization table, or empty
    bool stripsBehindSpecial = false; ///< white space behind control and user-defined tokens is dropped (Phi-3)
    std::vector<int> ends;            ///< more ids that end an answer
    /// Everything of a tokenizer.json but vocabulary and merges, as JSON: given, it counts in place of what the kinds
    /// of tokens, `pre` and the flags say.
    std::string steps;
};

/// Where `steps` stands in a file. A key of this engine: GGUF has none for normalizers, strip rules and the like.
constexpr const char *tokenizerStepsKey = "lathe.tokenizer.steps";

/// Tokens of one text becoming its bytes as they come. Must not outlive its tokenizer; one thread at a time.
class TokenStream {
public:
    virtual ~TokenStream() = default;
    /// Appends the bytes that became certain, which may end inside a character.
    virtual void append(int id, std::string &out) = 0;
    /// Appends what was held back; the stream then begins anew.
    virtual void finish(std::string &out) = 0;
};

/// Text to ids and back. Immutable; any thread.
class Tokenizer : public TextModel {
public:
    [[nodiscard]] virtual bool isControl(int id) const = 0;
    /// The exact bytes that a token stands for; empty for control tokens when `skipSpecial`.
    /// The token by itself: what a tokenizer does to the first or last token of a text is left out.
    [[nodiscard]] virtual std::string bytes(int id, bool skipSpecial) const = 0;
    [[nodiscard]] std::string bytesOf(int id) const final { return bytes(id, false); }
    /// As decode() does for all at once. Unless overridden, the bytes() of the tokens joined.
    [[nodiscard]] virtual std::unique_ptr<TokenStream> stream(bool skipSpecial) const;
    [[nodiscard]] virtual std::optional<int> bos() const = 0;
    [[nodiscard]] virtual std::optional<int> eos() const = 0;
    [[nodiscard]] virtual bool addsBos() const = 0;                 ///< encode(addSpecial) begins with BOS
    [[nodiscard]] virtual bool isEndOfGeneration(int id) const = 0; ///< eos, eot, eom and the like
    [[nodiscard]] virtual std::optional<int> find(std::string_view piece) const = 0;
};

/// \throws Error Refused naming the key and the fault; an unknown pre-tokenizer is refused with its name
[[nodiscard]] std::unique_ptr<Tokenizer> makeTokenizer(const VocabularyData &data);

/// Texts of the files of a Hugging Face folder; all but the first may be empty.
struct TokenizerTexts {
    std::string_view tokenizer;       ///< tokenizer.json
    std::string_view config;          ///< tokenizer_config.json
    std::string_view specialTokens;   ///< special_tokens_map.json: what the configuration does not say
    std::string_view addedTokens;     ///< added_tokens.json: tokens beside those of tokenizer.json
    std::vector<int> endOfGeneration; ///< ids that end an answer; those outside the vocabulary are ignored
};
/// \throws Error Refused naming the file or key and the fault
[[nodiscard]] std::unique_ptr<Tokenizer> makeTokenizer(const TokenizerTexts &texts);
/// `tokenizerJson` is the text of tokenizer.json, `configJson` of tokenizer_config.json or empty.
[[nodiscard]] std::unique_ptr<Tokenizer> makeTokenizer(std::string_view tokenizerJson, std::string_view configJson);

} // namespace engine
