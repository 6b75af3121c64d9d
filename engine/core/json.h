// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace engine {

/// Objects keep the order of their keys. Not for objects of more than a few thousand members.
using Json = nlohmann::ordered_json;

/// Parses one JSON text with a limit on nesting; duplicate keys are refused.
/// `what` names the text in errors. \throws Error Refused with the byte offset
[[nodiscard]] Json parseJson(std::string_view text, std::string_view what, int maxDepth = 64);

/// What is wrong, out of the text of the parser's error: without its own name, place and the text around it.
[[nodiscard]] std::string jsonFault(std::string_view parserMessage);

/// The text or flag under `key` of an object; empty or `otherwise` where there is none of that type.
[[nodiscard]] std::string textAt(const Json &object, const char *key);
[[nodiscard]] bool flagAt(const Json &object, const char *key, bool otherwise = false);

} // namespace engine
