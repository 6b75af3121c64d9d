// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_parser.h"
#include "engine/text/jinja_text.h"

#include <algorithm>

namespace engine::jinja {
namespace {

/// What follows `is`: the value before it, and the arguments after it.
struct Predicate {
    const char *name;
    bool (*function)(Interpreter &, const Value &, const std::vector<Value> &);
    std::size_t arguments;
};
using Values = std::vector<Value>;

bool isDivisible(Interpreter &owner, const Value &value, const Value &by)
{
    return !truth(owner.heap(), arithmetic(owner.heap(), Operator::Modulo, value, by));
}

bool isRemainder(Interpreter &owner, const Value &value, std::int64_t wanted)
{
    const Value rest = arithmetic(owner.heap(), Operator::Modulo, value, Value::integer(2));
    return equals(owner.heap(), rest, Value::integer(wanted));
}

bool textIs(Interpreter &owner, const Value &value, const char *method)
{
    const Value text = owner.heap().string(textOf(owner.heap(), value));
    Arguments none;
    return truth(owner.heap(), owner.call(owner.attribute(text, method), none));
}

bool isCallable(const Value &value)
{
    switch (value.kind()) {
    case Kind::Undefined:
    case Kind::Builtin:
    case Kind::Method:
    case Kind::Macro:
    case Kind::Loop:
    case Kind::Joiner:
        return true;
    default:
        return false;
    }
}

bool isSequence(Interpreter &owner, const Value &value)
{
    const bool hasItems = value.isUndefined() || value.isString() || value.is(Kind::Bytes) || value.isSequence()
        || value.is(Kind::Dict) || value.is(Kind::Range);
    return hasItems && lengthOf(owner.heap(), value).has_value();
}

/// Looks the value up as a key, which must be one that a dict can have.
bool isNameOf(Interpreter &owner, const Value &value, bool (*exists)(std::string_view))
{
    static_cast<void>(hashOf(owner.heap(), value));
    return value.isString() && exists(value.text());
}

bool isEscaped(Interpreter &, const Value &value, const Values &)
{
    return value.isString() && value.as<StringObject>().safe;
}

constexpr Predicate kPredicates[] = {
    {"defined", [](Interpreter &, const Value &v, const Values &) { return !v.isUndefined(); }, 0},
    {"undefined", [](Interpreter &, const Value &v, const Values &) { return v.isUndefined(); }, 0},
    {"none", [](Interpreter &, const Value &v, const Values &) { return v.isNone(); }, 0},
    {"boolean", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Bool); }, 0},
    {"true", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Bool) && v.asBool(); }, 0},
    {"false", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Bool) && !v.asBool(); }, 0},
    {"integer", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Int) || v.is(Kind::BigInt); }, 0},
    {"float", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Float); }, 0},
    {"number", [](Interpreter &, const Value &v, const Values &) { return v.isNumber(); }, 0},
    {"string", [](Interpreter &, const Value &v, const Values &) { return v.isString(); }, 0},
    {"mapping", [](Interpreter &, const Value &v, const Values &) { return v.is(Kind::Dict); }, 0},
    {"iterable", [](Interpreter &, const Value &v, const Values &) { return isIterable(v); }, 0},
    {"sequence", [](Interpreter &i, const Value &v, const Values &) { return isSequence(i, v); }, 0},
    {"callable", [](Interpreter &, const Value &v, const Values &) { return isCallable(v); }, 0},
    {"escaped", isEscaped, 0},
    {"lower", [](Interpreter &i, const Value &v, const Values &) { return textIs(i, v, "islower"); }, 0},
    {"upper", [](Interpreter &i, const Value &v, const Values &) { return textIs(i, v, "isupper"); }, 0},
    {"odd", [](Interpreter &i, const Value &v, const Values &) { return isRemainder(i, v, 1); }, 0},
    {"even", [](Interpreter &i, const Value &v, const Values &) { return isRemainder(i, v, 0); }, 0},
    {"divisibleby", [](Interpreter &i, const Value &v, const Values &a) { return isDivisible(i, v, a[0]); }, 1},
    {"filter", [](Interpreter &i, const Value &v, const Values &) { return isNameOf(i, v, hasFilter); }, 0},
    {"test", [](Interpreter &i, const Value &v, const Values &) { return isNameOf(i, v, hasTest); }, 0},
    {"sameas", [](Interpreter &, const Value &v, const Values &a) { return v.sameAs(a[0]); }, 1},
    {"in", [](Interpreter &i, const Value &v, const Values &a) { return contains(i.heap(), a[0], v); }, 1},
    {"eq", [](Interpreter &i, const Value &v, const Values &a) { return equals(i.heap(), v, a[0]); }, 1},
    {"ne", [](Interpreter &i, const Value &v, const Values &a) { return !equals(i.heap(), v, a[0]); }, 1},
    {"lt", [](Interpreter &i, const Value &v, const Values &a) { return less(i.heap(), v, a[0]); }, 1},
    {"gt", [](Interpreter &i, const Value &v, const Values &a) { return less(i.heap(), a[0], v, ">"); }, 1},
    {"le",
     [](Interpreter &i, const Value &v, const Values &a) {
         return less(i.heap(), v, a[0], "<=") || equals(i.heap(), v, a[0]);
     },
     1},
    {"ge",
     [](Interpreter &i, const Value &v, const Values &a) {
         return less(i.heap(), a[0], v, ">=") || equals(i.heap(), v, a[0]);
     },
     1},
};

constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"==", "eq"}, {"equalto", "eq"},     {"!=", "ne"}, {"<", "lt"},  {"lessthan", "lt"},
    {">", "gt"},  {"greaterthan", "gt"}, {"<=", "le"}, {">=", "ge"},
};

const Predicate *findPredicate(std::string_view name)
{
    for (const auto &[other, real] : kOtherNames) {
        if (other == name)
            name = real;
    }
    const auto *found = std::find_if(std::begin(kPredicates), std::end(kPredicates),
                                     [name](const Predicate &predicate) { return predicate.name == name; });
    return found == std::end(kPredicates) ? nullptr : found;
}

} // namespace

bool hasTest(std::string_view name)
{
    return findPredicate(name) != nullptr;
}

bool Interpreter::test(std::string_view name, const Value &input, Arguments &arguments)
{
    const Predicate *predicate = findPredicate(name);
    if (predicate == nullptr)
        fail("no test named " + reprText(name.substr(0, 60)) + ": it is unknown");
    for (auto &[key, value] : arguments.named)
        arguments.positional.push_back(value);
    if (arguments.positional.size() != predicate->arguments)
        fail("the test '" + std::string(name) + "' takes " + std::to_string(predicate->arguments) + " argument(s), "
             + std::to_string(arguments.positional.size()) + " given");
    budget().steps(4);
    return predicate->function(*this, input, arguments.positional);
}

} // namespace engine::jinja
