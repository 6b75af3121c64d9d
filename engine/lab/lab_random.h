// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

namespace engine {

/// Seeded numbers for workloads; the same on every machine, unlike the standard library's distributions.
class LabRandom {
public:
    explicit LabRandom(std::uint64_t seed)
        : m_engine(seed)
    {
    }

    [[nodiscard]] double uniform() { return static_cast<double>(m_engine() >> 11U) * 0x1.0p-53; } ///< [0, 1)
    [[nodiscard]] int integer(int low, int high)                                                  ///< both included
    {
        return low + static_cast<int>(uniform() * (static_cast<double>(high) - low + 1.0));
    }
    [[nodiscard]] double exponential(double mean) { return -mean * std::log1p(-uniform()); }
    [[nodiscard]] double normal() ///< Box and Muller
    {
        const double radius = std::sqrt(-2.0 * std::log1p(-uniform()));
        return radius * std::cos(2.0 * std::numbers::pi * uniform());
    }

private:
    std::mt19937_64 m_engine;
};

} // namespace engine
