// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/prometheus_text.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace cli {
namespace {

/// The sample of one line, when the line is of metric `name`.
std::optional<double> sampleOf(std::string_view line, std::string_view name)
{
    if (!line.starts_with(name))
        return std::nullopt;
    line.remove_prefix(name.size());
    if (line.starts_with('{')) {
        const std::size_t end = line.rfind('}');
        if (end == std::string_view::npos)
            return std::nullopt;
        line.remove_prefix(end + 1);
    }
    if (!line.starts_with(' '))
        return std::nullopt;
    const std::string number(line);
    char *end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (end == number.c_str() || !std::isfinite(value))
        return std::nullopt;
    return value;
}

std::optional<double> valueOf(std::string_view text, const std::string &name)
{
    std::optional<double> sum;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (const auto value = sampleOf(text.substr(0, end), name))
            sum = sum.value_or(0) + *value;
        if (end == std::string_view::npos)
            break;
        text.remove_prefix(end + 1);
    }
    return sum;
}

} // namespace

std::optional<double> prometheusValue(std::string_view text, std::string_view stem)
{
    for (const char *prefix : {"lathe_", "vllm:"})
        for (const char *suffix : {"", "_total"})
            if (const auto value = valueOf(text, prefix + std::string(stem) + suffix))
                return value;
    return std::nullopt;
}

} // namespace cli
