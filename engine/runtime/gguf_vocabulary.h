// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_file.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

inline constexpr const char *metaspaceMark = "\xE2\x96\x81"; ///< U+2581

/// The files of a folder that a tokenizer is made from.
struct FolderTokenizerFiles {
    std::string path; ///< of tokenizer.json, for errors
    TokenizerFile tokenizer;
    Json config = Json::object(); ///< tokenizer_config.json, or an empty object
    Json added = Json::object();  ///< added_tokens.json, or an empty object
};

/// A tokenizer.json in the form of GGUF's keys.
struct GgufVocabulary {
    VocabularyData data;
    std::vector<std::string> unsaid; ///< what of it the keys do not say, for a sentence: "the normalizer NFC"
    std::string refusal;             ///< why there is no such form at all; `data` is then empty
};

/// The form for a model of `architecture` named `name` with `rows` rows of embeddings (0: as many as there are tokens).
/// `tokenizer` is the same one, read. Rows without a token get names of their own.
/// \throws Error Refused naming file and fault
[[nodiscard]] GgufVocabulary ggufVocabularyOf(const FolderTokenizerFiles &files, const Tokenizer &tokenizer,
                                              std::string_view architecture, const std::string &name,
                                              std::int64_t rows);

/// Everything of the tokenizer.json but vocabulary and merges: VocabularyData::steps.
[[nodiscard]] std::string tokenizerStepsOf(const FolderTokenizerFiles &files);

/// Its merges as GGUF writes them, "left right".
[[nodiscard]] std::vector<std::string> ggufMergesOf(const TokenizerFile &tokenizer);

/// How the steps of a tokenizer.json, TokenizerFile::rest, stand in GGUF's keys; the reasons go to `unsaid`.
struct GgufSteps {
    std::string pre; ///< byte-level: tokenizer.ggml.pre, empty when none has these splits
    bool addsSpacePrefix = false;
    bool removesExtraSpaces = false;
    std::string characterMap; ///< bytes
    std::vector<std::string> unsaid;
};
[[nodiscard]] GgufSteps byteLevelSteps(const Json &tokenizer, std::string_view architecture);
[[nodiscard]] GgufSteps sentencePieceSteps(const Json &tokenizer);
[[nodiscard]] GgufSteps unigramSteps(const Json &tokenizer);

/// What the flags of added tokens ask for that GGUF does not say. `phi3`: white space behind them is dropped, with that
/// family's exceptions.
[[nodiscard]] std::vector<std::string> unsaidTokenFlags(const Json &tokenizer, bool phi3);

} // namespace engine
