// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/file_bytes.h"
#include "engine/core/printable.h"
#include "engine/runtime/gguf_form.h"
#include "engine/runtime/gguf_vocabulary.h"
#include "engine/runtime/model_text.h"
#include "engine/runtime/template_files.h"
#include "engine/runtime/vocabulary.h"
#include "engine/text/tokenizer_file.h"
#include "engine/text/tokenizer_gguf.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_set>
#include <utility>

namespace engine {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t mostBytes = std::size_t{512} << 20;

/// The text of a file of the folder, plain or packed.
std::optional<std::string> readText(const fs::path &path)
{
    for (const fs::path &name : {path, fs::path(path.string() + ".xz")}) {
        std::error_code ignored;
        if (fs::exists(name, ignored))
            return readFileBytes(name.string(), mostBytes);
    }
    return std::nullopt;
}

Json readObject(const fs::path &path)
{
    const std::optional<std::string> text = readText(path);
    return text ? parseJson(*text, path.string()) : Json::object();
}

TokenizerFile readFile(const std::string &text, const std::string &path)
{
    try {
        return readTokenizerFile(text);
    } catch (const Error &error) {
        throw Error(error.code(), path + ": " + error.what());
    }
}

/// The first token whose own text `made` cuts otherwise than `folder`, or -1: the two have then the same words.
int firstDifference(const Tokenizer &folder, const Tokenizer &made)
{
    const int tokens = std::min(folder.vocabSize(), made.vocabSize());
    for (int id = 0; id < tokens; ++id) {
        const std::string text = folder.decode({id}, false);
        if (text.empty() || text.find("\xEF\xBF\xBD") != std::string::npos) // bytes that are no text by themselves
            continue;
        if (folder.encode(text, {false, true}) != made.encode(text, {false, true}))
            return id;
    }
    return -1;
}

std::string joined(const std::vector<std::string> &parts)
{
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i == 0 ? "" : i + 1 == parts.size() ? " and " : ", ") + parts[i];
    return text;
}

std::int64_t ggufKind(TokenKind kind) // source: GGUF specification, tokenizer.ggml.token_type
{
    switch (kind) {
    case TokenKind::Normal:
        return 1;
    case TokenKind::Unknown:
        return 2;
    case TokenKind::Control:
        return 3;
    case TokenKind::UserDefined:
        return 4;
    case TokenKind::Unused:
        return 5;
    case TokenKind::Byte:
        return 6;
    }
    return 1;
}

void addSpecialKeys(const VocabularyData &data, Metadata &metadata)
{
    const auto addId = [&](const char *name, const std::optional<int> &id) {
        const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
        if (id && metadata.find(key) == nullptr)
            metadata.add(key, static_cast<std::uint64_t>(*id), "uint32");
    };
    addId("bos", data.bos);
    addId("eos", data.eos);
    addId("unknown", data.unk);
    addId("padding", data.pad);
    metadata.add("tokenizer.ggml.add_bos_token", data.addBos.value_or(false));
    metadata.add("tokenizer.ggml.add_eos_token", data.addEos.value_or(false));
    if (data.addSpacePrefix)
        metadata.add("tokenizer.ggml.add_space_prefix", *data.addSpacePrefix);
}

void addKeys(VocabularyData data, Metadata &metadata)
{
    metadata.add("tokenizer.ggml.model", data.model);
    metadata.add("tokenizer.ggml.pre", data.pre);
    addSpecialKeys(data, metadata);
    if (data.model == ggufUnigram) {
        metadata.add("tokenizer.ggml.remove_extra_whitespaces", data.removeExtraSpaces);
        std::vector<std::uint64_t> map;
        for (const char byte : data.characterMap)
            map.push_back(static_cast<std::uint8_t>(byte));
        if (!map.empty())
            metadata.add("tokenizer.ggml.precompiled_charsmap", std::move(map), "array of uint8");
    }
    if (!data.scores.empty())
        metadata.add("tokenizer.ggml.scores", std::vector<double>(data.scores.begin(), data.scores.end()),
                     "array of float32");
    std::vector<std::int64_t> kinds;
    for (const TokenKind kind : data.kinds)
        kinds.push_back(ggufKind(kind));
    metadata.add("tokenizer.ggml.tokens", std::move(data.tokens));
    metadata.add("tokenizer.ggml.token_type", std::move(kinds), "array of int32");
    if (data.model == ggufByteLevel || !data.merges.empty())
        metadata.add("tokenizer.ggml.merges", std::move(data.merges));
    if (!data.steps.empty())
        metadata.add(tokenizerStepsKey, std::move(data.steps));
}

/// llama.cpp refuses a vocabulary with two equal tokens.
void warnOfEqualTokens(const VocabularyData &data, std::vector<std::string> &warnings)
{
    std::unordered_set<std::string_view> seen;
    for (const std::string &token : data.tokens) {
        if (!seen.insert(token).second) {
            warnings.push_back("the vocabulary has the token " + inQuotes(token)
                               + " twice, which llama.cpp does not load");
            return;
        }
    }
}

/// Where the plain keys do not make the folder's tokenizer, the steps of its file go beside them.
void settleSteps(const FolderTokenizerFiles &files, const Tokenizer &folder, GgufVocabulary &vocabulary,
                 std::vector<std::string> &warnings)
{
    VocabularyData &data = vocabulary.data;
    if (vocabulary.unsaid.empty()) {
        if (const int id = firstDifference(folder, *makeTokenizer(data)); id >= 0)
            vocabulary.unsaid.push_back("how the text of the token " + inQuotes(folder.piece(id)) + " is cut");
    }
    if (vocabulary.unsaid.empty())
        return;
    data.steps = tokenizerStepsOf(files);
    int id = firstDifference(folder, *makeTokenizer(data));
    if (id >= 0 && data.model == ggufSentencePiece) { // scores cannot say it: the list of merges can
        data.merges = ggufMergesOf(files.tokenizer);
        id = firstDifference(folder, *makeTokenizer(data));
    }
    if (id >= 0)
        data.steps.clear();
    warnings.push_back("GGUF has no key for " + joined(vocabulary.unsaid) + " of the tokenizer"
                       + (id >= 0 ? ", so texts may be cut in other places"
                                  : ", which is kept as " + std::string(tokenizerStepsKey)
                                  + " for this program; others may cut texts in other places"));
}

void addChatTemplate(const std::string &folder, Metadata &metadata)
{
    const TemplateFiles files = readFolderTemplates(folder);
    if (const std::string *source = files.defaultTemplate())
        metadata.add("tokenizer.chat_template", *source);
    std::vector<std::string> others;
    for (const auto &[name, text] : files.templates) {
        if (name == "default" || files.templates.size() == 1)
            continue;
        metadata.add("tokenizer.chat_template." + name, text);
        others.push_back(name);
    }
    if (!others.empty())
        metadata.add("tokenizer.chat_templates", std::move(others));
}

std::string nameOf(const Metadata &metadata, const char *key)
{
    const std::string *text = metadata.text(key);
    return text != nullptr ? *text : std::string();
}

} // namespace

void addTokenizerKeys(const std::string &folder, Metadata &metadata, std::vector<std::string> &warnings)
{
    const fs::path place(folder);
    FolderTokenizerFiles files;
    files.path = (place / "tokenizer.json").string();
    const std::optional<std::string> text = readText(files.path);
    addChatTemplate(folder, metadata);
    if (!text) {
        warnings.push_back("there is no tokenizer.json; the GGUF file has no tokenizer");
        return;
    }
    files.tokenizer = readFile(*text, files.path);
    if (const std::optional<std::string> config = readText(place / "tokenizer_config.json"))
        files.config = readTokenizerConfig(*config);
    files.added = readObject(place / "added_tokens.json");
    const std::unique_ptr<Tokenizer> read = openFolderTokenizer(folder, readEnds(metadata));
    const std::string architecture = nameOf(metadata, "general.architecture");
    GgufVocabulary vocabulary = ggufVocabularyOf(files, *read, architecture, nameOf(metadata, "general.name"),
                                                 metadata.integer(architecture + ".vocab_size").value_or(0));
    if (!vocabulary.refusal.empty()) {
        warnings.push_back("the tokenizer is " + vocabulary.refusal
                           + ", which GGUF has no form for; the file has no tokenizer");
        return;
    }
    settleSteps(files, *read, vocabulary, warnings);
    warnOfEqualTokens(vocabulary.data, warnings);
    addKeys(std::move(vocabulary.data), metadata);
}

} // namespace engine
