// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_operators.h"

#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace engine::jinja {
namespace {

bool equalItems(Heap &heap, const std::vector<Value> &a, const std::vector<Value> &b)
{
    if (a.size() != b.size())
        return false;
    const Budget::Level level(heap.budget());
    for (std::size_t i = 0; i < a.size(); ++i) {
        if (!equals(heap, a[i], b[i]))
            return false;
    }
    return true;
}

bool equalDicts(Heap &heap, const DictObject &a, const DictObject &b)
{
    if (a.entries().size() != b.entries().size())
        return false;
    const Budget::Level level(heap.budget());
    for (const auto &[key, value] : a.entries()) {
        const Value *other = b.find(key);
        if (other == nullptr || !equals(heap, value, *other))
            return false;
    }
    return true;
}

bool equalRanges(const RangeObject &a, const RangeObject &b)
{
    return a.length == b.length && (a.length == 0 || (a.start == b.start && (a.length == 1 || a.step == b.step)));
}

bool lessItems(Heap &heap, const std::vector<Value> &a, const std::vector<Value> &b, const char *sign)
{
    const Budget::Level level(heap.budget());
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        if (!equals(heap, a[i], b[i]))
            return less(heap, a[i], b[i], sign);
    }
    return a.size() < b.size();
}

std::size_t mix(std::size_t seed, std::size_t value)
{
    return seed ^ (value + 0x9e3779b97f4a7c15U + (seed << 6U) + (seed >> 2U));
}

std::size_t hashOfNumber(const Value &value)
{
    if (value.isSmallInt())
        return std::hash<std::int64_t>()(value.asInt());
    if (value.is(Kind::BigInt))
        return value.as<BigIntObject>().number.residue();
    const double number = value.asDouble();
    if (!std::isfinite(number) || number != std::trunc(number))
        return std::hash<double>()(number);
    const BigInt whole = BigInt::fromDouble(number);
    const auto small = whole.toInt64();
    return small ? std::hash<std::int64_t>()(*small) : whole.residue();
}

/// A position of Python's, counted from the end when negative; nothing when outside.
std::optional<std::size_t> position(std::int64_t index, std::int64_t length)
{
    // length is far from the limits, index may be one: add before negating anything.
    const std::int64_t at = index < 0 ? index + length : index;
    if (at < 0 || at >= length)
        return std::nullopt;
    return static_cast<std::size_t>(at);
}

struct SliceBounds {
    std::int64_t start = 0;
    std::int64_t step = 1;
    std::int64_t count = 0;
};

std::int64_t bound(const Value &value, std::int64_t absent, std::int64_t length, bool forwards)
{
    if (value.isNone())
        return absent;
    requireDefined(value);
    if (!value.isInteger())
        fail("slice indices must be integers or none, not " + std::string(typeName(value)));
    std::int64_t at = clampToInt64(value);
    if (at < 0)
        at = at < -length ? -1 : at + length;
    if (forwards)
        return std::clamp<std::int64_t>(at, 0, length);
    return std::clamp<std::int64_t>(at, -1, length - 1);
}

SliceBounds sliceBounds(const Value &start, const Value &stop, const Value &step, std::int64_t length)
{
    SliceBounds out;
    if (!step.isNone()) {
        requireDefined(step);
        if (!step.isInteger())
            fail("the slice step must be an integer, not " + std::string(typeName(step)));
        out.step = clampToInt64(step);
    }
    if (out.step == 0)
        fail("the slice step must not be zero");
    // A step beyond the length selects one element whatever its size.
    out.step = std::clamp<std::int64_t>(out.step, -length - 1, length + 1);
    const bool forwards = out.step > 0;
    out.start = bound(start, forwards ? 0 : length - 1, length, forwards);
    const std::int64_t end = bound(stop, forwards ? length : -1, length, forwards);
    const std::int64_t span = forwards ? end - out.start : out.start - end;
    const std::int64_t stride = forwards ? out.step : -out.step;
    out.count = span <= 0 ? 0 : (span + stride - 1) / stride;
    return out;
}

Value sliceText(Heap &heap, const Value &value, const SliceBounds &bounds)
{
    const std::string &text = value.text();
    const bool safe = value.as<StringObject>().safe;
    if (bounds.step == 1) {
        const std::size_t begin = byteOffset(text, bounds.start);
        const std::string_view rest = std::string_view(text).substr(begin);
        Text out(heap.budget());
        out.append(rest.substr(0, byteOffset(rest, bounds.count)));
        heap.budget().steps((begin + out.size()) / 4);
        return heap.string(out.release(), safe);
    }
    std::vector<std::size_t> offsets;
    heap.budget().steps(text.size());
    heap.budget().take(text.size() * sizeof(std::size_t));
    for (std::size_t i = 0; i < text.size(); static_cast<void>(nextChar(text, i)))
        offsets.push_back(i);
    offsets.push_back(text.size());
    Text out(heap.budget());
    for (std::int64_t i = 0; i < bounds.count; ++i) {
        const auto at = static_cast<std::size_t>(bounds.start + i * bounds.step);
        out.append(std::string_view(text).substr(offsets[at], offsets[at + 1] - offsets[at]));
    }
    heap.budget().giveBack(text.size() * sizeof(std::size_t));
    return heap.string(out.release(), safe);
}

} // namespace

const char *typeName(const Value &value)
{
    static constexpr const char *names[] = {
        "Undefined",   "NoneType",
        "bool",        "int",
        "float",       "int",
        "str",         "bytes",
        "list",        "tuple",
        "dict",        "dict_keys",
        "range",       "generator",
        "Namespace",   "function",
        "method",      "Macro",
        "LoopContext", "Cycler",
        "Joiner",      "TemplateReference",
        "scope",
    };
    if (value.isString() && value.as<StringObject>().safe)
        return "Markup";
    if (value.is(Kind::Generator))
        return value.as<GeneratorObject>().type;
    if (value.is(Kind::DictView)) {
        static constexpr const char *views[] = {"dict_keys", "dict_values", "dict_items"};
        return views[static_cast<int>(value.as<DictViewObject>().part)];
    }
    return names[static_cast<int>(value.kind())];
}

void requireDefined(const Value &value)
{
    if (!value.isUndefined())
        return;
    fail(value.object() == nullptr ? "a value is undefined" : value.as<UndefinedObject>().message);
}

bool truth(Heap &heap, const Value &value)
{
    switch (value.kind()) {
    case Kind::Undefined:
    case Kind::None:
        return false;
    case Kind::Bool:
    case Kind::Int:
        return value.asInt() != 0;
    case Kind::Float:
        return value.asDouble() != 0;
    case Kind::String:
    case Kind::Bytes:
        return !value.text().empty();
    case Kind::Generator:
        return true;
    default: {
        const auto length = lengthOf(heap, value);
        return !length || *length != 0;
    }
    }
}

bool equals(Heap &heap, const Value &a, const Value &b)
{
    heap.budget().steps(1);
    if (a.isNumber() && b.isNumber())
        return compareNumbers(a, b) == 0;
    if (a.isUndefined() || b.isUndefined())
        return a.kind() == b.kind();
    if (a.kind() != b.kind())
        return false;
    switch (a.kind()) {
    case Kind::None:
        return true;
    case Kind::String:
    case Kind::Bytes:
        heap.budget().steps(std::min(a.text().size(), b.text().size()) / kBytesPerStep);
        return a.text() == b.text();
    case Kind::List:
    case Kind::Tuple:
        return a.sameAs(b) || equalItems(heap, a.items(), b.items());
    case Kind::Dict:
        return a.sameAs(b) || equalDicts(heap, a.as<DictObject>(), b.as<DictObject>());
    case Kind::Range:
        return equalRanges(a.as<RangeObject>(), b.as<RangeObject>());
    case Kind::DictView:
        return a.sameAs(b)
            || (a.as<DictViewObject>().part == b.as<DictViewObject>().part
                && a.as<DictViewObject>().part != DictViewObject::Part::Values
                && equalItems(heap, Items(heap, a).all(), Items(heap, b).all()));
    default:
        return a.sameAs(b);
    }
}

bool less(Heap &heap, const Value &a, const Value &b, const char *sign)
{
    heap.budget().steps(1);
    if (a.isNumber() && b.isNumber()) {
        const auto order = compareNumbers(a, b);
        return order && *order < 0;
    }
    if ((a.isString() && b.isString()) || (a.is(Kind::Bytes) && b.is(Kind::Bytes))) {
        heap.budget().steps(std::min(a.text().size(), b.text().size()) / kBytesPerStep);
        // UTF-8 orders bytes as the characters are ordered.
        return a.text() < b.text();
    }
    if (a.isSequence() && a.kind() == b.kind())
        return lessItems(heap, a.items(), b.items(), sign);
    requireDefined(a);
    requireDefined(b);
    const bool flipped = sign[0] == '>';
    fail(std::string("'") + sign + "' not supported between instances of '" + typeName(flipped ? b : a) + "' and '"
         + typeName(flipped ? a : b) + "'");
}

bool contains(Heap &heap, const Value &container, const Value &item)
{
    if (container.isString()) {
        if (!item.isString()) {
            requireDefined(item);
            fail(std::string("'in <string>' requires string as left operand, not ") + typeName(item));
        }
        heap.budget().steps((container.text().size() + item.text().size()) / kBytesPerStep);
        return findText(container.text(), item.text()) != std::string::npos;
    }
    if (container.is(Kind::Dict))
        return container.as<DictObject>().find(item) != nullptr;
    if (!isIterable(container))
        fail(std::string("argument of type '") + typeName(container) + "' is not iterable");
    const Items items(heap, container);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (equals(heap, items.at(i), item))
            return true;
    }
    return false;
}

std::size_t hashOfText(std::string_view text)
{
    return std::hash<std::string_view>()(text);
}

std::size_t hashOf(Heap &heap, const Value &value)
{
    if (value.isNumber())
        return hashOfNumber(value);
    switch (value.kind()) {
    case Kind::Undefined:
    case Kind::None:
        return static_cast<std::size_t>(value.kind());
    case Kind::String:
    case Kind::Bytes:
        heap.budget().steps(value.text().size() / kBytesPerStep);
        return hashOfText(value.text());
    case Kind::Tuple: {
        const Budget::Level level(heap.budget());
        std::size_t out = 1;
        for (const Value &item : value.items()) {
            heap.budget().steps(1);
            out = mix(out, hashOf(heap, item));
        }
        return out;
    }
    case Kind::List:
    case Kind::Dict:
    case Kind::DictView:
        fail(std::string("unhashable type: '") + typeName(value) + "'");
    default:
        return std::hash<const void *>()(value.object());
    }
}

std::int64_t codePoints(Heap &heap, const Value &text)
{
    auto &string = text.as<StringObject>();
    if (string.codePoints < 0) {
        heap.budget().steps(string.text.size() / kBytesPerStep);
        string.codePoints = countChars(string.text);
    }
    return string.codePoints;
}

std::optional<std::int64_t> lengthOf(Heap &heap, const Value &value)
{
    switch (value.kind()) {
    case Kind::Undefined:
        return 0;
    case Kind::String:
        return codePoints(heap, value);
    case Kind::Bytes:
        return static_cast<std::int64_t>(value.text().size());
    case Kind::List:
    case Kind::Tuple:
        return static_cast<std::int64_t>(value.items().size());
    case Kind::Dict:
        return static_cast<std::int64_t>(value.as<DictObject>().entries().size());
    case Kind::DictView:
        return static_cast<std::int64_t>(value.as<DictViewObject>().dict.as<DictObject>().entries().size());
    case Kind::Range:
        return value.as<RangeObject>().length;
    case Kind::Loop:
        return static_cast<std::int64_t>(value.as<LoopObject>().items.size());
    default:
        return std::nullopt;
    }
}

std::optional<Value> item(Heap &heap, const Value &value, const Value &key)
{
    if (value.is(Kind::Dict)) {
        const bool canBeKey = !key.is(Kind::List) && !key.is(Kind::Dict);
        const Value *found = canBeKey ? value.as<DictObject>().find(key) : nullptr;
        return found == nullptr ? std::nullopt : std::optional(*found);
    }
    if (!key.isInteger() || !(value.isString() || value.is(Kind::Bytes) || value.isSequence() || value.is(Kind::Range)))
        return std::nullopt;
    const auto at = position(clampToInt64(key), *lengthOf(heap, value));
    if (!at)
        return std::nullopt;
    if (value.isSequence())
        return value.items()[*at];
    if (value.is(Kind::Range))
        return Value::integer(value.as<RangeObject>().start
                              + static_cast<std::int64_t>(*at) * value.as<RangeObject>().step);
    if (value.is(Kind::Bytes))
        return Value::integer(static_cast<unsigned char>(value.text()[*at]));
    SliceBounds one;
    one.start = static_cast<std::int64_t>(*at);
    one.count = 1;
    return sliceText(heap, value, one);
}

Value slice(Heap &heap, const Value &value, const Value &start, const Value &stop, const Value &step)
{
    requireDefined(value);
    if (!value.isString() && !value.isSequence() && !value.is(Kind::Range) && !value.is(Kind::Bytes))
        fail(std::string("'") + typeName(value) + "' object cannot be sliced");
    const SliceBounds bounds = sliceBounds(start, stop, step, *lengthOf(heap, value));
    if (value.isString())
        return sliceText(heap, value, bounds);
    if (value.is(Kind::Range)) {
        const RangeObject &range = value.as<RangeObject>();
        const std::int64_t first = range.start + bounds.start * range.step;
        const std::int64_t stride = range.step * bounds.step;
        return Value(heap.make<RangeObject>(0, first, first + bounds.count * stride, stride, bounds.count).get());
    }
    heap.budget().steps(static_cast<std::size_t>(bounds.count));
    if (value.is(Kind::Bytes)) {
        std::string out;
        for (std::int64_t i = 0; i < bounds.count; ++i)
            out.push_back(value.text()[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
        return heap.bytes(std::move(out));
    }
    std::vector<Value> out;
    for (std::int64_t i = 0; i < bounds.count; ++i)
        out.push_back(value.items()[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
    return value.is(Kind::List) ? heap.list(std::move(out)) : heap.tuple(std::move(out));
}

bool isIterable(const Value &value)
{
    switch (value.kind()) {
    case Kind::Undefined:
    case Kind::String:
    case Kind::Bytes:
    case Kind::List:
    case Kind::Tuple:
    case Kind::Dict:
    case Kind::DictView:
    case Kind::Range:
    case Kind::Generator:
    case Kind::Loop:
        return true;
    default:
        return false;
    }
}

Items::Items(Heap &heap, const Value &value)
    : m_heap(&heap)
    , m_source(value)
{
    if (!isIterable(value))
        fail(std::string("'") + typeName(value) + "' object is not iterable");
    switch (value.kind()) {
    case Kind::List:
    case Kind::Tuple:
    case Kind::Range:
    case Kind::Dict:
    case Kind::DictView:
    case Kind::String:
        m_size = static_cast<std::size_t>(*lengthOf(heap, value));
        break;
    case Kind::Generator:
        m_own = std::exchange(value.as<GeneratorObject>().rest(), {});
        break;
    case Kind::Bytes:
        for (const char c : value.text())
            m_own.push_back(Value::integer(static_cast<unsigned char>(c)));
        break;
    case Kind::Loop: {
        LoopObject &loop = value.as<LoopObject>();
        for (std::size_t i = loop.index + 1; i < loop.items.size(); ++i)
            m_own.push_back(loop.items.at(i));
        break;
    }
    default:
        break;
    }
    if (m_size == 0)
        m_size = m_own.size();
    heap.budget().steps(m_own.size());
}

Value Items::character(std::size_t index) const
{
    const std::string_view text = m_source.text();
    if (index < m_index)
        m_index = m_byte = 0;
    for (; m_index < index; ++m_index)
        static_cast<void>(nextChar(text, m_byte));
    std::size_t end = m_byte;
    static_cast<void>(nextChar(text, end));
    return m_heap->string(std::string(text.substr(m_byte, end - m_byte)));
}

Value Items::viewed(std::size_t index) const
{
    const DictViewObject &view = m_source.as<DictViewObject>();
    const auto &[key, value] = view.dict.as<DictObject>().entries()[index];
    if (view.part == DictViewObject::Part::Items)
        return m_heap->tuple({key, value});
    return view.part == DictViewObject::Part::Keys ? key : value;
}

Value Items::at(std::size_t index) const
{
    if (m_source.isSequence())
        return m_source.items()[index];
    if (m_source.is(Kind::Range)) {
        const RangeObject &range = m_source.as<RangeObject>();
        return Value::integer(range.start + static_cast<std::int64_t>(index) * range.step);
    }
    if (m_source.is(Kind::Dict))
        return m_source.as<DictObject>().entries()[index].first;
    if (m_source.is(Kind::DictView))
        return viewed(index);
    if (m_source.isString())
        return character(index);
    return m_own[index];
}

std::vector<Value> Items::all() const
{
    m_heap->budget().steps(m_size);
    m_heap->budget().take(m_size * sizeof(Value));
    m_heap->budget().giveBack(m_size * sizeof(Value));
    std::vector<Value> out;
    out.reserve(m_size);
    for (std::size_t i = 0; i < m_size; ++i)
        out.push_back(at(i));
    return out;
}

} // namespace engine::jinja
