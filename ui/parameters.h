// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/api/parameters.h"
#include "engine/api/request.h"

#include <optional>
#include <string_view>

namespace ui {

/// The value of the field that a ParameterSpec names, or nothing when the structure has no such field.
[[nodiscard]] std::optional<double> parameterValue(const engine::SamplingParams &sampling, std::string_view key);
[[nodiscard]] std::optional<double> parameterValue(const engine::EngineConfig &config, std::string_view key);
/// Sets that field; false when the structure has none.
bool setParameterValue(engine::SamplingParams &sampling, std::string_view key, double value);
bool setParameterValue(engine::EngineConfig &config, std::string_view key, double value);
/// `sampling` with the values that a model suggests in place of its own.
[[nodiscard]] engine::SamplingParams suggestedSampling(engine::SamplingParams sampling,
                                                       const engine::SuggestedSampling &suggested);
/// `asked` with every value brought into the range that the table allows it.
[[nodiscard]] engine::SamplingParams allowedSampling(const engine::SamplingParams &asked);

} // namespace ui
