// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/output.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

struct EncodeOptions {
    bool addSpecial = false;   ///< BOS/EOS as the model does
    bool parseSpecial = false; ///< special tokens written in the text become their ids
};

/// The parts of an answer; without markers everything is content.
struct Answer {
    std::string content;
    std::string reasoning;
    std::vector<ToolCall> toolCalls;
};

/// A model's tokenizer without its weights. Immutable; any thread.
class TextModel {
public:
    virtual ~TextModel() = default;
    [[nodiscard]] virtual std::vector<int> encode(std::string_view text, const EncodeOptions &options) const = 0;
    /// Bytes that are no UTF-8 become U+FFFD. \throws Error Refused for an id outside the vocabulary
    [[nodiscard]] virtual std::string decode(const std::vector<int> &ids, bool skipSpecial) const = 0;
    /// The vocabulary's own spelling of a token.
    [[nodiscard]] virtual std::string piece(int id) const = 0;
    /// The bytes that a token stands for, which need be no whole character. \pre id is in the vocabulary
    [[nodiscard]] virtual std::string bytesOf(int id) const = 0;
    [[nodiscard]] virtual int vocabSize() const = 0;
};

/// Opens the tokenizer of a GGUF file, or of a folder or file with tokenizer.json (or .json.xz) and/or
/// tokenizer_config.json. \throws Error Refused naming file, key and fault
[[nodiscard]] std::unique_ptr<TextModel> openTextModel(const std::string &path);

/// Sorts the tokens of an answer that followed `prompt` into content, reasoning and tool calls, as a conversation does
/// while it streams. `offersTools`: the request named tools. \pre `model` comes from openTextModel
/// \throws Error Refused for an id outside the vocabulary
[[nodiscard]] Answer readAnswer(const TextModel &model, const std::vector<int> &ids, const std::vector<int> &prompt,
                                bool offersTools);

/// A JSON schema of one call {name, arguments} of any of a list's functions, [{"name": ..., "parameters": schema}, ...]
/// as JSON; functions without parameters take any object. \throws Error Refused when it is no such list
[[nodiscard]] std::string anyCallSchema(std::string_view functionsJson);

/// How to render a conversation. JSON texts are given as they came; they are parsed with limits.
struct RenderRequest {
    std::string messagesJson; ///< list of message objects
    std::optional<std::string> toolsJson;
    std::optional<std::string> documentsJson;
    std::optional<std::string> kwargsJson; ///< object whose members become variables
    bool addGenerationPrompt = true;
    std::string date; ///< YYYY-MM-DD[Thh:mm:ss]; empty = now
};

/// A model's chat templates. Immutable; any thread.
class TemplateModel {
public:
    virtual ~TemplateModel() = default;
    [[nodiscard]] virtual std::vector<std::string> names() const = 0; ///< "default" first
    /// \throws Error Refused: the template's own raise_exception text, or a fault with its line
    [[nodiscard]] virtual std::string render(const RenderRequest &request,
                                             const std::string &name = "default") const = 0;
};

/// Opens the chat templates of a GGUF file, a tokenizer_config.json, a chat_template.jinja, or a folder with them.
[[nodiscard]] std::unique_ptr<TemplateModel> openTemplates(const std::string &path);

/// Renders a bare template text on a context object, as `lathe-cli render --jsonl` without MODEL does.
[[nodiscard]] std::string renderTemplate(const std::string &source, const std::string &contextJson,
                                         const std::string &date = {});

} // namespace engine
