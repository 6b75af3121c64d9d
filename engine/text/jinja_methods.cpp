// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace engine::jinja {
namespace {

/// Whether all characters pass; false for an empty text.
template<bool (*passes)(char32_t)> Value every(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    owner.budget().steps(self.text().size() / 2);
    const std::string_view text = self.text();
    for (std::size_t at = 0; at < text.size();) {
        if (!passes(nextChar(text, at)))
            return Value::boolean(false);
    }
    return Value::boolean(!text.empty());
}

bool isAlnum(char32_t c)
{
    return isAlpha(c) || isNumeric(c);
}

Value isAscii(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    owner.budget().steps(self.text().size() / 4);
    const auto &text = self.text();
    return Value::boolean(
        std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
}

Value isPrintableText(Interpreter &owner, const Value &self, Arguments &arguments)
{
    return self.text().empty() ? Value::boolean(true) : every<isPrintable>(owner, self, arguments);
}

Value isIdentifierText(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    owner.budget().steps(self.text().size());
    return Value::boolean(isIdentifier(self.text()));
}

/// At least one cased character, and none of the other case.
template<bool wantUpper> Value isCase(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    owner.budget().steps(self.text().size() / 2);
    const std::string_view text = self.text();
    bool found = false;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = nextChar(text, at);
        if (isTitle(c) || (wantUpper ? isLower(c) : isUpper(c)))
            return Value::boolean(false);
        found = found || (wantUpper ? isUpper(c) : isLower(c));
    }
    return Value::boolean(found);
}

Value isTitled(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    owner.budget().steps(self.text().size() / 2);
    const std::string_view text = self.text();
    bool found = false;
    bool inWord = false;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = nextChar(text, at);
        const bool begins = isUpper(c) || isTitle(c);
        if ((begins && inWord) || (isLower(c) && !inWord))
            return Value::boolean(false);
        inWord = begins || isLower(c);
        found = found || inWord;
    }
    return Value::boolean(found);
}

Value dictGet(Interpreter &, const Value &self, Arguments &arguments)
{
    const Bound bound("get", arguments, {"key", "default"}, 1);
    if (const Value *found = self.as<DictObject>().find(bound[0]))
        return *found;
    return bound.has(1) ? bound[1] : Value::none();
}

template<DictViewObject::Part part> Value dictView(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("a view of dict", arguments);
    return Value(owner.heap().make<DictViewObject>(0, self, part).get());
}

Value copy(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    // Nothing can change a list or a dictionary, so a copy is the thing itself.
    return self;
}

Value sequenceCount(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("count", arguments, {"value"}, 1);
    const Items items(owner.heap(), self);
    std::int64_t out = 0;
    for (std::size_t i = 0; i < items.size(); ++i)
        out += equals(owner.heap(), items.at(i), bound[0]) ? 1 : 0;
    return Value::integer(out);
}

Value sequenceIndex(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("index", arguments, {"value", "start", "stop"}, 1);
    const Items items(owner.heap(), self);
    const auto length = static_cast<std::int64_t>(items.size());
    const auto clamp = [length](std::int64_t index) {
        return index < 0 ? std::max<std::int64_t>(0, index < -length ? 0 : index + length) : std::min(index, length);
    };
    const std::int64_t stop = clamp(bound.integer(2, length));
    for (std::int64_t i = clamp(bound.integer(1, 0)); i < stop; ++i) {
        if (equals(owner.heap(), items.at(static_cast<std::size_t>(i)), bound[0]))
            return Value::integer(i);
    }
    fail(reprOf(owner.heap(), bound[0]) + " is not in " + typeName(self));
}

Value bitLength(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    const BigInt number = toBigInt(self);
    const std::string bits = number.toString(2);
    return Value::integer(number.isZero() ? 0 : static_cast<std::int64_t>(bits.size()) - (number.negative() ? 1 : 0));
}

Value isWhole(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    const double value = self.asDouble();
    return Value::boolean(std::isfinite(value) && value == std::trunc(value));
}

Value itself(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    return self.is(Kind::Bool) ? Value::integer(self.asInt()) : self;
}

Value decode(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("decode", arguments, {"encoding", "errors"});
    if (invalidUtf8(self.text()) != std::string_view::npos)
        fail("'utf-8' codec can't decode the bytes: invalid byte");
    Text out(owner.budget());
    out.append(self.text());
    return owner.heap().string(out.release());
}

Value cyclerNext(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    CyclerObject &cycler = self.as<CyclerObject>();
    Value out = cycler.items[cycler.position];
    cycler.position = (cycler.position + 1) % cycler.items.size();
    return out;
}

Value cyclerReset(Interpreter &, const Value &self, Arguments &arguments)
{
    requireNoArguments("the method", arguments);
    self.as<CyclerObject>().position = 0;
    return Value::none();
}

Value loopCycle(Interpreter &, const Value &self, Arguments &arguments)
{
    if (arguments.positional.empty())
        fail("no items for cycling given");
    return arguments.positional[self.as<LoopObject>().index % arguments.positional.size()];
}

Value loopChanged(Interpreter &owner, const Value &self, Arguments &arguments)
{
    LoopObject &loop = self.as<LoopObject>();
    const Value now = owner.heap().tuple(std::move(arguments.positional));
    if (!loop.lastChanged.isUndefined() && equals(owner.heap(), loop.lastChanged, now))
        return Value::boolean(false);
    loop.lastChanged = now;
    return Value::boolean(true);
}

constexpr Method kDictMethods[] = {
    {"get", dictGet},
    {"items", dictView<DictViewObject::Part::Items>},
    {"keys", dictView<DictViewObject::Part::Keys>},
    {"values", dictView<DictViewObject::Part::Values>},
    {"copy", copy},
};
constexpr Method kListMethods[] = {{"count", sequenceCount}, {"index", sequenceIndex}, {"copy", copy}};
constexpr Method kIntMethods[] = {{"bit_length", bitLength}, {"conjugate", itself}};
constexpr Method kFloatMethods[] = {{"is_integer", isWhole}, {"conjugate", itself}};
constexpr Method kBytesMethods[] = {{"decode", decode}};
constexpr Method kCyclerMethods[] = {{"next", cyclerNext}, {"reset", cyclerReset}};
constexpr Method kLoopMethods[] = {{"cycle", loopCycle}, {"changed", loopChanged}};

} // namespace

std::span<const Method> textPredicates()
{
    static constexpr Method all[] = {
        {"isalpha", every<isAlpha>},
        {"isdecimal", every<isDecimal>},
        {"isdigit", every<isDigit>},
        {"isnumeric", every<isNumeric>},
        {"isalnum", every<isAlnum>},
        {"isspace", every<isSpace>},
        {"isascii", isAscii},
        {"isprintable", isPrintableText},
        {"isidentifier", isIdentifierText},
        {"isupper", isCase<true>},
        {"islower", isCase<false>},
        {"istitle", isTitled},
    };
    return all;
}

std::span<const Method> methodsOf(Kind kind)
{
    switch (kind) {
    case Kind::Dict:
        return kDictMethods;
    case Kind::List:
        return kListMethods;
    case Kind::Tuple:
    case Kind::Range:
        return std::span(kListMethods).first(2);
    case Kind::Bool:
    case Kind::Int:
    case Kind::BigInt:
        return kIntMethods;
    case Kind::Float:
        return kFloatMethods;
    case Kind::Bytes:
        return kBytesMethods;
    case Kind::Cycler:
        return kCyclerMethods;
    case Kind::Loop:
        return kLoopMethods;
    default:
        return {};
    }
}

} // namespace engine::jinja
