// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/pretokenizer.h"
#include "engine/text/tokenizer_pipeline.h"

#include <string>

/// The fields of the steps of a tokenizer.json. `place` names the step in errors.
namespace engine::tokenizer_steps {

[[noreturn]] void refuse(const std::string &text); ///< with "tokenizer: " in front
/// Null when absent or null.
[[nodiscard]] const Json *member(const Json &object, const char *key);
[[nodiscard]] bool flag(const Json &step, const char *key, bool otherwise);
[[nodiscard]] std::string textOf(const Json &step, const char *key, const std::string &place);
/// A text of one character.
[[nodiscard]] std::string characterOf(const Json &step, const char *key, const std::string &place);
/// `pattern`, an object with Regex or String.
[[nodiscard]] Regex patternOf(const Json &step, const std::string &place);
/// Its String, or nothing when it is a Regex.
[[nodiscard]] std::optional<std::string> literalOf(const Json &step, const std::string &place);
[[nodiscard]] Metaspace metaspaceOf(const Json &step, const std::string &place);

/// Readers of one step each.
void readNormalizer(const Json &step, const std::string &type, TokenizerParts &parts);
void readDecoder(const Json &step, const std::string &type, TokenizerParts &parts);

} // namespace engine::tokenizer_steps
