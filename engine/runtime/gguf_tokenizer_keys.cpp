// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/file_bytes.h"
#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/runtime/gguf_form.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

namespace engine {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t mostBytes = std::size_t{512} << 20;

// Source: GGUF specification, tokenizer.ggml.token_type.
enum TokenType { normalToken = 1, unknownToken = 2, controlToken = 3, userToken = 4, unusedToken = 5, byteToken = 6 };

[[noreturn]] void refuse(const std::string &file, const std::string &problem)
{
    throw Error(ErrorCode::Refused, inQuotes(file) + ' ' + problem);
}

std::optional<Json> readJson(const fs::path &path)
{
    for (const fs::path &name : {path, fs::path(path.string() + ".xz")}) {
        std::error_code ignored;
        if (fs::exists(name, ignored))
            return parseJson(readFileBytes(name.string(), mostBytes), name.string());
    }
    return std::nullopt;
}

std::string textOf(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool flagOf(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found != object.end() && found->is_boolean() && found->get<bool>();
}

/// The patterns and kinds of a pre-tokenizer's steps, in order.
std::vector<std::string> splitSteps(const Json &step)
{
    std::vector<std::string> steps;
    const std::string type = step.is_object() ? textOf(step, "type") : std::string();
    if (type == "Sequence" && step.contains("pretokenizers")) {
        for (const Json &inner : step["pretokenizers"]) {
            const std::vector<std::string> found = splitSteps(inner);
            steps.insert(steps.end(), found.begin(), found.end());
        }
    } else if (type == "Split" && step.contains("pattern") && step["pattern"].is_object()) {
        steps.push_back(textOf(step["pattern"], "Regex"));
    } else if (type == "Digits") {
        steps.emplace_back(flagOf(step, "individual_digits") ? "digit" : "digits");
    } else if (type == "ByteLevel" && (!step.contains("use_regex") || flagOf(step, "use_regex"))) {
        steps.emplace_back("gpt2");
    }
    return steps;
}

/// The name that llama.cpp has for the splits of a byte-level tokenizer; empty when it is none of these.
std::string preNameOf(const Json &tokenizer)
{
    const std::vector<std::string> steps =
        tokenizer.contains("pre_tokenizer") ? splitSteps(tokenizer["pre_tokenizer"]) : std::vector<std::string>();
    constexpr const char *contractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|";
    constexpr const char *rest = "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
    const std::string llama3 = std::string(contractions) + "\\p{N}{1,3}" + rest;
    const std::string qwen2 = std::string(contractions) + "\\p{N}" + rest;
    if (steps == std::vector<std::string>{"gpt2"})
        return "gpt-2";
    if (steps == std::vector<std::string>{"digit", "gpt2"})
        return "smollm";
    if (steps == std::vector<std::string>{llama3})
        return "llama-bpe";
    return steps == std::vector<std::string>{qwen2} ? "qwen2" : std::string();
}

/// Tokens by id, from the vocabulary and the added ones.
struct Vocabulary {
    std::vector<std::string> tokens;
    std::vector<std::int64_t> types;
    std::vector<double> scores;

    void set(std::size_t id, const std::string &text, int type)
    {
        if (id >= tokens.size()) {
            for (std::size_t i = tokens.size(); i < id; ++i)
                tokens.push_back("[PAD" + std::to_string(i) + "]");
            types.resize(id, unusedToken);
            tokens.emplace_back();
            types.push_back(type);
        }
        tokens[id] = text;
        types[id] = type;
    }
};

bool isByteToken(const std::string &text)
{
    return text.size() == 6 && text.starts_with("<0x") && text.back() == '>';
}

Vocabulary readVocabularyOf(const Json &tokenizer, const std::string &file, std::int64_t rows)
{
    Vocabulary all;
    const Json &model = tokenizer.at("model");
    std::vector<std::pair<std::size_t, std::string>> ordered;
    if (model.contains("vocab") && model["vocab"].is_object()) {
        for (const auto &[text, id] : model["vocab"].items())
            ordered.emplace_back(id.get<std::size_t>(), text);
    } else if (model.contains("vocab") && model["vocab"].is_array()) { // Unigram: text and score
        for (const Json &entry : model["vocab"]) {
            ordered.emplace_back(ordered.size(), entry.at(0).get<std::string>());
            all.scores.push_back(entry.at(1).get<double>());
        }
    }
    if (ordered.empty())
        refuse(file, "has no vocabulary under model.vocab");
    std::sort(ordered.begin(), ordered.end());
    if (ordered.back().first > ordered.size() + 1000000)
        refuse(file, "has the token id " + std::to_string(ordered.back().first) + ", far beyond its vocabulary");
    for (const auto &[id, text] : ordered)
        all.set(id, text, flagOf(model, "byte_fallback") && isByteToken(text) ? byteToken : normalToken);
    if (tokenizer.contains("added_tokens")) {
        for (const Json &token : tokenizer["added_tokens"]) {
            const auto id = token.at("id").get<std::size_t>();
            if (id > all.tokens.size() + 1000000)
                refuse(file, "has the added token id " + std::to_string(id) + ", far beyond its vocabulary");
            all.set(id, token.at("content").get<std::string>(), flagOf(token, "special") ? controlToken : userToken);
        }
    }
    if (rows > static_cast<std::int64_t>(all.tokens.size()))
        all.set(static_cast<std::size_t>(rows) - 1, "[PAD" + std::to_string(rows - 1) + "]", unusedToken);
    return all;
}

std::vector<std::string> mergesOf(const Json &model)
{
    std::vector<std::string> merges;
    if (!model.contains("merges"))
        return merges;
    for (const Json &merge : model["merges"])
        merges.push_back(merge.is_array() ? merge.at(0).get<std::string>() + ' ' + merge.at(1).get<std::string>()
                                          : merge.get<std::string>());
    return merges;
}

/// "<s>" or {"content": "<s>"}
std::string specialText(const Json &config, const char *key)
{
    const auto found = config.find(key);
    if (found == config.end())
        return {};
    return found->is_object() ? textOf(*found, "content") : found->is_string() ? found->get<std::string>() : "";
}

void addSpecialIds(const Json &config, const std::vector<std::string> &tokens, Metadata &metadata)
{
    constexpr std::array<std::pair<const char *, const char *>, 4> names = {
        {{"bos_token", "bos"}, {"eos_token", "eos"}, {"unk_token", "unknown"}, {"pad_token", "padding"}}};
    for (const auto &[name, ours] : names) {
        const std::string full = std::string("tokenizer.ggml.") + ours + "_token_id";
        const std::string text = specialText(config, name);
        const auto found = std::find(tokens.begin(), tokens.end(), text);
        if (!text.empty() && found != tokens.end() && metadata.find(full) == nullptr)
            metadata.add(full, static_cast<std::uint64_t>(found - tokens.begin()), "uint32");
    }
    for (const char *flag : {"add_bos_token", "add_eos_token"}) {
        if (config.contains(flag) && config[flag].is_boolean())
            metadata.add(std::string("tokenizer.ggml.") + flag, config[flag].get<bool>());
    }
}

void addChatTemplate(const fs::path &folder, const Json &config, Metadata &metadata)
{
    std::error_code ignored;
    if (fs::exists(folder / "chat_template.jinja", ignored))
        metadata.add("tokenizer.chat_template", readFileBytes((folder / "chat_template.jinja").string(), mostBytes));
    else if (const std::string text = textOf(config, "chat_template"); !text.empty())
        metadata.add("tokenizer.chat_template", text);
}

} // namespace

void addTokenizerKeys(const std::string &folder, Metadata &metadata, std::vector<std::string> &warnings)
{
    const fs::path place(folder);
    const std::string file = (place / "tokenizer.json").string();
    const std::optional<Json> tokenizer = readJson(file);
    if (!tokenizer) {
        warnings.push_back("there is no tokenizer.json; the GGUF file has no tokenizer");
        return;
    }
    try {
        const Json &model = tokenizer->at("model");
        const std::string type = textOf(model, "type");
        if (type != "BPE" || flagOf(model, "byte_fallback")) {
            warnings.push_back("the tokenizer is " + type + (type == "BPE" ? " with byte fallback" : "")
                               + ", which is not written to GGUF files");
            return;
        }
        const std::string *architecture = metadata.text("general.architecture");
        const std::int64_t rows =
            architecture != nullptr ? metadata.integer(*architecture + ".vocab_size").value_or(0) : 0;
        Vocabulary vocabulary = readVocabularyOf(*tokenizer, file, rows);
        metadata.add("tokenizer.ggml.model", std::string("gpt2"));
        const std::string pre = preNameOf(*tokenizer);
        if (pre.empty())
            warnings.push_back(
                "the splits of the tokenizer have no name in GGUF; \"default\" is written, and texts may be"
                " cut in other places");
        metadata.add("tokenizer.ggml.pre", pre.empty() ? std::string("default") : pre);
        const Json config = readJson(place / "tokenizer_config.json").value_or(Json::object());
        addSpecialIds(config, vocabulary.tokens, metadata);
        metadata.add("tokenizer.ggml.tokens", std::move(vocabulary.tokens));
        metadata.add("tokenizer.ggml.token_type", std::move(vocabulary.types), "array of int32");
        metadata.add("tokenizer.ggml.merges", mergesOf(model));
        addChatTemplate(place, config, metadata);
    } catch (const Json::exception &error) {
        refuse(file, std::string("is no tokenizer that can be read: ") + error.what());
    }
}

} // namespace engine
