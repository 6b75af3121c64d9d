// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

bool isAlign(char32_t c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

std::int64_t readDigits(std::string_view text, std::size_t &at)
{
    std::int64_t out = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
        out = out * 10 + (text[at] - '0');
        if (out > 0x7fffffff)
            fail("too many digits in the width or precision of a format");
    }
    return out;
}

/// [[fill]align][sign][#][0][width][grouping][.precision][type]
FieldStyle parseStyle(std::string_view spec)
{
    FieldStyle style;
    std::size_t at = 0;
    if (!spec.empty()) {
        std::size_t next = 0;
        static_cast<void>(nextChar(spec, next));
        if (next < spec.size() && isAlign(static_cast<unsigned char>(spec[next]))) {
            style.fill = spec.substr(0, next);
            style.align = spec[next];
            at = next + 1;
        } else if (isAlign(static_cast<unsigned char>(spec[0]))) {
            style.align = spec[0];
            at = 1;
        }
    }
    const auto take = [&](std::string_view signs) {
        return at < spec.size() && signs.find(spec[at]) != std::string_view::npos ? spec[at++] : '\0';
    };
    if (const char sign = take("+- "); sign != '\0')
        style.sign = sign;
    style.alternate = take("#") != '\0';
    if (take("0") != '\0' && style.align == '\0') {
        style.align = '=';
        style.fill = "0";
    }
    style.width = readDigits(spec, at);
    style.grouping = take(",_");
    if (take(".") != '\0') {
        const std::size_t begin = at;
        style.precision = readDigits(spec, at);
        if (at == begin)
            fail("format specifier missing precision");
    }
    style.type = take("bcdeEfFgGnosxX%");
    if (at != spec.size())
        fail("invalid format specifier " + reprText(spec));
    return style;
}

void appendStyledText(Text &out, std::string_view text, const FieldStyle &style)
{
    if (style.type != '\0' && style.type != 's')
        fail(std::string("unknown format code '") + style.type + "' for object of type 'str'");
    if (style.align == '=' && style.fill != "0")
        fail("'=' alignment is not allowed in a string format specifier");
    FieldStyle left = style;
    if (left.align == '=')
        left.align = '<';
    if (style.precision >= 0)
        text = text.substr(0, byteOffset(text, style.precision));
    appendField(out, text, left, '<');
}

void appendStyledFloat(Text &out, double value, FieldStyle style)
{
    if (style.type == 'n')
        style.type = 'g';
    if (style.type == '\0' && style.precision < 0) {
        std::string digits = floatText(std::fabs(value));
        const bool negative = std::signbit(value);
        FieldStyle plain = style;
        const std::string sign = negative ? "-" : (style.sign == '-' ? "" : std::string(1, style.sign));
        if (style.align == '=') {
            const auto used = static_cast<std::int64_t>(sign.size() + digits.size());
            out.append(sign);
            out.repeat(style.fill, static_cast<std::size_t>(std::max<std::int64_t>(0, style.width - used)));
            return out.append(digits);
        }
        return appendField(out, sign + digits, plain, '>');
    }
    if (style.type == '\0')
        style.type = 'g';
    appendFloat(out, value, style);
}

void appendStyledInteger(Text &out, Heap &heap, const Value &value, FieldStyle style)
{
    if (std::string_view("eEfFgG%").find(style.type) != std::string_view::npos && style.type != '\0')
        return appendFloat(out, toDouble(value), style);
    if (style.precision >= 0)
        fail("precision not allowed in integer format specifier");
    if (style.type == 's')
        fail("unknown format code 's' for object of type 'int'");
    if (style.type == 'c') {
        std::string text;
        const std::int64_t code = clampToInt64(value);
        if (code < 0 || code > 0x10FFFF || (code >> 11) == 0x1B)
            fail("%c of a format is not in the range of Unicode");
        appendChar(text, static_cast<char32_t>(code));
        return appendField(out, text, style, '<');
    }
    if (style.type == 'n' || style.type == '\0')
        style.type = 'd';
    appendInteger(out, heap, value, style);
}

void appendStyled(Text &out, Heap &heap, const Value &value, std::string_view spec)
{
    if (spec.empty())
        return appendText(out, heap, value);
    const FieldStyle style = parseStyle(spec);
    if (value.isString())
        return appendStyledText(out, value.text(), style);
    if (value.is(Kind::Float))
        return appendStyledFloat(out, value.asDouble(), style);
    if (value.isInteger())
        return appendStyledInteger(out, heap, value, style);
    requireDefined(value);
    fail(std::string("unsupported format string passed to ") + typeName(value) + ".__format__");
}

/// One text with braces and its arguments.
class Braces {
public:
    Braces(Interpreter &owner, const Arguments &arguments)
        : m_owner(owner)
        , m_arguments(arguments)
    {
    }

    void append(Text &out, std::string_view format, int depth)
    {
        for (std::size_t at = 0; at < format.size();) {
            const std::size_t next = std::min(format.find_first_of("{}", at), format.size());
            out.append(format.substr(at, next - at));
            at = next;
            if (at == format.size())
                return;
            if (at + 1 < format.size() && format[at + 1] == format[at]) {
                out.append(format[at]);
                at += 2;
                continue;
            }
            if (format[at] == '}')
                fail("single '}' encountered in format string");
            const std::size_t end = closing(format, at);
            field(out, format.substr(at + 1, end - at - 1), depth);
            at = end + 1;
        }
    }

private:
    static std::size_t closing(std::string_view format, std::size_t open)
    {
        int nested = 0;
        for (std::size_t at = open; at < format.size(); ++at) {
            if (format[at] == '{')
                ++nested;
            else if (format[at] == '}' && --nested == 0)
                return at;
        }
        fail("expected '}' before end of format string");
    }

    void field(Text &out, std::string_view body, int depth)
    {
        if (depth > 1)
            fail("fields of a format string are nested too deep");
        const std::size_t mark = body.find_first_of("!:");
        std::string_view name = body.substr(0, mark);
        char conversion = '\0';
        std::string_view spec;
        if (mark != std::string_view::npos && body[mark] == '!') {
            if (mark + 1 >= body.size() || (mark + 2 < body.size() && body[mark + 2] != ':'))
                fail("expected a conversion character and ':' after '!' in a format string");
            conversion = body[mark + 1];
            spec = mark + 2 < body.size() ? body.substr(mark + 3) : std::string_view();
        } else if (mark != std::string_view::npos) {
            spec = body.substr(mark + 1);
        }
        Value value = converted(lookUp(name), conversion);
        Text expanded(m_owner.budget());
        append(expanded, spec, depth + 1);
        appendStyled(out, m_owner.heap(), value, expanded.text());
    }

    Value converted(Value value, char conversion)
    {
        switch (conversion) {
        case '\0':
            return value;
        case 's':
            return m_owner.heap().string(textOf(m_owner.heap(), value));
        case 'r':
        case 'a':
            return m_owner.heap().string(reprOf(m_owner.heap(), value));
        default:
            fail(std::string("unknown conversion specifier '") + conversion + "' in a format string");
        }
    }

    /// name(.attribute | [key])*
    Value lookUp(std::string_view name)
    {
        const std::size_t end = std::min(name.find_first_of(".["), name.size());
        Value out = argument(name.substr(0, end));
        for (std::size_t at = end; at < name.size();) {
            m_owner.budget().steps(4);
            const bool isKey = name[at] == '[';
            const std::size_t stop =
                isKey ? name.find(']', at) : std::min(name.find_first_of(".[", at + 1), name.size());
            if (stop == std::string_view::npos)
                fail("missing ']' in format string");
            const std::string part(name.substr(at + 1, stop - at - 1));
            if (part.empty())
                fail("empty attribute in format string");
            if (!isKey)
                out = m_owner.attribute(out, part);
            else if (part.find_first_not_of("0123456789") == std::string::npos && part.size() < 18)
                out = m_owner.subscript(out, Value::integer(std::stoll(part)));
            else
                out = m_owner.subscript(out, m_owner.heap().string(part));
            at = stop + (isKey ? 1 : 0);
        }
        return out;
    }

    Value argument(std::string_view name)
    {
        const bool isNumber = name.find_first_not_of("0123456789") == std::string_view::npos && name.size() < 10;
        if (name.empty() || isNumber) {
            const Numbering wanted = name.empty() ? Numbering::Automatic : Numbering::Manual;
            if (m_numbering != Numbering::Open && m_numbering != wanted)
                fail("a format string cannot switch between automatic and manual field numbering");
            m_numbering = wanted;
            const std::size_t index = name.empty() ? m_next++ : std::stoul(std::string(name));
            if (index >= m_arguments.positional.size())
                fail("replacement index " + std::to_string(index)
                     + " of a format is out of range for positional arguments");
            return m_arguments.positional[index];
        }
        for (const auto &[key, value] : m_arguments.named) {
            if (key == name)
                return value;
        }
        fail("the format string names " + reprText(name) + ", which is not among its arguments");
    }

    Interpreter &m_owner;
    const Arguments &m_arguments;
    enum class Numbering { Open, Automatic, Manual };
    Numbering m_numbering = Numbering::Open;
    std::size_t m_next = 0;
};

} // namespace

Value formatBraces(Interpreter &owner, const Value &text, const Arguments &arguments)
{
    Text out(owner.budget());
    Braces(owner, arguments).append(out, text.text(), 0);
    return owner.heap().string(out.release(), text.as<StringObject>().safe);
}

} // namespace engine::jinja
