// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace engine {

/// When a changed knob takes effect.
enum class Applies { NextStep, NextRequest, Reload };

/// One knob, declared once; panels, settings and the command line are derived from the table.
struct ParameterSpec {
    std::string_view key;   ///< as the command line spells it, without dashes: "top-p", "max-num-seqs"
    std::string_view label; ///< sentence case
    std::string_view unit;  ///< empty when none
    double minimum = 0;
    double maximum = 0;
    double step = 0; ///< smallest change; 1 for whole numbers
    double defaultValue = 0;
    Applies applies = Applies::NextStep;
    std::string_view group;                      ///< "sampling" or "engine"
    std::string_view help;                       ///< one sentence: what it does and what it costs
    bool powersOfTwo = false;                    ///< values are minimum, 2 * minimum, ...
    std::span<const std::string_view> choices{}; ///< names of the values 0, 1, ...; empty for a number
};

[[nodiscard]] std::span<const ParameterSpec> parameterSpecs();
[[nodiscard]] const ParameterSpec *findParameter(std::string_view key);

/// Empty when `value` is allowed, else one sentence naming key, value and range. NaN is refused.
[[nodiscard]] std::string checkParameter(const ParameterSpec &spec, double value);

} // namespace engine
