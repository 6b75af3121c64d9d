// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

#include <optional>

namespace engine::jinja {

/// Python's name of a value's type, as error messages use it: str, int, dict, NoneType ...
[[nodiscard]] const char *typeName(const Value &value);
/// Throws what using an undefined value throws; does nothing for other values.
void requireDefined(const Value &value);

[[nodiscard]] bool truth(Heap &heap, const Value &value);
[[nodiscard]] bool equals(Heap &heap, const Value &a, const Value &b);
/// a < b as Python orders values. `sign` names the operator in the fault for types without order.
[[nodiscard]] bool less(Heap &heap, const Value &a, const Value &b, const char *sign = "<");
[[nodiscard]] bool contains(Heap &heap, const Value &container, const Value &item);
/// Equal values have equal hashes. \throws Fault for values that cannot be keys
[[nodiscard]] std::size_t hashOf(Heap &heap, const Value &value);
[[nodiscard]] std::size_t hashOfText(std::string_view text);

/// Number of elements, or nothing for types without a length.
[[nodiscard]] std::optional<std::int64_t> lengthOf(Heap &heap, const Value &value);
/// Characters of a string, counted once.
[[nodiscard]] std::int64_t codePoints(Heap &heap, const Value &text);

/// value[key] for positions and keys (no slices, no attributes); nothing when Python raises LookupError or TypeError.
[[nodiscard]] std::optional<Value> item(Heap &heap, const Value &value, const Value &key);
/// value[start:stop:step]; none stands for a bound that is not written.
[[nodiscard]] Value slice(Heap &heap, const Value &value, const Value &start, const Value &stop, const Value &step);

/// The elements of anything that can be iterated; those of lists, texts and ranges are made when asked for. Texts are
/// quick to read from front to back only.
class Items {
public:
    Items() = default;
    /// \throws Fault for types that cannot be iterated
    Items(Heap &heap, const Value &value);
    [[nodiscard]] std::size_t size() const { return m_size; }
    [[nodiscard]] Value at(std::size_t index) const;
    [[nodiscard]] std::vector<Value> all() const;

private:
    [[nodiscard]] Value character(std::size_t index) const;
    [[nodiscard]] Value viewed(std::size_t index) const;

    Heap *m_heap = nullptr;
    Value m_source;
    std::vector<Value> m_own; ///< where elements have to be made
    std::size_t m_size = 0;
    mutable std::size_t m_index = 0; ///< of the character last read from a text, and where it stands
    mutable std::size_t m_byte = 0;
};
[[nodiscard]] bool isIterable(const Value &value);

} // namespace engine::jinja
