// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace engine::jinja {
namespace {

// Beyond these a double has no digits left to round.
constexpr std::int64_t kMaxDecimals = 330;
// Longer texts are no numbers that Python would read (its limit is 4300 digits).
constexpr std::size_t kMaxNumberText = 4400;

/// The text in ASCII without the underscores that may stand between digits; nothing when one stands elsewhere.
std::optional<std::string> plainNumber(std::string_view text)
{
    if (text.size() > kMaxNumberText)
        return std::nullopt;
    text = stripSpace(text, Ends::Both);
    std::string out;
    bool previousIsDigit = false;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = nextChar(text, at);
        const int digit = digitValue(c);
        if (c == '_') {
            if (!previousIsDigit || at >= text.size() || text[at] == '_')
                return std::nullopt;
            previousIsDigit = false;
            continue;
        }
        if (c >= 0x80 && digit < 0)
            return std::nullopt;
        const bool isLetter = c < 0x80 && ((c | 0x20U) >= 'a' && (c | 0x20U) <= 'z');
        out += digit >= 0 ? static_cast<char>('0' + digit) : static_cast<char>(c);
        previousIsDigit = digit >= 0 || isLetter;
    }
    return out;
}

std::optional<Value> parseInteger(Heap &heap, std::string_view text, std::int64_t base)
{
    auto plain = plainNumber(text);
    if (!plain || plain->empty())
        return std::nullopt;
    std::string_view digits = *plain;
    const bool negative = digits[0] == '-';
    if (negative || digits[0] == '+')
        digits.remove_prefix(1);
    const char kind = digits.size() > 2 && digits[0] == '0' ? static_cast<char>(digits[1] | 0x20) : '\0';
    const std::int64_t named = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 0));
    if (named != 0 && (base == 0 || base == named)) {
        digits.remove_prefix(2);
        base = named;
    } else if (base == 0) {
        base = 10;
    }
    const bool valid = !digits.empty() && std::all_of(digits.begin(), digits.end(), [base](char c) {
        const int value =
            c >= '0' && c <= '9' ? c - '0' : ((c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? (c | 0x20) - 'a' + 10 : 99);
        return value < base;
    });
    if (!valid)
        return std::nullopt;
    heap.budget().steps(digits.size() * digits.size() / 64);
    const BigInt number = BigInt::fromDigits(digits, static_cast<unsigned>(base));
    return heap.integer(negative ? -number : number);
}

std::optional<double> parseFloat(std::string_view text)
{
    auto plain = plainNumber(text);
    if (!plain || plain->empty())
        return std::nullopt;
    std::string lower = toLower(*plain);
    const bool negative = lower[0] == '-';
    if (negative || lower[0] == '+')
        lower.erase(0, 1);
    if (lower == "inf" || lower == "infinity")
        return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    if (lower == "nan")
        return std::numeric_limits<double>::quiet_NaN();
    if (lower.empty() || !(lower[0] == '.' || (lower[0] >= '0' && lower[0] <= '9')))
        return std::nullopt;
    double out = 0;
    const auto read = std::from_chars(lower.data(), lower.data() + lower.size(), out);
    if (read.ptr != lower.data() + lower.size() || read.ec == std::errc::invalid_argument)
        return std::nullopt;
    if (read.ec == std::errc::result_out_of_range)
        out = lower.find("e-") != std::string::npos ? 0 : std::numeric_limits<double>::infinity();
    return negative ? -out : out;
}

/// float(value) of Python; nothing where it raises TypeError or ValueError.
std::optional<double> asFloat(const Value &value)
{
    requireDefined(value);
    if (value.isString())
        return parseFloat(value.text());
    return value.isNumber() ? std::optional(toDouble(value)) : std::nullopt;
}

Value toInt(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("int", arguments, {"default", "base"});
    requireDefined(input);
    const std::int64_t base = bound.integer(1, 10);
    const Value absent = bound.has(0) ? bound[0] : Value::integer(0);
    if (input.isString() && (base == 0 || (base >= 2 && base <= 36))) {
        if (const auto number = parseInteger(owner.heap(), input.text(), base))
            return *number;
    }
    if (input.isInteger())
        return input.is(Kind::Bool) ? Value::integer(input.asInt()) : input;
    const auto real = asFloat(input);
    return real && std::isfinite(*real) ? truncate(owner.heap(), *real) : absent;
}

Value toFloat(Interpreter &, const Value &input, Arguments &arguments)
{
    const Bound bound("float", arguments, {"default"});
    const auto real = asFloat(input);
    if (real)
        return Value::real(*real);
    return bound.has(0) ? bound[0] : Value::real(0);
}

Value absolute(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("abs", arguments);
    requireDefined(input);
    if (!input.isNumber())
        fail(std::string("bad operand type for abs(): '") + typeName(input) + "'");
    if (input.is(Kind::Float))
        return Value::real(std::fabs(input.asDouble()));
    const bool negative = less(owner.heap(), input, Value::integer(0));
    return negative ? negate(owner.heap(), input) : arithmetic(owner.heap(), Operator::Add, input, Value::integer(0));
}

double roundHalfEven(double value, std::int64_t decimals)
{
    if (!std::isfinite(value) || decimals > kMaxDecimals)
        return value;
    if (decimals < -kMaxDecimals)
        return std::copysign(0.0, value);
    if (decimals < 0) {
        const double scale = std::pow(10.0, static_cast<double>(-decimals));
        return std::nearbyint(value / scale) * scale;
    }
    // Printing rounds the exact binary value, which scaling would spoil.
    std::array<char, 800> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed,
                                   static_cast<int>(decimals));
    double out = 0;
    std::from_chars(buffer.data(), end.ptr, out);
    return out;
}

Value roundInteger(Heap &heap, const Value &value, std::int64_t decimals)
{
    if (decimals >= 0)
        return arithmetic(heap, Operator::Add, value, Value::integer(0));
    if (decimals < -4300)
        return Value::integer(0);
    const Value scale = arithmetic(heap, Operator::Power, Value::integer(10), Value::integer(-decimals));
    const Value rest = arithmetic(heap, Operator::Modulo, value, scale);
    const Value down = arithmetic(heap, Operator::Subtract, value, rest);
    const Value twice = arithmetic(heap, Operator::Multiply, rest, Value::integer(2));
    const Value quotient = arithmetic(heap, Operator::FloorDivide, value, scale);
    const bool isOdd = truth(heap, arithmetic(heap, Operator::Modulo, quotient, Value::integer(2)));
    const bool up = less(heap, scale, twice) || (equals(heap, scale, twice) && isOdd);
    return up ? arithmetic(heap, Operator::Add, down, scale) : down;
}

Value round(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("round", arguments, {"precision", "method"});
    const std::string method = bound.has(1) ? textOf(owner.heap(), bound[1]) : "common";
    if (method != "common" && method != "ceil" && method != "floor")
        fail("round: method must be common, ceil or floor");
    requireDefined(input);
    if (!input.isNumber())
        fail(std::string("round: type ") + typeName(input) + " doesn't define __round__ method");
    const std::int64_t decimals = bound.integer(0, 0);
    Heap &heap = owner.heap();
    if (method == "common")
        return input.is(Kind::Float) ? Value::real(roundHalfEven(input.asDouble(), decimals))
                                     : roundInteger(heap, input, decimals);
    const Value scale = arithmetic(heap, Operator::Power, Value::integer(10), Value::integer(decimals));
    const Value scaled = arithmetic(heap, Operator::Multiply, input, scale);
    Value whole = scaled;
    if (scaled.is(Kind::Float))
        whole = truncate(heap, method == "ceil" ? std::ceil(scaled.asDouble()) : std::floor(scaled.asDouble()));
    return arithmetic(heap, Operator::Divide, whole, scale);
}

Value sum(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("sum", arguments, {"attribute", "start"});
    Value out = bound.has(1) ? bound[1] : Value::integer(0);
    if (out.isString())
        fail("sum() can't sum strings [use ''.join(seq) instead]");
    const Items items(owner.heap(), input);
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Value item = items.at(i);
        out = arithmetic(owner.heap(), Operator::Add, out, bound.isSet(0) ? followPath(owner, item, bound[0]) : item);
    }
    return out;
}

} // namespace

std::span<const Filter> numberFilters()
{
    static constexpr Filter all[] = {
        {"int", toInt}, {"float", toFloat}, {"abs", absolute}, {"round", round}, {"sum", sum},
    };
    return all;
}

} // namespace engine::jinja
