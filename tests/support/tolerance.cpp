// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/tolerance.h"

#include <cmath>
#include <limits>

namespace tolerance {

double nmse(std::span<const float> found, std::span<const float> wanted)
{
    if (found.size() != wanted.size())
        return std::numeric_limits<double>::infinity();
    double difference = 0.0;
    double square = 0.0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (!std::isfinite(found[i]) || !std::isfinite(wanted[i])) {
            if (std::isnan(found[i]) != std::isnan(wanted[i]) || (!std::isnan(found[i]) && found[i] != wanted[i]))
                return std::numeric_limits<double>::infinity();
            continue;
        }
        const double delta = static_cast<double>(found[i]) - wanted[i];
        difference += delta * delta;
        square += static_cast<double>(wanted[i]) * wanted[i];
    }
    return difference == 0.0 ? 0.0 : difference / square;
}

double largestDifference(std::span<const float> found, std::span<const float> wanted)
{
    double largest = found.size() == wanted.size() ? 0.0 : std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < found.size() && i < wanted.size(); ++i) {
        if (std::isnan(found[i]) && std::isnan(wanted[i]))
            continue;
        const double difference = std::abs(static_cast<double>(found[i]) - wanted[i]);
        largest = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(largest, difference);
    }
    return largest;
}

double product(kernels::DType weight)
{
    return kernels::info(weight).quantized ? 1.6e-5 : 1e-10;
}

} // namespace tolerance
