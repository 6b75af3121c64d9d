// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/parameters.h"

#include <QString>

#include <vector>

namespace ui {

class EngineClient;

/// The knobs of the engine that act without a new load, in the order of the table.
[[nodiscard]] std::vector<const engine::ParameterSpec *> liveKnobs();
/// Those of them in which `a` and `b` differ.
[[nodiscard]] std::vector<const engine::ParameterSpec *> liveDifferences(const engine::EngineConfig &a,
                                                                         const engine::EngineConfig &b);
/// "Block size 16 tokens → 32 tokens, Threads auto → 2"; empty when nothing differs.
[[nodiscard]] QString liveChangeText(const engine::EngineConfig &from, const engine::EngineConfig &to);
/// Asks the engine for the live values of `wanted`; what is asked for already is left alone.
void requestLive(EngineClient &client, const engine::EngineConfig &wanted);
/// A change was asked for and not yet answered.
[[nodiscard]] bool isAnyPending(const EngineClient &client);

} // namespace ui
