// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_budget.h"
#include "engine/text/jinja_types.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace engine::jinja {

/// Makes and owns all objects of one render, within its budget.
class Heap {
public:
    explicit Heap(const TemplateLimits &limits)
        : m_budget(limits)
    {
    }
    ~Heap();
    Heap(const Heap &) = delete;
    Heap &operator=(const Heap &) = delete;

    [[nodiscard]] Budget &budget() { return m_budget; }

    /// Makes an object; `bytes` is what it holds beyond itself.
    template<class T, class... Args> Ref<T> make(std::size_t bytes, Args &&...args)
    {
        charge(bytes + sizeof(T));
        T *object = new T(std::forward<Args>(args)...);
        adopt(object, bytes + sizeof(T));
        return Ref<T>(object);
    }
    [[nodiscard]] Value string(std::string text, bool safe = false);
    [[nodiscard]] Value bytes(std::string octets);
    [[nodiscard]] Value list(std::vector<Value> items);
    [[nodiscard]] Value tuple(std::vector<Value> items);
    [[nodiscard]] Value integer(BigInt number); ///< small when it fits
    [[nodiscard]] Value undefined(std::string message);
    [[nodiscard]] Value generator(const char *type, std::function<std::vector<Value>()> source);
    /// Charges bytes that a living object begins to hold.
    void grow(Object &object, std::size_t bytes);

private:
    friend class Object;
    void charge(std::size_t bytes);
    void adopt(Object *object, std::size_t bytes);
    void retire(Object *object) noexcept;
    void unlink(Object *object) noexcept;

    Budget m_budget;
    Object *m_first = nullptr;
    Object *m_dead = nullptr; ///< waiting to be deleted: a loop deletes chains of any length without recursion
    bool m_draining = false;
    bool m_closing = false;
};

inline void Object::release()
{
    if (--m_references == 0)
        m_heap->retire(this);
}

inline const std::string &Value::text() const
{
    return as<StringObject>().text;
}

inline const std::vector<Value> &Value::items() const
{
    return as<ListObject>().items;
}

} // namespace engine::jinja
