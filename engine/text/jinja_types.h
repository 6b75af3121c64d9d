// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_bigint.h"
#include "engine/text/jinja_object.h"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engine::jinja {

/// A name that is not there. Using it says what was missing, or that access is refused.
class UndefinedObject final : public Object {
public:
    explicit UndefinedObject(std::string message)
        : Object(Kind::Undefined)
        , message(std::move(message))
    {
    }
    std::string message;
};

class BigIntObject final : public Object {
public:
    explicit BigIntObject(BigInt number)
        : Object(Kind::BigInt)
        , number(std::move(number))
    {
    }
    BigInt number;
};

/// UTF-8 text, or the octets of a bytes value.
class StringObject final : public Object {
public:
    StringObject(Kind kind, std::string text, bool safe)
        : Object(kind)
        , text(std::move(text))
        , safe(safe)
    {
    }
    std::string text;
    bool safe;            ///< marked as HTML that needs no escaping
    long codePoints = -1; ///< counted when first asked for
};

class ListObject final : public Object {
public:
    ListObject(Kind kind, std::vector<Value> items)
        : Object(kind)
        , items(std::move(items))
    {
    }
    std::vector<Value> items;
    bool group = false; ///< a tuple of groupby, whose members also have names

private:
    void drop() override { items.clear(); }
};

/// Keys in the order of insertion. Never changed once a template can see it.
class DictObject final : public Object {
public:
    DictObject()
        : Object(Kind::Dict)
    {
    }
    [[nodiscard]] const std::vector<std::pair<Value, Value>> &entries() const { return m_entries; }
    [[nodiscard]] const Value *find(const Value &key) const;
    [[nodiscard]] const Value *find(std::string_view key) const;
    void insert(Value key, Value value);

private:
    void drop() override { m_entries.clear(); }
    /// Position of the entry that `same` accepts, or -1.
    template<class Same> [[nodiscard]] std::ptrdiff_t look(std::size_t hash, const Same &same) const;
    [[nodiscard]] const Value *at(std::ptrdiff_t position) const;
    void index(std::size_t hash, std::size_t position);
    void rebuild();

    std::vector<std::pair<Value, Value>> m_entries;
    std::vector<std::size_t> m_hashes;
    std::vector<std::uint32_t> m_slots; ///< open addressing, position + 1; empty while the dictionary is small
};

class DictViewObject final : public Object {
public:
    enum class Part { Keys, Values, Items };
    DictViewObject(Value dict, Part part)
        : Object(Kind::DictView)
        , dict(std::move(dict))
        , part(part)
    {
    }
    Value dict;
    Part part;

private:
    void drop() override { dict = Value(); }
};

class RangeObject final : public Object {
public:
    RangeObject(std::int64_t start, std::int64_t stop, std::int64_t step, std::int64_t length)
        : Object(Kind::Range)
        , start(start)
        , stop(stop)
        , step(step)
        , length(length)
    {
    }
    std::int64_t start;
    std::int64_t stop;
    std::int64_t step;
    std::int64_t length;
};

/// Elements that are made when first asked for and can be taken once.
class GeneratorObject final : public Object {
public:
    GeneratorObject(const char *type, std::function<std::vector<Value>()> source)
        : Object(Kind::Generator)
        , type(type)
        , source(std::move(source))
    {
    }
    /// The elements not taken yet.
    std::vector<Value> &rest();

    const char *type;
    std::function<std::vector<Value>()> source;

private:
    void drop() override { source = nullptr, m_items.clear(); }
    std::vector<Value> m_items;
};

class NamespaceObject final : public Object {
public:
    NamespaceObject()
        : Object(Kind::Namespace)
    {
    }
    [[nodiscard]] const Value *find(std::string_view name) const;
    void set(std::string_view name, Value value);
    [[nodiscard]] const std::vector<std::pair<std::string, Value>> &members() const { return m_members; }

private:
    void drop() override { m_members.clear(); }

    std::vector<std::pair<std::string, Value>> m_members;
};

class Interpreter;

class BuiltinObject final : public Object {
public:
    using Function = Value (*)(Interpreter &, Arguments &);
    BuiltinObject(const char *name, Function function)
        : Object(Kind::Builtin)
        , name(name)
        , function(function)
    {
    }
    const char *name;
    Function function;
};

class MethodObject final : public Object {
public:
    using Function = Value (*)(Interpreter &, const Value &self, Arguments &);
    MethodObject(Value self, const char *name, Function function)
        : Object(Kind::Method)
        , self(std::move(self))
        , name(name)
        , function(function)
    {
    }
    Value self;
    const char *name;
    Function function;

private:
    void drop() override { self = Value(); }
};

class CyclerObject final : public Object {
public:
    explicit CyclerObject(std::vector<Value> items)
        : Object(Kind::Cycler)
        , items(std::move(items))
    {
    }
    std::vector<Value> items;
    std::size_t position = 0;

private:
    void drop() override { items.clear(); }
};

class JoinerObject final : public Object {
public:
    explicit JoinerObject(Value separator)
        : Object(Kind::Joiner)
        , separator(std::move(separator))
    {
    }
    Value separator;
    bool used = false;

private:
    void drop() override { separator = Value(); }
};

/// The `self` of a template.
class SelfObject final : public Object {
public:
    SelfObject()
        : Object(Kind::Self)
    {
    }
};

} // namespace engine::jinja
