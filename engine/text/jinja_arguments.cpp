// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"

#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_operators.h"

#include <algorithm>

namespace engine::jinja {

Bound::Bound(const char *function, const Arguments &arguments, std::initializer_list<const char *> names,
             std::size_t required)
    : m_function(function)
{
    std::copy(names.begin(), names.end(), m_names.begin());
    const std::size_t count = names.size();
    if (arguments.positional.size() > count)
        fail(std::string(function) + "() takes at most " + std::to_string(count) + " argument(s), "
             + std::to_string(arguments.positional.size()) + " given");
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        put(i, arguments.positional[i]);
    for (const auto &[name, value] : arguments.named) {
        const auto found =
            std::find_if(names.begin(), names.end(), [&name = name](const char *other) { return name == other; });
        if (found == names.end())
            fail(std::string(function) + "() got an unexpected keyword argument '" + name + "'");
        put(static_cast<std::size_t>(found - names.begin()), value);
    }
    for (std::size_t i = 0; i < required; ++i) {
        if (!m_given[i])
            fail(std::string(function) + "() misses the required argument '" + m_names[i] + "'");
    }
}

void Bound::put(std::size_t index, const Value &value)
{
    if (m_given[index])
        fail(std::string(m_function) + "() got multiple values for argument '" + m_names[index] + "'");
    m_given[index] = true;
    m_values[index] = value;
}

std::int64_t Bound::integer(std::size_t index, std::int64_t absent) const
{
    if (!m_given[index])
        return absent;
    requireDefined(m_values[index]);
    if (!m_values[index].isInteger())
        fail(std::string(m_function) + "(): the argument '" + m_names[index] + "' must be an integer, not "
             + typeName(m_values[index]));
    return clampToInt64(m_values[index]);
}

std::int64_t Bound::count(std::size_t index, std::int64_t absent) const
{
    const std::int64_t out = integer(index, absent);
    if (m_given[index] && m_values[index].is(Kind::BigInt))
        fail(std::string(m_function) + "(): the argument '" + m_names[index] + "' is too large");
    return out;
}

bool Bound::boolean(Heap &heap, std::size_t index, bool absent) const
{
    return m_given[index] ? truth(heap, m_values[index]) : absent;
}

const std::string &Bound::text(std::size_t index) const
{
    requireDefined(m_values[index]);
    if (!m_values[index].isString())
        fail(std::string(m_function) + "(): the argument '" + m_names[index] + "' must be str, not "
             + typeName(m_values[index]));
    return m_values[index].text();
}

void requireNoArguments(const char *function, const Arguments &arguments)
{
    if (!arguments.positional.empty() || !arguments.named.empty())
        fail(std::string(function) + " takes no arguments");
}

std::size_t sizeArgument(Heap &heap, const Value &value, const char *what)
{
    requireDefined(value);
    if (!value.isInteger())
        fail(std::string("the ") + what + " must be an integer, not " + typeName(value));
    const std::int64_t size = std::max<std::int64_t>(0, clampToInt64(value));
    heap.budget().take(static_cast<std::size_t>(size));
    heap.budget().giveBack(static_cast<std::size_t>(size));
    return static_cast<std::size_t>(size);
}

} // namespace engine::jinja
