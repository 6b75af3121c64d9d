// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_interpreter.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace engine::jinja {

/// A global function.
struct Builtin {
    const char *name;
    BuiltinObject::Function function;
};
[[nodiscard]] std::span<const Builtin> builtins();

/// A method of a type.
struct Method {
    const char *name;
    MethodObject::Function function;
};
[[nodiscard]] std::span<const Method> textMethods();
[[nodiscard]] std::span<const Method> textPredicates();     ///< isalpha() and its like
[[nodiscard]] std::span<const Method> methodsOf(Kind kind); ///< of all types but text

/// A filter: the value before the bar, and the arguments in brackets.
struct Filter {
    const char *name;
    Value (*function)(Interpreter &, const Value &input, Arguments &);
};
[[nodiscard]] std::span<const Filter> textFilters();
[[nodiscard]] std::span<const Filter> layoutFilters();
[[nodiscard]] std::span<const Filter> sequenceFilters();
[[nodiscard]] std::span<const Filter> selectionFilters();
[[nodiscard]] std::span<const Filter> numberFilters();

[[nodiscard]] Value callJoiner(Interpreter &owner, JoinerObject &joiner, const Arguments &arguments);
/// \throws Fault for a namespace member that templates may not have
void checkMemberName(std::string_view name);

/// The value that a dotted path ("a.b.0") or an integer leads to.
[[nodiscard]] Value followPath(Interpreter &owner, const Value &value, const Value &path);

/// The date and time that strftime_now formats. `frozen` is YYYY-MM-DD[Thh:mm:ss], or empty for the current time.
/// \throws Fault
[[nodiscard]] std::string formatTime(Heap &heap, std::string_view format, const std::string &frozen);

} // namespace engine::jinja
