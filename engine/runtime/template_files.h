// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"

#include <string>
#include <utility>
#include <vector>

namespace engine {

inline constexpr const char *kDefaultTemplate = "default";
inline constexpr int kMaxTemplateJsonDepth = 64;

/// The chat templates that files hold, and the special tokens that templates may speak of.
struct TemplateFiles {
    std::vector<std::pair<std::string, std::string>> templates; ///< name and text; "default" first where there is one
    Json specialTokens = Json::object();                        ///< bos_token, eos_token, ...

    /// Replaces a template of the same name.
    void add(const std::string &name, std::string source);
    /// The text of "default", or of the only one there is; null when that is not clear.
    [[nodiscard]] const std::string *defaultTemplate() const;
};

/// Of a Hugging Face folder, in any of their places: chat_template of tokenizer_config.json (a text or a list of named
/// ones) or chat_template.json, chat_template.jinja, additional_chat_templates/NAME.jinja. A newer form replaces an
/// older one. \throws Error Refused or IoError
[[nodiscard]] TemplateFiles readFolderTemplates(const std::string &folder);

/// Of one .jinja or .json file. \throws Error Refused or IoError
[[nodiscard]] TemplateFiles readTemplateFile(const std::string &path);

} // namespace engine
