// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>

namespace engine {

/// Most that the processor's instructions for matrix products do from registers alone, operations a second of all
/// threads together.
struct PeakRates {
    double integer = 0;  ///< of quantized weights
    double floating = 0; ///< of F32, F16 and BF16 weights
};

/// A tenth of a second. `isa` as ModelInfo::isa, threads >= 1. \throws Error NoDevice when the machine lacks the level
[[nodiscard]] PeakRates measurePeakRates(const std::string &isa, int threads);

} // namespace engine
