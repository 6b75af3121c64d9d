// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

#include <string>
#include <string_view>

namespace engine::jinja {

class Interpreter;

/// text % values: printf-style formatting by Python's rules, done here and never by printf. \throws Fault
[[nodiscard]] Value formatPercent(Heap &heap, const Value &text, const Value &values);
/// text.format(...): braces with field names, conversions and format specifications. \throws Fault
[[nodiscard]] Value formatBraces(Interpreter &owner, const Value &text, const Arguments &arguments);

/// How a number or text is laid out in its field.
struct FieldStyle {
    std::string fill = " ";
    char align = '\0'; ///< < > ^ or = (between sign and digits); none: by type
    char sign = '-';
    bool alternate = false;
    char grouping = '\0'; ///< , or _ between thousands
    std::int64_t width = 0;
    std::int64_t precision = -1;
    char type = '\0';
};
/// Appends a finished text in a field of style.width characters.
void appendField(Text &out, std::string_view text, const FieldStyle &style, char defaultAlign);
/// Appends an integer in the base that style.type names (b, o, x, X; else ten).
void appendInteger(Text &out, Heap &heap, const Value &integer, const FieldStyle &style);
/// Appends a float as style.type says (e, f, g, their capitals, or %).
void appendFloat(Text &out, double value, const FieldStyle &style);

} // namespace engine::jinja
