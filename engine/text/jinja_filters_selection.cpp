// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

Value takeNamed(Arguments &arguments, std::string_view name)
{
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [name](const auto &argument) { return argument.first == name; });
    if (found == arguments.named.end())
        return {};
    Value out = found->second;
    arguments.named.erase(found);
    return out;
}

/// The items of what a filter goes through; of None, false, 0 and the like there are none, whether they have any or
/// not.
Items itemsOf(Interpreter &owner, const Value &input)
{
    return truth(owner.heap(), input) ? Items(owner.heap(), input) : Items();
}

Value mapAttribute(Interpreter &owner, const Value &input, const Value &attribute, const Value &absent)
{
    return owner.heap().generator("generator", [&owner, input, attribute, absent] {
        std::vector<Value> out;
        const Items items = itemsOf(owner, input);
        for (std::size_t i = 0; i < items.size(); ++i) {
            Value value = followPath(owner, items.at(i), attribute);
            if (value.isUndefined() && !absent.isUndefined() && !absent.isNone())
                value = absent;
            out.push_back(std::move(value));
        }
        return out;
    });
}

Value map(Interpreter &owner, const Value &input, Arguments &arguments)
{
    if (arguments.positional.empty()) {
        const Value attribute = takeNamed(arguments, "attribute");
        const Value absent = takeNamed(arguments, "default");
        if (!arguments.named.empty())
            fail("map: unexpected keyword argument " + reprText(arguments.named.front().first));
        if (attribute.isUndefined())
            fail("map requires a filter argument");
        return mapAttribute(owner, input, attribute, absent);
    }
    const std::string name = textOf(owner.heap(), arguments.positional.front());
    arguments.positional.erase(arguments.positional.begin());
    return owner.heap().generator("generator", [&owner, input, name, arguments] {
        std::vector<Value> out;
        const Items items = itemsOf(owner, input);
        for (std::size_t i = 0; i < items.size(); ++i) {
            Arguments copy = arguments;
            out.push_back(owner.filter(name, items.at(i), copy));
        }
        return out;
    });
}

/// select, reject and their forms for attributes.
template<bool keep, bool byAttribute> Value select(Interpreter &owner, const Value &input, Arguments &arguments)
{
    std::vector<Value> &words = arguments.positional;
    if (byAttribute && words.empty())
        fail("missing parameter for attribute name");
    Value attribute;
    if (byAttribute) {
        attribute = words.front();
        words.erase(words.begin());
    }
    std::string test;
    if (!words.empty()) {
        test = textOf(owner.heap(), words.front());
        words.erase(words.begin());
    }
    return owner.heap().generator("generator", [&owner, input, attribute, test, arguments] {
        std::vector<Value> out;
        const Items items = itemsOf(owner, input);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Value item = items.at(i);
            const Value tested = byAttribute ? followPath(owner, item, attribute) : item;
            Arguments copy = arguments;
            const bool passes = test.empty() ? truth(owner.heap(), tested) : owner.test(test, tested, copy);
            if (passes == keep)
                out.push_back(item);
        }
        return out;
    });
}

Value orDefault(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("default", arguments, {"default_value", "boolean"});
    const bool useDefault =
        input.isUndefined() || (bound.boolean(owner.heap(), 1, false) && !truth(owner.heap(), input));
    if (!useDefault)
        return input;
    return bound.has(0) ? bound[0] : owner.heap().string("");
}

Value attribute(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("attr", arguments, {"name"}, 1);
    const std::string &name = bound.text(0);
    // A member of a dictionary is no attribute; only what dot notation finds first counts.
    if (input.is(Kind::Dict) && input.as<DictObject>().find(name) != nullptr) {
        const Value found = owner.attribute(input, name);
        return found.is(Kind::Method) ? found
                                      : owner.heap().undefined("'dict object' has no attribute " + reprText(name));
    }
    return owner.attribute(input, name);
}

} // namespace

std::span<const Filter> selectionFilters()
{
    static constexpr Filter all[] = {
        {"map", map},
        {"select", select<true, false>},
        {"reject", select<false, false>},
        {"selectattr", select<true, true>},
        {"rejectattr", select<false, true>},
        {"default", orDefault},
        {"d", orDefault},
        {"attr", attribute},
    };
    return all;
}

} // namespace engine::jinja
