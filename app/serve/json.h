// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace serve {

using Json = nlohmann::ordered_json;

/// Parses a request body within limits: nesting, members of one object, values in all. Duplicate keys and control
/// characters in keys are refused. \throws ApiError 400 naming the fault and its byte
[[nodiscard]] Json parseBody(std::string_view body);

/// On one line; text that is no UTF-8 is written with U+FFFD.
[[nodiscard]] std::string dump(const Json &value);

} // namespace serve
