// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arithmetic.h"

#include "engine/text/jinja_format.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_text.h"

#include <cmath>
#include <limits>

namespace engine::jinja {
namespace {

// Python refuses to print longer integers (sys.int_info.default_max_str_digits); 4300 digits are 447 words.
constexpr std::size_t kMaxPrintedWords = 447;
constexpr std::size_t kMaxPrintedDigits = 4300;

const char *sign(Operator op)
{
    switch (op) {
    case Operator::Add:
        return "+";
    case Operator::Subtract:
        return "-";
    case Operator::Multiply:
        return "*";
    case Operator::Divide:
        return "/";
    case Operator::FloorDivide:
        return "//";
    case Operator::Modulo:
        return "%";
    case Operator::Power:
        return "** or pow()";
    }
    return "";
}

[[noreturn]] void failTypes(Operator op, const Value &a, const Value &b)
{
    if (op == Operator::Add && (a.isString() || a.isSequence())) {
        const std::string name = typeName(a);
        fail("can only concatenate " + name + " (not \"" + typeName(b) + "\") to " + name);
    }
    fail(std::string("unsupported operand type(s) for ") + sign(op) + ": '" + typeName(a) + "' and '" + typeName(b)
         + "'");
}

std::optional<std::int64_t> smallResult(Operator op, std::int64_t a, std::int64_t b)
{
    std::int64_t out = 0;
    bool overflow = false;
    switch (op) {
    case Operator::Add:
        overflow = __builtin_add_overflow(a, b, &out);
        break;
    case Operator::Subtract:
        overflow = __builtin_sub_overflow(a, b, &out);
        break;
    case Operator::Multiply:
        overflow = __builtin_mul_overflow(a, b, &out);
        break;
    case Operator::FloorDivide:
    case Operator::Modulo: {
        if (b == -1 || b == 0)
            return std::nullopt;
        const std::int64_t rest = a % b;
        const bool adjust = rest != 0 && (rest < 0) != (b < 0);
        out = op == Operator::Modulo ? rest + (adjust ? b : 0) : a / b - (adjust ? 1 : 0);
        break;
    }
    default:
        return std::nullopt;
    }
    return overflow ? std::nullopt : std::optional(out);
}

BigInt power(Heap &heap, BigInt base, std::int64_t exponent)
{
    // The size of the result is known before the work begins.
    const std::size_t words = (base.words() + 1) * static_cast<std::size_t>(exponent);
    const bool trivial = base.isZero() || base == BigInt(1) || base == BigInt(-1);
    if (!trivial && static_cast<std::size_t>(exponent) > (std::size_t{1} << 24U))
        heap.budget().take(std::numeric_limits<std::size_t>::max());
    BigInt out(1);
    if (trivial)
        return base.isZero() ? BigInt(exponent == 0 ? 1 : 0) : (exponent % 2 == 0 ? out : base);
    heap.budget().steps(words / 4);
    for (; exponent > 0; exponent >>= 1) {
        heap.budget().steps(1 + (out.words() + base.words()) * base.words());
        if ((exponent & 1) != 0)
            out = out * base;
        if (exponent > 1)
            base = base * base;
    }
    return out;
}

Value bigResult(Heap &heap, Operator op, const Value &a, const Value &b)
{
    const BigInt x = toBigInt(a);
    const BigInt y = toBigInt(b);
    heap.budget().steps(1 + x.words() * y.words() + x.words() + y.words());
    switch (op) {
    case Operator::Add:
        return heap.integer(x + y);
    case Operator::Subtract:
        return heap.integer(x - y);
    case Operator::Multiply:
        return heap.integer(x * y);
    case Operator::FloorDivide:
    case Operator::Modulo: {
        if (y.isZero())
            fail(op == Operator::Modulo ? "integer modulo by zero" : "integer division or modulo by zero");
        auto [quotient, remainder] = BigInt::divideFloor(x, y);
        return heap.integer(op == Operator::Modulo ? std::move(remainder) : std::move(quotient));
    }
    default:
        return heap.integer(power(heap, x, clampToInt64(b)));
    }
}

double floorModulo(double a, double b, bool wantQuotient)
{
    if (b == 0)
        fail(wantQuotient ? "float floor division by zero" : "float modulo by zero");
    double rest = std::fmod(a, b);
    if (!wantQuotient) {
        if (rest != 0 && (rest < 0) != (b < 0))
            return rest + b;
        return rest == 0 ? std::copysign(0.0, b) : rest;
    }
    double quotient = (a - rest) / b;
    if (rest != 0 && (rest < 0) != (b < 0))
        quotient -= 1;
    return quotient == 0 ? std::copysign(0.0, a / b)
                         : (quotient - std::floor(quotient) > 0.5 ? std::ceil(quotient) : std::floor(quotient));
}

double floatPower(double a, double b)
{
    if (a == 0 && b < 0)
        fail("0.0 cannot be raised to a negative power (division by zero)");
    if (a < 0 && std::isfinite(b) && b != std::floor(b))
        fail("a negative number cannot be raised to a fractional power: complex numbers are not supported");
    const double out = std::pow(a, b);
    if (std::isinf(out) && std::isfinite(a) && std::isfinite(b))
        fail("the result of ** is too large for a float (overflow)");
    return out;
}

double floatResult(Operator op, double a, double b)
{
    switch (op) {
    case Operator::Add:
        return a + b;
    case Operator::Subtract:
        return a - b;
    case Operator::Multiply:
        return a * b;
    case Operator::Divide:
        if (b == 0)
            fail("float division by zero");
        return a / b;
    case Operator::Power:
        return floatPower(a, b);
    default:
        return floorModulo(a, b, op == Operator::FloorDivide);
    }
}

Value divideIntegers(const Value &a, const Value &b)
{
    const double by = toDouble(b);
    if (by == 0)
        fail("division by zero");
    if (a.isSmallInt() && b.isSmallInt())
        return Value::real(
            static_cast<double>(static_cast<long double>(a.asInt()) / static_cast<long double>(b.asInt())));
    return Value::real(toDouble(a) / by);
}

Value numbers(Heap &heap, Operator op, const Value &a, const Value &b)
{
    if (!a.isInteger() || !b.isInteger())
        return Value::real(floatResult(op, toDouble(a), toDouble(b)));
    if (op == Operator::Divide)
        return divideIntegers(a, b);
    if (op == Operator::Power && *compareNumbers(b, Value::integer(0)) < 0)
        return Value::real(floatPower(toDouble(a), toDouble(b)));
    if (a.isSmallInt() && b.isSmallInt()) {
        if (const auto out = smallResult(op, a.asInt(), b.asInt()))
            return Value::integer(*out);
    }
    return bigResult(heap, op, a, b);
}

std::optional<Value> concatenate(Heap &heap, const Value &a, const Value &b)
{
    if (a.isString() && b.isString()) {
        const bool safe = a.as<StringObject>().safe || b.as<StringObject>().safe;
        Text out(heap.budget());
        appendEscapedIf(out, a, safe);
        appendEscapedIf(out, b, safe);
        return heap.string(out.release(), safe);
    }
    if (!a.isSequence() || a.kind() != b.kind())
        return std::nullopt;
    heap.budget().take((a.items().size() + b.items().size()) * sizeof(Value));
    heap.budget().giveBack((a.items().size() + b.items().size()) * sizeof(Value));
    std::vector<Value> items = a.items();
    items.insert(items.end(), b.items().begin(), b.items().end());
    return a.is(Kind::List) ? heap.list(std::move(items)) : heap.tuple(std::move(items));
}

std::optional<Value> repeat(Heap &heap, const Value &a, const Value &b)
{
    const Value &what = a.isInteger() ? b : a;
    const Value &times = a.isInteger() ? a : b;
    if (!times.isInteger() || !(what.isString() || what.isSequence()))
        return std::nullopt;
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(0, clampToInt64(times)));
    if (what.isString()) {
        Text out(heap.budget());
        out.repeat(what.text(), count);
        return heap.string(out.release(), what.as<StringObject>().safe);
    }
    const std::size_t each = what.items().size();
    if (each != 0 && count > (std::size_t{1} << 40U) / each)
        heap.budget().take(std::numeric_limits<std::size_t>::max());
    heap.budget().take(count * each * sizeof(Value));
    heap.budget().giveBack(count * each * sizeof(Value));
    std::vector<Value> items;
    items.reserve(count * each);
    for (std::size_t i = 0; i < count && each != 0; ++i)
        items.insert(items.end(), what.items().begin(), what.items().end());
    return what.is(Kind::List) ? heap.list(std::move(items)) : heap.tuple(std::move(items));
}

} // namespace

Value arithmetic(Heap &heap, Operator op, const Value &a, const Value &b)
{
    if (a.isNumber() && b.isNumber())
        return numbers(heap, op, a, b);
    if (op == Operator::Modulo && a.isString())
        return formatPercent(heap, a, b);
    requireDefined(a);
    requireDefined(b);
    std::optional<Value> out;
    if (op == Operator::Add)
        out = concatenate(heap, a, b);
    else if (op == Operator::Multiply)
        out = repeat(heap, a, b);
    if (!out)
        failTypes(op, a, b);
    return *out;
}

Value negate(Heap &heap, const Value &value)
{
    requireDefined(value);
    if (value.is(Kind::Float))
        return Value::real(-value.asDouble());
    if (!value.isInteger())
        fail(std::string("bad operand type for unary -: '") + typeName(value) + "'");
    if (value.isSmallInt() && value.asInt() != std::numeric_limits<std::int64_t>::min())
        return Value::integer(-value.asInt());
    return heap.integer(-toBigInt(value));
}

BigInt toBigInt(const Value &integer)
{
    return integer.isSmallInt() ? BigInt(integer.asInt()) : integer.as<BigIntObject>().number;
}

double toDouble(const Value &number)
{
    if (number.is(Kind::Float))
        return number.asDouble();
    if (number.isSmallInt())
        return static_cast<double>(number.asInt());
    const double out = number.as<BigIntObject>().number.toDouble();
    if (std::isinf(out))
        fail("int too large to convert to float (overflow)");
    return out;
}

Value truncate(Heap &heap, double value)
{
    if (std::isnan(value))
        fail("cannot convert float NaN to integer");
    if (std::isinf(value))
        fail("cannot convert float infinity to integer");
    return heap.integer(BigInt::fromDouble(value));
}

std::int64_t clampToInt64(const Value &integer)
{
    if (integer.isSmallInt())
        return integer.asInt();
    return integer.as<BigIntObject>().number.negative() ? std::numeric_limits<std::int64_t>::min()
                                                        : std::numeric_limits<std::int64_t>::max();
}

std::optional<int> compareNumbers(const Value &a, const Value &b)
{
    if (a.isSmallInt() && b.isSmallInt())
        return a.asInt() < b.asInt() ? -1 : (a.asInt() > b.asInt() ? 1 : 0);
    if (a.isInteger() && b.isInteger()) {
        const auto order = toBigInt(a) <=> toBigInt(b);
        return order < 0 ? -1 : (order > 0 ? 1 : 0);
    }
    if (b.isInteger()) {
        const auto flipped = compareNumbers(b, a);
        return flipped ? std::optional(-*flipped) : std::nullopt;
    }
    const double y = b.asDouble();
    if (std::isnan(y) || (a.is(Kind::Float) && std::isnan(a.asDouble())))
        return std::nullopt;
    if (a.is(Kind::Float))
        return a.asDouble() < y ? -1 : (a.asDouble() > y ? 1 : 0);
    if (std::isinf(y))
        return y > 0 ? -1 : 1;
    // Exact: the integer against the float's integer part, then the fraction decides.
    const auto order = toBigInt(a) <=> BigInt::fromDouble(y);
    if (order != 0)
        return order < 0 ? -1 : 1;
    const double fraction = y - std::trunc(y);
    return fraction > 0 ? -1 : (fraction < 0 ? 1 : 0);
}

std::string digitsOf(Heap &heap, const Value &integer)
{
    if (integer.isSmallInt())
        return std::to_string(integer.asInt());
    const BigInt &number = integer.as<BigIntObject>().number;
    if (number.words() <= kMaxPrintedWords) {
        heap.budget().steps(number.words() * number.words());
        std::string out = number.toString();
        if (out.size() <= kMaxPrintedDigits + (number.negative() ? 1 : 0))
            return out;
    }
    fail("exceeds the limit (4300 digits) for integer string conversion");
}

} // namespace engine::jinja
