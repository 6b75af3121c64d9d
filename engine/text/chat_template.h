// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"
#include "engine/core/json.h"

#include <cstddef>
#include <memory>
#include <string>

namespace engine {

/// One budget for a whole render; exceeding any part is Error Refused naming the limit.
struct TemplateLimits {
    long steps = 50'000'000;
    std::size_t outputBytes = 16U << 20U;
    std::size_t memoryBytes = 64U << 20U;
    int depth = 100; ///< of nesting in the parser and of calls
};

/// What apply_chat_template gives to a template, before kwargs.
struct TemplateInput {
    Json messages;
    Json tools;     ///< null when absent
    Json documents; ///< null when absent
    Json kwargs;    ///< object or null; members become variables
    bool addGenerationPrompt = true;
    std::string date;   ///< YYYY-MM-DD[Thh:mm:ss]; empty = now
    Json specialTokens; ///< object: bos_token, eos_token, ...
};

/// A parsed chat template: our own interpreter for the part of Jinja that templates use; reaches no file, no
/// network and no host object. Immutable; any thread. Source of the language: Jinja 3.1 template designer
/// documentation.
class ChatTemplate {
public:
    /// \throws Error Refused with line and fault
    explicit ChatTemplate(std::string source, TemplateLimits limits = {});
    ~ChatTemplate();
    ChatTemplate(ChatTemplate &&) noexcept;
    ChatTemplate &operator=(ChatTemplate &&) noexcept;

    /// Renders on a plain context object. `date` freezes strftime_now.
    [[nodiscard]] std::string render(const Json &context, const std::string &date = {}) const;
    /// As transformers' apply_chat_template(tokenize=False) does: null message fields dropped, reasoning fields
    /// copied into each other, an empty conversation refused, tools and documents always defined.
    [[nodiscard]] std::string renderChat(const TemplateInput &input) const;

private:
    struct Program;
    std::unique_ptr<Program> m_program;
};

} // namespace engine
