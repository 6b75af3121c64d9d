// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

/// What getattr(value, name) of Python finds; nothing when there is no such attribute.
using Found = std::optional<Value>;

Found findMethod(Interpreter &owner, const Value &value, std::span<const Method> methods, std::string_view name)
{
    for (const Method &method : methods) {
        if (method.name == name)
            return Value(owner.heap().make<MethodObject>(0, value, method.name, method.function).get());
    }
    return std::nullopt;
}

/// Methods that would change a list or a dictionary: the sandbox of chat templates knows them and refuses them.
bool changesValue(const Value &value, std::string_view name)
{
    static constexpr std::string_view listMethods[] = {"append", "clear", "pop",    "reverse",
                                                       "insert", "sort",  "extend", "remove"};
    static constexpr std::string_view dictMethods[] = {"clear", "pop", "popitem", "setdefault", "update"};
    if (value.is(Kind::List))
        return std::find(std::begin(listMethods), std::end(listMethods), name) != std::end(listMethods);
    return value.is(Kind::Dict)
        && std::find(std::begin(dictMethods), std::end(dictMethods), name) != std::end(dictMethods);
}

Found loopAttribute(Interpreter &owner, const Value &value, std::string_view name)
{
    const LoopObject &loop = value.as<LoopObject>();
    const auto index = static_cast<std::int64_t>(loop.index);
    const auto length = static_cast<std::int64_t>(loop.items.size());
    const std::pair<std::string_view, std::int64_t> numbers[] = {
        {"index", index + 1},         {"index0", index},
        {"revindex", length - index}, {"revindex0", length - index - 1},
        {"length", length},           {"depth", loop.depth + 1},
        {"depth0", loop.depth},
    };
    for (const auto &[key, number] : numbers) {
        if (key == name)
            return Value::integer(number);
    }
    if (name == "first")
        return Value::boolean(index == 0);
    if (name == "last")
        return Value::boolean(index + 1 == length);
    if (name == "previtem")
        return index == 0 ? owner.heap().undefined("there is no previous item") : loop.items.at(loop.index - 1);
    if (name == "nextitem")
        return index + 1 >= length ? owner.heap().undefined("there is no next item") : loop.items.at(loop.index + 1);
    return std::nullopt;
}

Found macroAttribute(Interpreter &owner, const Value &value, std::string_view name)
{
    const MacroNode &node = *value.as<MacroObject>().node;
    if (name == "name")
        return node.name.empty() ? Value::none() : owner.heap().string(node.name);
    if (name == "catch_kwargs")
        return Value::boolean(node.usesKwargs);
    if (name == "catch_varargs")
        return Value::boolean(node.usesVarargs);
    if (name == "caller")
        return Value::boolean(node.usesCaller);
    if (name != "arguments")
        return std::nullopt;
    std::vector<Value> names;
    for (const auto &[symbol, parameter] : node.parameters)
        names.push_back(owner.heap().string(parameter));
    return owner.heap().tuple(std::move(names));
}

Found numberAttribute(const Value &value, std::string_view name)
{
    const bool isFloat = value.is(Kind::Float);
    if (name == "real" || (name == "numerator" && !isFloat))
        return value.is(Kind::Bool) ? Value::integer(value.asInt()) : value;
    if (name == "imag")
        return isFloat ? Value::real(0) : Value::integer(0);
    if (name == "denominator" && !isFloat)
        return Value::integer(1);
    return std::nullopt;
}

Found rangeAttribute(const Value &value, std::string_view name)
{
    const RangeObject &range = value.as<RangeObject>();
    if (name == "start")
        return Value::integer(range.start);
    if (name == "stop")
        return Value::integer(range.stop);
    if (name == "step")
        return Value::integer(range.step);
    return std::nullopt;
}

Value renderBlock(Interpreter &owner, const Value &name, Arguments &)
{
    return owner.block(name.text());
}

Found specialAttribute(Interpreter &owner, const Value &value, std::string_view name)
{
    Heap &heap = owner.heap();
    switch (value.kind()) {
    case Kind::Bool:
    case Kind::Int:
    case Kind::BigInt:
    case Kind::Float:
        return numberAttribute(value, name);
    case Kind::Tuple:
        if (!value.as<ListObject>().group)
            return std::nullopt;
        return name == "grouper" ? Found(value.items()[0]) : (name == "list" ? Found(value.items()[1]) : std::nullopt);
    case Kind::Range:
        return rangeAttribute(value, name);
    case Kind::Namespace: {
        const Value *member = value.as<NamespaceObject>().find(name);
        return member == nullptr ? std::nullopt : Found(*member);
    }
    case Kind::Macro:
        return macroAttribute(owner, value, name);
    case Kind::Loop:
        return loopAttribute(owner, value, name);
    case Kind::Cycler:
        if (name != "current")
            return std::nullopt;
        return value.as<CyclerObject>().items[value.as<CyclerObject>().position];
    case Kind::Self:
        if (!owner.hasBlock(name))
            return std::nullopt;
        return Value(heap.make<MethodObject>(0, heap.string(std::string(name)), "block", renderBlock).get());
    default:
        return std::nullopt;
    }
}

Found findAttribute(Interpreter &owner, const Value &value, std::string_view name)
{
    if (value.isString()) {
        Found method = findMethod(owner, value, textMethods(), name);
        return method ? method : findMethod(owner, value, textPredicates(), name);
    }
    if (Found special = specialAttribute(owner, value, name))
        return special;
    return findMethod(owner, value, methodsOf(value.kind()), name);
}

/// Every Python object has attributes between double underscores; the sandbox shows none of them.
bool isForbidden(const Value &value, std::string_view name)
{
    const bool isInternal = name.size() > 4 && name.starts_with("__") && name.ends_with("__");
    return isInternal || changesValue(value, name);
}

Value forbidden(Heap &heap, const Value &value, std::string_view name)
{
    return heap.undefined("access to attribute " + reprText(name) + " of '" + typeName(value) + "' object is unsafe");
}

Value missing(Heap &heap, const Value &value, const Value &key)
{
    const std::string type = value.isNone() ? "None" : std::string(typeName(value)) + " object";
    if (!key.isString())
        return heap.undefined(type + " has no element " + reprOf(heap, key) + ": it is undefined");
    return heap.undefined("'" + type + "' has no attribute "
                          + reprText(key.text().substr(0, byteOffset(key.text(), 100))) + ": it is undefined");
}

} // namespace

Value Interpreter::attribute(const Value &value, std::string_view name)
{
    requireDefined(value);
    if (isForbidden(value, name))
        return forbidden(m_heap, value, name);
    if (auto found = findAttribute(*this, value, name))
        return name.starts_with('_') ? forbidden(m_heap, value, name) : *found;
    if (value.is(Kind::Dict)) {
        if (const Value *member = value.as<DictObject>().find(name))
            return *member;
    }
    return missing(m_heap, value, m_heap.string(std::string(name)));
}

Value Interpreter::subscript(const Value &value, const Value &key)
{
    requireDefined(value);
    if (auto found = item(m_heap, value, key))
        return *found;
    if (!key.isString())
        return missing(m_heap, value, key);
    if (isForbidden(value, key.text()))
        return forbidden(m_heap, value, key.text());
    if (auto found = findAttribute(*this, value, key.text()))
        return key.text().starts_with('_') ? forbidden(m_heap, value, key.text()) : *found;
    return missing(m_heap, value, key);
}

Value followPath(Interpreter &owner, const Value &value, const Value &path)
{
    if (!path.isString())
        return path.isNone() ? value : owner.subscript(value, path);
    Value out = value;
    const std::string &text = path.text();
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, end - begin);
        const bool isNumber =
            !part.empty() && part.size() < 18 && part.find_first_not_of("0123456789") == std::string::npos;
        owner.budget().steps(4);
        out = owner.subscript(out, isNumber ? Value::integer(std::stoll(part)) : owner.heap().string(part));
        begin = end + 1;
    }
    return out;
}

} // namespace engine::jinja
