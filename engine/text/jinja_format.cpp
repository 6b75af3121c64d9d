// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_format.h"

#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace engine::jinja {
namespace {

// No double has more digits than this that are not zero.
constexpr std::int64_t kMaxPrecision = 1100;

std::string grouped(std::string digits, char separator, std::size_t every)
{
    for (std::size_t at = digits.size(); separator != '\0' && at > every;) {
        at -= every;
        digits.insert(at, 1, separator);
    }
    return digits;
}

/// Zeros in front of digits that will be grouped, so that the groups fill the field as Python fills it.
void padGrouped(Budget &budget, std::string &digits, std::size_t signSize, const FieldStyle &style, std::size_t every)
{
    const auto taken = static_cast<std::int64_t>(signSize);
    if (style.grouping == '\0' || style.align != '=' || style.fill != "0" || style.width <= taken)
        return;
    const auto room = static_cast<std::size_t>(style.width - taken);
    budget.take(room);
    budget.giveBack(room);
    // n digits take n + (n - 1) / every places; the field may be one wider where it would begin with a separator.
    std::size_t wanted = room - room / (every + 1);
    wanted += wanted + (wanted - 1) / every < room ? 1 : 0;
    if (digits.size() < wanted)
        digits.insert(0, wanted - digits.size(), '0');
}

std::string signOf(bool negative, char style)
{
    return negative ? "-" : (style == '-' ? "" : std::string(1, style));
}

void appendNumber(Text &out, const std::string &sign, const std::string &digits, const FieldStyle &style)
{
    if (style.align != '=')
        return appendField(out, sign + digits, style, '>');
    const auto used = static_cast<std::int64_t>(sign.size() + digits.size());
    out.append(sign);
    if (style.width > used)
        out.repeat(style.fill, static_cast<std::size_t>(style.width - used));
    out.append(digits);
}

std::string floatDigits(double magnitude, char type, int precision)
{
    const std::chars_format format = type == 'f' ? std::chars_format::fixed
        : type == 'e'                            ? std::chars_format::scientific
                                                 : std::chars_format::general;
    std::array<char, 1600> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, format, precision);
    return {buffer.data(), end.ptr};
}

/// The parser of one printf-style text.
class Percent {
public:
    Percent(Heap &heap, const Value &format, const Value &values)
        : m_heap(heap)
        , m_format(format.text())
        , m_values(values)
        , m_isTuple(values.is(Kind::Tuple))
        , m_safe(format.as<StringObject>().safe)
    {
    }

    Value run()
    {
        Text out(m_heap.budget());
        while (m_at < m_format.size()) {
            const std::size_t next = std::min(m_format.find('%', m_at), m_format.size());
            out.append(m_format.substr(m_at, next - m_at));
            m_at = next + 1;
            if (next < m_format.size())
                directive(out);
        }
        // Python asks no more of values that can be subscripted.
        const bool isMapping = m_values.is(Kind::Dict) || m_values.is(Kind::List) || m_values.is(Kind::Range);
        const std::size_t given = m_isTuple ? m_values.items().size() : 1;
        if (!isMapping && m_used < given)
            fail("not all arguments converted during string formatting");
        return m_heap.string(out.release(), m_safe);
    }

private:
    char peek() const
    {
        if (m_at >= m_format.size())
            fail("incomplete format: a % directive ends too early");
        return m_format[m_at];
    }

    Value nextValue()
    {
        if (m_isTuple && m_used < m_values.items().size())
            return m_values.items()[m_used++];
        if (m_isTuple || m_used > 0)
            fail("not enough arguments for format string");
        ++m_used;
        return m_values;
    }

    void readKey()
    {
        m_key.reset();
        if (peek() != '(')
            return;
        const std::size_t end = m_format.find(')', m_at);
        if (end == std::string_view::npos)
            fail("incomplete format key: a % directive lacks its )");
        if (!m_values.is(Kind::Dict))
            fail("format requires a mapping");
        const std::string_view key = m_format.substr(m_at + 1, end - m_at - 1);
        const Value *found = m_values.as<DictObject>().find(key);
        if (found == nullptr)
            fail("the format names the key " + reprText(key) + ", which the mapping lacks");
        m_key = *found;
        m_at = end + 1;
    }

    std::int64_t readNumber()
    {
        if (peek() == '*') {
            ++m_at;
            const Value value = nextValue();
            if (!value.isInteger())
                fail("* wants an integer in a format");
            return clampToInt64(value);
        }
        std::int64_t out = 0;
        for (; peek() >= '0' && peek() <= '9'; ++m_at) {
            out = out * 10 + (peek() - '0');
            if (out > 0x7fffffff)
                fail("the width or precision in a format is too large");
        }
        return out;
    }

    FieldStyle readStyle()
    {
        FieldStyle style;
        bool zero = false;
        for (; std::string_view("-+ #0").find(peek()) != std::string_view::npos; ++m_at) {
            if (peek() == '-')
                style.align = '<';
            else if (peek() == '+' || (peek() == ' ' && style.sign != '+'))
                style.sign = peek();
            else if (peek() == '#')
                style.alternate = true;
            else if (peek() == '0')
                zero = true;
        }
        style.width = readNumber();
        if (style.width < 0) {
            style.align = '<';
            style.width = style.width < -0x7fffffff ? 0x7fffffff : -style.width;
        }
        if (peek() == '.') {
            ++m_at;
            style.precision = std::max<std::int64_t>(0, readNumber());
        }
        if (std::string_view("hlL").find(peek()) != std::string_view::npos)
            ++m_at;
        style.type = peek();
        if (zero && style.align == '\0') {
            style.align = '=';
            style.fill = "0";
        }
        return style;
    }

    void directive(Text &out)
    {
        readKey();
        FieldStyle style = readStyle();
        const std::size_t place = m_at++;
        if (style.type == '%')
            return out.append('%');
        switch (style.type) {
        case 'd':
        case 'i':
        case 'u':
        case 'o':
        case 'x':
        case 'X':
            return integer(out, style);
        case 'e':
        case 'E':
        case 'f':
        case 'F':
        case 'g':
        case 'G':
            return real(out, style);
        case 'c':
        case 's':
        case 'r':
        case 'a':
            return text(out, style);
        default:
            fail("unsupported format character '" + std::string(1, style.type) + "' at index " + std::to_string(place));
        }
    }

    Value value() { return m_key ? *m_key : nextValue(); }

    void integer(Text &out, FieldStyle style)
    {
        Value number = value();
        requireDefined(number);
        const bool isDecimal = std::string_view("diu").find(style.type) != std::string_view::npos;
        if (number.is(Kind::Float) && isDecimal)
            number = truncate(m_heap, number.asDouble());
        if (!number.isInteger())
            fail(std::string("%") + style.type + " format: a " + (isDecimal ? "real number" : "n integer")
                 + " is required, not " + typeName(number));
        if (isDecimal)
            style.type = 'd';
        appendInteger(out, m_heap, number, style);
    }

    void real(Text &out, const FieldStyle &style)
    {
        const Value number = value();
        requireDefined(number);
        if (!number.isNumber())
            fail(std::string("a number is required by the format %") + style.type + ", not " + typeName(number));
        appendFloat(out, toDouble(number), style);
    }

    void text(Text &out, FieldStyle style)
    {
        const Value given = value();
        std::string shown;
        if (style.type == 'c')
            shown = character(given);
        else if (style.type == 's' && m_safe)
            shown = escapeHtml(m_heap, given).text();
        else
            shown = style.type == 's' ? textOf(m_heap, given) : reprOf(m_heap, given);
        if (style.precision >= 0)
            shown.resize(byteOffset(shown, style.precision));
        style.fill = " ";
        if (style.align == '=')
            style.align = '>';
        appendField(out, shown, style, '>');
    }

    static std::string character(const Value &given)
    {
        std::string out;
        if (given.isString() && countChars(given.text()) == 1)
            return given.text();
        if (!given.isSmallInt() || given.asInt() < 0 || given.asInt() > 0x10FFFF || (given.asInt() >> 11) == 0x1B)
            fail("%c of a format requires an int in the range of Unicode, or a single character");
        appendChar(out, static_cast<char32_t>(given.asInt()));
        return out;
    }

    Heap &m_heap;
    std::string_view m_format;
    const Value &m_values;
    bool m_isTuple;
    bool m_safe;
    std::size_t m_at = 0;
    std::size_t m_used = 0;
    std::optional<Value> m_key;
};

} // namespace

void appendField(Text &out, std::string_view text, const FieldStyle &style, char defaultAlign)
{
    const std::int64_t missing = style.width - countChars(text);
    const auto padding = static_cast<std::size_t>(std::max<std::int64_t>(0, missing));
    const char align = style.align == '\0' ? defaultAlign : style.align;
    const std::size_t left = align == '>' || align == '=' ? padding : (align == '^' ? padding / 2 : 0);
    out.repeat(style.fill, left);
    out.append(text);
    out.repeat(style.fill, padding - left);
}

void appendInteger(Text &out, Heap &heap, const Value &integer, const FieldStyle &style)
{
    std::string digits;
    const char type = static_cast<char>(style.type | 0x20);
    const unsigned base = type == 'b' ? 2 : (type == 'o' ? 8 : (type == 'x' ? 16 : 10));
    if (base == 10) {
        digits = digitsOf(heap, integer);
    } else {
        const BigInt number = toBigInt(integer);
        heap.budget().steps(1 + number.words() * number.words());
        digits = number.toString(base);
    }
    const bool negative = digits[0] == '-';
    digits.erase(0, negative ? 1 : 0);
    if (style.type == 'X')
        digits = toUpper(digits);
    if (style.precision > 0) {
        const std::int64_t zeros = style.precision - static_cast<std::int64_t>(digits.size());
        Text padded(heap.budget());
        padded.repeat("0", static_cast<std::size_t>(std::max<std::int64_t>(0, zeros)));
        padded.append(digits);
        digits = padded.release();
    }
    std::string sign = signOf(negative, style.sign);
    if (style.alternate && base != 10)
        (sign += '0') += style.type;
    const std::size_t every = base == 10 ? 3 : 4;
    padGrouped(heap.budget(), digits, sign.size(), style, every);
    appendNumber(out, sign, grouped(std::move(digits), style.grouping, every), style);
}

void appendFloat(Text &out, double value, const FieldStyle &style)
{
    const bool isPercent = style.type == '%';
    const char type = isPercent ? 'f' : static_cast<char>(style.type | 0x20);
    const double magnitude = std::fabs(isPercent ? value * 100 : value);
    const std::int64_t precision = style.precision < 0 ? 6 : style.precision;
    const std::string sign = signOf(std::signbit(value) && !std::isnan(value), style.sign);
    std::string digits;
    if (!std::isfinite(magnitude)) {
        digits = std::isnan(magnitude) ? "nan" : "inf";
    } else {
        if (precision > kMaxPrecision)
            fail("the precision " + std::to_string(precision) + " in a format is over the limit of "
                 + std::to_string(kMaxPrecision));
        digits = floatDigits(magnitude, type, static_cast<int>(type == 'g' && precision == 0 ? 1 : precision));
        const std::size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
        const std::string rest = digits.substr(whole);
        digits.resize(whole);
        padGrouped(out.budget(), digits, sign.size() + rest.size() + (isPercent ? 1 : 0), style, 3);
        digits = grouped(digits, style.grouping, 3) + rest;
    }
    if (style.type == 'E' || style.type == 'G' || style.type == 'F')
        digits = toUpper(digits);
    if (isPercent)
        digits += '%';
    appendNumber(out, sign, digits, style);
}

Value formatPercent(Heap &heap, const Value &text, const Value &values)
{
    return Percent(heap, text, values).run();
}

} // namespace engine::jinja
