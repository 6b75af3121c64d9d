// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

#include <string>
#include <string_view>

namespace engine::jinja {

/// Appends str(value).
void appendText(Text &out, Heap &heap, const Value &value);
/// Appends repr(value).
void appendRepr(Text &out, Heap &heap, const Value &value);
[[nodiscard]] std::string textOf(Heap &heap, const Value &value);
[[nodiscard]] std::string reprOf(Heap &heap, const Value &value);
/// A float as Python prints it: the shortest text that reads back, with .0 or an exponent.
[[nodiscard]] std::string floatText(double value);
[[nodiscard]] std::string reprText(std::string_view text); ///< repr of a string

/// Appends with & < > " ' replaced for HTML.
void appendHtml(Text &out, std::string_view text);
/// Appends the text of a string, for HTML unless it is marked safe, when `escape`. \pre text.isString()
void appendEscapedIf(Text &out, const Value &text, bool escape);
/// str(value) for HTML, marked safe; safe strings stay as they are.
[[nodiscard]] Value escapeHtml(Heap &heap, const Value &value);

/// json.dumps(value, ensure_ascii=False) of Python.
struct JsonStyle {
    std::string indent; ///< of one level
    bool multiLine = false;
    std::string itemSeparator = ", ";
    std::string keySeparator = ": ";
    bool sortKeys = false;
    bool ensureAscii = false;
};
void appendJson(Text &out, Heap &heap, const Value &value, const JsonStyle &style);

} // namespace engine::jinja
