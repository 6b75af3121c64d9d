// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/parameters.h"

#include <QString>

#include <span>
#include <string_view>

namespace engine {
struct ModelInfo;
}

namespace ui {

class Settings;

/// What a measurement sends: random prompts, all lengths drawn by the seed from half to one and a half of their mean.
struct Workload {
    int requests = 16; ///< in one round
    int clients = 8;   ///< open requests at most
    int promptTokens = 128;
    int outputTokens = 32;
    int sharedPrefix = 0; ///< tokens that all prompts of a round begin with, on top of the others
    int rounds = 5;       ///< with each setting
    int seed = 7;
    bool operator==(const Workload &) const = default;

    /// Tokens of its longest request.
    [[nodiscard]] int longest() const;
};

/// Its knobs, as the sliders need them.
[[nodiscard]] std::span<const engine::ParameterSpec> workloadSpecs();
[[nodiscard]] int workloadValue(const Workload &workload, std::string_view key);
void setWorkloadValue(Workload &workload, std::string_view key, int value);

[[nodiscard]] Workload storedWorkload(const Settings &settings);
void storeWorkload(Settings &settings, const Workload &workload);

/// "16 requests, 8 at a time, 64 to 192 prompt and 16 to 48 output tokens, seed 7"
[[nodiscard]] QString workloadText(const Workload &workload);
/// Why it cannot run on this model, as a sentence; empty when it can.
[[nodiscard]] QString workloadFault(const Workload &workload, const engine::ModelInfo &model);

} // namespace ui
