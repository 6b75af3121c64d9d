// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace engine::jinja {

/// What a value is. The kinds and their behaviour are those of the Python objects that Jinja templates see.
enum class Kind : std::uint8_t {
    Undefined,
    None,
    Bool,
    Int,
    Float,
    BigInt,
    String,
    Bytes,
    List,
    Tuple,
    Dict,
    DictView,
    Range,
    Generator,
    Namespace,
    Builtin, ///< a global function
    Method,  ///< a method bound to its object
    Macro,
    Loop,
    Cycler,
    Joiner,
    Self,
    Scope, ///< variables of one block; never seen by a template
};

class Heap;

/// Base of everything that a value can point to. Counted references, one thread; owned by a Heap.
class Object {
public:
    Object(const Object &) = delete;
    Object &operator=(const Object &) = delete;

    [[nodiscard]] Kind kind() const { return m_kind; }
    [[nodiscard]] Heap &heap() const { return *m_heap; }
    void retain() { ++m_references; }
    inline void release();

protected:
    explicit Object(Kind kind)
        : m_kind(kind)
    {
    }
    virtual ~Object() = default;

private:
    friend class Heap;
    /// Lets go of all values inside, so that objects that hold each other can be deleted in any order.
    virtual void drop() { }

    Kind m_kind;
    unsigned m_references = 0;
    std::size_t m_bytes = 0; ///< charged to the budget
    Heap *m_heap = nullptr;
    Object *m_previous = nullptr; ///< neighbours in the heap's list of living objects
    Object *m_next = nullptr;     ///< or the next one that waits to be deleted
};

/// A counted pointer to one type of object.
template<class T> class Ref {
public:
    Ref() = default;
    explicit Ref(T *object)
        : m_object(object)
    {
        if (m_object != nullptr)
            m_object->retain();
    }
    Ref(const Ref &other)
        : Ref(other.m_object)
    {
    }
    Ref(Ref &&other) noexcept
        : m_object(std::exchange(other.m_object, nullptr))
    {
    }
    Ref &operator=(Ref other) noexcept
    {
        std::swap(m_object, other.m_object);
        return *this;
    }
    ~Ref()
    {
        if (m_object != nullptr)
            m_object->release();
    }
    [[nodiscard]] T *get() const { return m_object; }
    T *operator->() const { return m_object; }
    T &operator*() const { return *m_object; }
    explicit operator bool() const { return m_object != nullptr; }

private:
    T *m_object = nullptr;
};

/// One value of a template: small ones in place, the rest on the heap of the render.
class Value {
public:
    Value() = default; ///< undefined, without a name
    explicit Value(Object *object)
        : m_kind(object->kind())
    {
        m_data.object = object, object->retain();
    }
    Value(const Value &other)
        : m_kind(other.m_kind)
        , m_data(other.m_data)
    {
        if (isObject())
            m_data.object->retain();
    }
    Value(Value &&other) noexcept
        : m_kind(other.m_kind)
        , m_data(other.m_data)
    {
        other.m_kind = Kind::Undefined;
        other.m_data.object = nullptr;
    }
    Value &operator=(Value other) noexcept
    {
        std::swap(m_kind, other.m_kind);
        std::swap(m_data, other.m_data);
        return *this;
    }
    ~Value()
    {
        if (isObject())
            m_data.object->release();
    }

    [[nodiscard]] static Value none();
    [[nodiscard]] static Value boolean(bool value);
    [[nodiscard]] static Value integer(std::int64_t value);
    [[nodiscard]] static Value real(double value);

    [[nodiscard]] Kind kind() const { return m_kind; }
    [[nodiscard]] bool is(Kind kind) const { return m_kind == kind; }
    [[nodiscard]] bool isUndefined() const { return m_kind == Kind::Undefined; }
    [[nodiscard]] bool isNone() const { return m_kind == Kind::None; }
    [[nodiscard]] bool isString() const { return m_kind == Kind::String; }
    /// Bool counts as an integer, as it does in Python.
    [[nodiscard]] bool isSmallInt() const { return m_kind == Kind::Int || m_kind == Kind::Bool; }
    [[nodiscard]] bool isInteger() const { return isSmallInt() || m_kind == Kind::BigInt; }
    [[nodiscard]] bool isNumber() const { return isInteger() || m_kind == Kind::Float; }
    [[nodiscard]] bool isSequence() const { return m_kind == Kind::List || m_kind == Kind::Tuple; }

    [[nodiscard]] std::int64_t asInt() const
    {
        return m_kind == Kind::Bool ? (m_data.boolean ? 1 : 0) : m_data.integer;
    }
    [[nodiscard]] bool asBool() const { return m_data.boolean; }
    [[nodiscard]] double asDouble() const { return m_data.real; }
    [[nodiscard]] Object *object() const { return isObject() ? m_data.object : nullptr; }
    /// The same object or the same small value.
    [[nodiscard]] bool sameAs(const Value &other) const;
    template<class T> [[nodiscard]] T &as() const { return *static_cast<T *>(m_data.object); }
    /// The text of a string. \pre isString()
    [[nodiscard]] inline const std::string &text() const;
    /// The elements of a list or tuple. \pre isSequence()
    [[nodiscard]] inline const std::vector<Value> &items() const;

private:
    [[nodiscard]] bool isObject() const
    {
        return (m_kind >= Kind::BigInt || m_kind == Kind::Undefined) && m_data.object != nullptr;
    }

    union Data {
        Object *object = nullptr;
        std::int64_t integer;
        double real;
        bool boolean;
    };
    Kind m_kind = Kind::Undefined;
    Data m_data;
};

/// Arguments of a call as written: first the positional ones, then the named ones.
struct Arguments {
    std::vector<Value> positional;
    std::vector<std::pair<std::string, Value>> named;
};

} // namespace engine::jinja
