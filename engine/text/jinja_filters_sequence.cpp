// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_sort.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_text_tools.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

/// What values are compared by: an attribute of theirs, texts without regard to case unless asked for.
class KeyOf {
public:
    KeyOf(Interpreter &owner, const Value &attribute, bool caseSensitive, Value absent = Value())
        : m_owner(owner)
        , m_attribute(attribute)
        , m_caseSensitive(caseSensitive)
        , m_absent(std::move(absent))
    {
    }

    Value operator()(const Value &item) const
    {
        Value key = hasAttribute() ? followPath(m_owner, item, m_attribute) : item;
        if (key.isUndefined() && hasAttribute() && !m_absent.isUndefined() && !m_absent.isNone())
            key = m_absent;
        return folded(key);
    }
    Value folded(const Value &key) const
    {
        return m_caseSensitive || !key.isString() ? key : mapped(m_owner, key, toLower);
    }

private:
    bool hasAttribute() const { return !m_attribute.isUndefined() && !m_attribute.isNone(); }

    Interpreter &m_owner;
    Value m_attribute;
    bool m_caseSensitive;
    Value m_absent;
};

using Keyed = std::pair<Value, Value>; ///< what to compare by, the item

std::vector<Keyed> keyed(Interpreter &owner, const Value &input, const KeyOf &keyOf)
{
    const Items items(owner.heap(), input);
    owner.budget().take(items.size() * sizeof(Keyed));
    owner.budget().giveBack(items.size() * sizeof(Keyed));
    std::vector<Keyed> out;
    out.reserve(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Value item = items.at(i);
        out.emplace_back(keyOf(item), item);
    }
    return out;
}

void sortKeyed(Interpreter &owner, std::vector<Keyed> &items, bool reverse, bool inLists)
{
    // Jinja's sort compares lists of keys, of which equal ones need no order. Python's reverse keeps equal items in
    // their order too.
    const auto isLess = [&](const Value &a, const Value &b) {
        return (!inLists || !equals(owner.heap(), a, b)) && less(owner.heap(), a, b);
    };
    sortBy(items, [&](const Keyed &a, const Keyed &b) {
        owner.budget().steps(4);
        return reverse ? isLess(b.first, a.first) : isLess(a.first, b.first);
    });
}

Value itemsOf(Interpreter &owner, const std::vector<Keyed> &sorted)
{
    std::vector<Value> out;
    out.reserve(sorted.size());
    for (const Keyed &item : sorted)
        out.push_back(item.second);
    return owner.heap().list(std::move(out));
}

/// "a,b" sorts by a tuple of two attributes.
Value multiKey(Interpreter &owner, const KeyOf &plain, const Value &item, const std::string &attributes)
{
    std::vector<Value> keys;
    for (std::size_t begin = 0; begin <= attributes.size();) {
        const std::size_t end = std::min(attributes.find(',', begin), attributes.size());
        keys.push_back(
            plain.folded(followPath(owner, item, owner.heap().string(attributes.substr(begin, end - begin)))));
        begin = end + 1;
    }
    return owner.heap().tuple(std::move(keys));
}

Value sort(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
    const KeyOf keyOf(owner, bound[2], bound.boolean(owner.heap(), 1, false));
    std::vector<Keyed> items;
    if (bound[2].isString() && bound[2].text().find(',') != std::string::npos) {
        items = keyed(owner, input, KeyOf(owner, Value(), true));
        for (Keyed &item : items)
            item.first = multiKey(owner, keyOf, item.second, bound[2].text());
    } else {
        items = keyed(owner, input, keyOf);
    }
    sortKeyed(owner, items, bound.boolean(owner.heap(), 0, false), true);
    return itemsOf(owner, items);
}

Value dictSort(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
    const std::string by = bound.has(1) ? textOf(owner.heap(), bound[1]) : "key";
    if (by != "key" && by != "value")
        fail("dictsort: you can only sort by either \"key\" or \"value\"");
    requireDefined(input);
    if (!input.is(Kind::Dict))
        fail(std::string("dictsort: '") + typeName(input) + "' object has no attribute 'items'");
    const KeyOf keyOf(owner, Value::integer(by == "key" ? 0 : 1), bound.boolean(owner.heap(), 0, false));
    const Value pairs(owner.heap().make<DictViewObject>(0, input, DictViewObject::Part::Items).get());
    std::vector<Keyed> items = keyed(owner, pairs, keyOf);
    sortKeyed(owner, items, bound.boolean(owner.heap(), 2, false), false);
    return itemsOf(owner, items);
}

template<bool wantMax> Value extreme(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound(wantMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
    const KeyOf keyOf(owner, bound[1], bound.boolean(owner.heap(), 0, false));
    const Items items(owner.heap(), input);
    if (items.size() == 0)
        return owner.heap().undefined("no aggregated item, sequence was empty");
    Value best = items.at(0);
    Value bestKey = keyOf(best);
    for (std::size_t i = 1; i < items.size(); ++i) {
        const Value item = items.at(i);
        const Value key = keyOf(item);
        if (wantMax ? less(owner.heap(), bestKey, key, ">") : less(owner.heap(), key, bestKey)) {
            best = item;
            bestKey = key;
        }
    }
    return best;
}

Value unique(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
    const KeyOf keyOf(owner, bound[1], bound.boolean(owner.heap(), 0, false));
    return owner.heap().generator("generator", [&owner, input, keyOf] {
        const Ref<DictObject> seen = owner.heap().make<DictObject>(0);
        std::vector<Value> out;
        const Items items(owner.heap(), input);
        for (std::size_t i = 0; i < items.size(); ++i) {
            const Value item = items.at(i);
            const Value key = keyOf(item);
            if (seen->find(key) != nullptr)
                continue;
            seen->insert(key, Value::none());
            out.push_back(item);
        }
        return out;
    });
}

Value groupBy(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
    const bool caseSensitive = bound.boolean(owner.heap(), 2, false);
    const KeyOf keyOf(owner, bound[0], caseSensitive, bound[1]);
    const KeyOf shownKey(owner, bound[0], true, bound[1]);
    std::vector<Keyed> items = keyed(owner, input, keyOf);
    sortKeyed(owner, items, false, false);
    std::vector<Value> out;
    for (std::size_t begin = 0, end = 0; begin < items.size(); begin = end) {
        std::vector<Value> members;
        for (end = begin; end < items.size() && equals(owner.heap(), items[begin].first, items[end].first); ++end)
            members.push_back(items[end].second);
        const Value group = owner.heap().tuple({shownKey(items[begin].second), owner.heap().list(std::move(members))});
        group.as<ListObject>().group = true;
        out.push_back(group);
        // A key that does not equal itself (NaN) still makes a group.
        end = std::max(end, begin + 1);
    }
    return owner.heap().list(std::move(out));
}

Value list(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("list", arguments);
    return owner.heap().list(Items(owner.heap(), input).all());
}

Value length(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("length", arguments);
    const auto out = lengthOf(owner.heap(), input);
    if (!out)
        fail(std::string("object of type '") + typeName(input) + "' has no len()");
    return Value::integer(*out);
}

Value first(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("first", arguments);
    if (input.is(Kind::Generator)) {
        std::vector<Value> &rest = input.as<GeneratorObject>().rest();
        if (rest.empty())
            return owner.heap().undefined("no first item, sequence was empty");
        const Value out = rest.front();
        owner.budget().steps(rest.size());
        rest.erase(rest.begin());
        return out;
    }
    const Items items(owner.heap(), input);
    return items.size() == 0 ? owner.heap().undefined("no first item, sequence was empty") : items.at(0);
}

Value last(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("last", arguments);
    if (input.is(Kind::Generator))
        fail(std::string("'") + typeName(input) + "' object is not reversible");
    if (input.isString())
        return input.text().empty() ? owner.heap().undefined("no last item, sequence was empty")
                                    : *item(owner.heap(), input, Value::integer(-1));
    const Items items(owner.heap(), input);
    return items.size() == 0 ? owner.heap().undefined("no last item, sequence was empty") : items.at(items.size() - 1);
}

Value random(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("random", arguments);
    static_cast<void>(owner);
    static_cast<void>(input);
    fail("the filter random is refused: the same conversation must always give the same prompt");
}

Value reverse(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("reverse", arguments);
    if (input.isString())
        return slice(owner.heap(), input, Value::none(), Value::none(), Value::integer(-1));
    if (!isIterable(input))
        fail("reverse: argument must be iterable");
    std::vector<Value> items = Items(owner.heap(), input).all();
    std::reverse(items.begin(), items.end());
    // Of a list Python gives an iterator, of a generator a list.
    if (input.is(Kind::Generator) || input.isUndefined())
        return owner.heap().list(std::move(items));
    const Value held = owner.heap().list(std::move(items));
    return owner.heap().generator("reversed", [held] { return held.items(); });
}

Value join(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("join", arguments, {"d", "attribute"});
    const std::string separator = bound.has(0) ? textOf(owner.heap(), bound[0]) : "";
    const Items items(owner.heap(), input);
    Text out(owner.budget());
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i != 0)
            out.append(separator);
        const Value item = items.at(i);
        appendText(out, owner.heap(), bound.isSet(1) ? followPath(owner, item, bound[1]) : item);
    }
    return owner.heap().string(out.release());
}

Value items(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("items", arguments);
    return owner.heap().generator("generator", [&owner, input] {
        if (!input.isUndefined() && !input.is(Kind::Dict))
            fail("can only get item pairs from a mapping");
        std::vector<Value> out;
        if (input.is(Kind::Dict)) {
            const Value view(owner.heap().make<DictViewObject>(0, input, DictViewObject::Part::Items).get());
            out = Items(owner.heap(), view).all();
        }
        return out;
    });
}

Value batch(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
    const std::size_t size = sizeArgument(owner.heap(), bound[0], "line count of batch");
    const Value fill = bound.isSet(1) ? bound[1] : Value();
    return owner.heap().generator("generator", [&owner, input, size, fill] {
        const Items all(owner.heap(), input);
        std::vector<Value> out;
        std::vector<Value> row;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (i != 0 && row.size() == size)
                out.push_back(owner.heap().list(std::exchange(row, {})));
            row.push_back(all.at(i));
        }
        if (!row.empty() && !fill.isUndefined() && row.size() < size) {
            owner.budget().steps(size);
            owner.budget().take(size * sizeof(Value));
            owner.budget().giveBack(size * sizeof(Value));
            row.resize(size, fill);
        }
        if (!row.empty())
            out.push_back(owner.heap().list(std::move(row)));
        return out;
    });
}

Value sliceFilter(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
    const std::size_t count = sizeArgument(owner.heap(), bound[0], "number of slices");
    const Value fill = bound.isSet(1) ? bound[1] : Value();
    return owner.heap().generator("generator", [&owner, input, count, fill] {
        const Items all(owner.heap(), input);
        if (count == 0)
            fail("slice: integer division or modulo by zero");
        const std::size_t each = all.size() / count;
        const std::size_t longer = all.size() % count;
        std::vector<Value> out;
        std::size_t at = 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::vector<Value> row;
            for (std::size_t n = each + (i < longer ? 1 : 0); n > 0; --n)
                row.push_back(all.at(at++));
            if (!fill.isUndefined() && i >= longer)
                row.push_back(fill);
            out.push_back(owner.heap().list(std::move(row)));
        }
        return out;
    });
}

} // namespace

std::span<const Filter> sequenceFilters()
{
    static constexpr Filter all[] = {
        {"list", list},     {"length", length},     {"count", length},       {"first", first},       {"last", last},
        {"join", join},     {"sort", sort},         {"dictsort", dictSort},  {"reverse", reverse},   {"random", random},
        {"unique", unique}, {"groupby", groupBy},   {"min", extreme<false>}, {"max", extreme<true>}, {"items", items},
        {"batch", batch},   {"slice", sliceFilter},
    };
    return all;
}

} // namespace engine::jinja
