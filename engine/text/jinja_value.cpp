// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_value.h"

#include "engine/text/jinja_operators.h"

namespace engine::jinja {
namespace {

// What the allocator and the bookkeeping of an object add to its own size.
constexpr std::size_t kObjectOverhead = 32;
// Below this a dictionary is searched from end to end.
constexpr std::size_t kIndexFrom = 8;

} // namespace

Value Value::none()
{
    Value out;
    out.m_kind = Kind::None;
    return out;
}

Value Value::boolean(bool value)
{
    Value out;
    out.m_kind = Kind::Bool;
    out.m_data.boolean = value;
    return out;
}

Value Value::integer(std::int64_t value)
{
    Value out;
    out.m_kind = Kind::Int;
    out.m_data.integer = value;
    return out;
}

Value Value::real(double value)
{
    Value out;
    out.m_kind = Kind::Float;
    out.m_data.real = value;
    return out;
}

bool Value::sameAs(const Value &other) const
{
    if (m_kind != other.m_kind)
        return false;
    switch (m_kind) {
    case Kind::None:
        return true;
    case Kind::Bool:
    case Kind::Int:
        return asInt() == other.asInt();
    case Kind::Float:
        return m_data.real == other.m_data.real;
    default:
        return m_data.object == other.m_data.object;
    }
}

template<class Same> std::ptrdiff_t DictObject::look(std::size_t hash, const Same &same) const
{
    Budget &budget = heap().budget();
    if (m_slots.empty()) {
        for (std::size_t i = 0; i < m_entries.size(); ++i) {
            if (m_hashes[i] == hash && same(m_entries[i].first))
                return static_cast<std::ptrdiff_t>(i);
        }
        return -1;
    }
    for (std::size_t slot = hash & (m_slots.size() - 1);; slot = (slot + 1) & (m_slots.size() - 1)) {
        if (m_slots[slot] == 0)
            return -1;
        budget.steps(1);
        const std::size_t position = m_slots[slot] - 1;
        if (m_hashes[position] == hash && same(m_entries[position].first))
            return static_cast<std::ptrdiff_t>(position);
    }
}

const Value *DictObject::at(std::ptrdiff_t position) const
{
    return position < 0 ? nullptr : &m_entries[static_cast<std::size_t>(position)].second;
}

const Value *DictObject::find(const Value &key) const
{
    Heap &owner = heap();
    return at(look(hashOf(owner, key), [&](const Value &other) { return equals(owner, key, other); }));
}

const Value *DictObject::find(std::string_view key) const
{
    return at(look(hashOfText(key), [&](const Value &other) { return other.isString() && other.text() == key; }));
}

void DictObject::insert(Value key, Value value)
{
    Heap &owner = heap();
    const std::size_t hash = hashOf(owner, key);
    const std::ptrdiff_t present = look(hash, [&](const Value &other) { return equals(owner, key, other); });
    if (present >= 0) {
        m_entries[static_cast<std::size_t>(present)].second = std::move(value);
        return;
    }
    owner.grow(*this, 2 * sizeof(Value) + sizeof(std::size_t) + 2 * sizeof(std::uint32_t));
    m_entries.emplace_back(std::move(key), std::move(value));
    m_hashes.push_back(hash);
    if (m_entries.size() > kIndexFrom && m_entries.size() * 2 > m_slots.size())
        rebuild();
    else if (!m_slots.empty())
        index(hash, m_entries.size() - 1);
}

void DictObject::index(std::size_t hash, std::size_t position)
{
    std::size_t slot = hash & (m_slots.size() - 1);
    while (m_slots[slot] != 0)
        slot = (slot + 1) & (m_slots.size() - 1);
    m_slots[slot] = static_cast<std::uint32_t>(position + 1);
}

void DictObject::rebuild()
{
    m_slots.assign(m_slots.empty() ? 4 * kIndexFrom : 2 * m_slots.size(), 0);
    for (std::size_t i = 0; i < m_hashes.size(); ++i)
        index(m_hashes[i], i);
}

std::vector<Value> &GeneratorObject::rest()
{
    if (source) {
        const std::function<std::vector<Value>()> make = std::exchange(source, nullptr);
        m_items = make();
        heap().grow(*this, m_items.size() * sizeof(Value));
    }
    return m_items;
}

const Value *NamespaceObject::find(std::string_view name) const
{
    for (const auto &[key, value] : m_members) {
        if (key == name)
            return &value;
    }
    return nullptr;
}

void NamespaceObject::set(std::string_view name, Value value)
{
    heap().budget().steps(m_members.size());
    for (auto &[key, present] : m_members) {
        if (key == name) {
            present = std::move(value);
            return;
        }
    }
    heap().grow(*this, sizeof(m_members[0]) + name.size());
    m_members.emplace_back(std::string(name), std::move(value));
}

Heap::~Heap()
{
    m_closing = true;
    for (Object *object = m_first; object != nullptr; object = object->m_next)
        object->drop();
    while (m_first != nullptr)
        delete std::exchange(m_first, m_first->m_next);
}

void Heap::charge(std::size_t bytes)
{
    m_budget.steps(2);
    m_budget.take(bytes + kObjectOverhead);
}

void Heap::adopt(Object *object, std::size_t bytes)
{
    object->m_heap = this;
    object->m_bytes = bytes + kObjectOverhead;
    object->m_next = m_first;
    if (m_first != nullptr)
        m_first->m_previous = object;
    m_first = object;
}

void Heap::grow(Object &object, std::size_t bytes)
{
    m_budget.take(bytes);
    object.m_bytes += bytes;
}

void Heap::retire(Object *object) noexcept
{
    if (m_closing)
        return;
    unlink(object);
    object->m_next = m_dead;
    m_dead = object;
    if (m_draining)
        return;
    m_draining = true;
    while (m_dead != nullptr) {
        Object *next = std::exchange(m_dead, m_dead->m_next);
        m_budget.giveBack(next->m_bytes);
        delete next;
    }
    m_draining = false;
}

void Heap::unlink(Object *object) noexcept
{
    if (object->m_previous != nullptr)
        object->m_previous->m_next = object->m_next;
    else
        m_first = object->m_next;
    if (object->m_next != nullptr)
        object->m_next->m_previous = object->m_previous;
    object->m_previous = nullptr;
}

Value Heap::string(std::string text, bool safe)
{
    const std::size_t bytes = text.capacity();
    return Value(make<StringObject>(bytes, Kind::String, std::move(text), safe).get());
}

Value Heap::bytes(std::string octets)
{
    const std::size_t bytes = octets.capacity();
    return Value(make<StringObject>(bytes, Kind::Bytes, std::move(octets), false).get());
}

Value Heap::list(std::vector<Value> items)
{
    m_budget.steps(items.size());
    const std::size_t bytes = items.size() * sizeof(Value);
    return Value(make<ListObject>(bytes, Kind::List, std::move(items)).get());
}

Value Heap::tuple(std::vector<Value> items)
{
    m_budget.steps(items.size());
    const std::size_t bytes = items.size() * sizeof(Value);
    return Value(make<ListObject>(bytes, Kind::Tuple, std::move(items)).get());
}

Value Heap::integer(BigInt number)
{
    if (const auto small = number.toInt64())
        return Value::integer(*small);
    const std::size_t bytes = number.words() * sizeof(std::uint32_t);
    return Value(make<BigIntObject>(bytes, std::move(number)).get());
}

Value Heap::undefined(std::string message)
{
    const std::size_t bytes = message.size();
    return Value(make<UndefinedObject>(bytes, std::move(message)).get());
}

Value Heap::generator(const char *type, std::function<std::vector<Value>()> source)
{
    return Value(make<GeneratorObject>(sizeof(source), type, std::move(source)).get());
}

} // namespace engine::jinja
