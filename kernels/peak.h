// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>

namespace kernels {

/// Most that the instructions of the matrix products do from registers alone, operations (two for each product) a
/// second of all threads together.
struct PeakRates {
    double integer = 0; ///< int8 products summed to 32 bits
    double floating = 0;
};

/// Best of several short runs, some 50 ms each kind. `isa` as OpsOptions::isa, threads >= 1. \throws Error as makeOps
[[nodiscard]] PeakRates measurePeak(std::string_view isa, int threads);

} // namespace kernels
