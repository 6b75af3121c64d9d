// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <charconv>
#include <string>
#include <system_error>

namespace cli {

/// Whether all of `text` is one number that `Value` holds.
template<typename Value> [[nodiscard]] bool parseWhole(const std::string &text, Value &value)
{
    const char *end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    return parsed.ec == std::errc() && parsed.ptr == end;
}

/// Validators of number options: they look at the words of the command line before they are converted, which takes ""
/// for 0 and wraps what is too large.
template<typename Value> [[nodiscard]] CLI::Validator numberFrom(Value low, Value high)
{
    return {[low, high](const std::string &text) {
                Value value = 0;
                if (parseWhole(text, value) && value >= low && value <= high)
                    return std::string();
                return "found \"" + text + "\", wanted a whole number from " + std::to_string(low) + " to "
                    + std::to_string(high);
            },
            ""};
}

[[nodiscard]] inline CLI::Validator anyNumber()
{
    return {[](const std::string &text) {
                double value = 0;
                return parseWhole(text, value) ? std::string() : "found \"" + text + "\", wanted a number";
            },
            ""};
}

} // namespace cli
