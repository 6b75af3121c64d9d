// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

#include <array>
#include <initializer_list>
#include <string_view>

namespace engine::jinja {

/// Arguments of a built-in function sorted to its parameters, as Python binds them.
class Bound {
public:
    static constexpr std::size_t kMaxParameters = 6;

    /// The first `required` names must be given. \throws Fault that names the function and the argument
    Bound(const char *function, const Arguments &arguments, std::initializer_list<const char *> names,
          std::size_t required = 0);

    [[nodiscard]] bool has(std::size_t index) const { return m_given[index]; }
    /// Given and not none.
    [[nodiscard]] bool isSet(std::size_t index) const { return m_given[index] && !m_values[index].isNone(); }
    [[nodiscard]] const Value &operator[](std::size_t index) const { return m_values[index]; }

    /// \throws Fault when the argument has another type
    [[nodiscard]] std::int64_t integer(std::size_t index, std::int64_t absent) const;
    /// An integer that Python wants to fit in 64 bits.
    [[nodiscard]] std::int64_t count(std::size_t index, std::int64_t absent) const;
    [[nodiscard]] bool boolean(Heap &heap, std::size_t index, bool absent) const;
    [[nodiscard]] const std::string &text(std::size_t index) const;

private:
    void put(std::size_t index, const Value &value);

    const char *m_function;
    std::array<const char *, kMaxParameters> m_names{};
    std::array<Value, kMaxParameters> m_values;
    std::array<bool, kMaxParameters> m_given{};
};

/// \throws Fault when there are any
void requireNoArguments(const char *function, const Arguments &arguments);

/// A width or count: negative is 0, and what no budget could hold fails as too much memory.
[[nodiscard]] std::size_t sizeArgument(Heap &heap, const Value &value, const char *what);

} // namespace engine::jinja
