// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_interpreter.h"

#include <string>
#include <string_view>
#include <vector>

/// What the methods of text and the filters share. Results are charged to the interpreter's budget.
namespace engine::jinja {

/// First place of `needle` in `text` from `from` on; the search is charged.
[[nodiscard]] std::size_t search(Budget &budget, std::string_view text, std::string_view needle, std::size_t from);
/// A string like `like`: marked safe when that is.
[[nodiscard]] Value similar(Interpreter &owner, const Value &like, std::string_view text);
/// str(value), keeping a string as it is.
[[nodiscard]] Value asText(Interpreter &owner, const Value &value);
/// Applies a change of case, whose result may be three times as long.
[[nodiscard]] Value mapped(Interpreter &owner, const Value &text, std::string (*map)(std::string_view));
/// Without the characters of `chars`, or white space when that is none or undefined.
[[nodiscard]] Value stripped(Interpreter &owner, const Value &text, const Value &chars, int ends);
/// Every `from` as `to`, at most `count` times when that is not negative.
[[nodiscard]] Value replaced(Interpreter &owner, const Value &text, std::string_view from, std::string_view to,
                             std::int64_t count);
[[nodiscard]] Value centered(Interpreter &owner, const Value &text, std::int64_t width, std::string_view fill);
[[nodiscard]] std::vector<std::string_view> lines(Budget &budget, std::string_view text, bool keepEnds);

} // namespace engine::jinja
