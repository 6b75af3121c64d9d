// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/modelled.h"
#include "engine/lab/experiment.h"
#include "engine/lab/load_report.h"

#include <span>

namespace engine {

/// vLLM's default on an A100, and the batch of the published benchmarks.
inline constexpr int modelledMaxSeqs = 256;
/// What the engine takes when nothing else is asked for.
inline constexpr int modelledMaxLen = 8192;
inline constexpr double modelledReserve = 0.20;

/// The engine's own defaults on `target`: every KV block that fits, blocks of 16 tokens, no prefix cache.
[[nodiscard]] ModelledSetup defaultSetup(const ModelledTarget &target);

/// One side of a modelled experiment, reported as a load is.
[[nodiscard]] LoadReport runSide(const ModelledTarget &target, const ModelledSetup &setup,
                                 std::span<const ModelledRequest> requests, const ModelledFollowUp &followUp = {});

/// What every modelled experiment says about itself.
[[nodiscard]] Figures describeTarget(const ModelledTarget &target, const ModelledSetup &setup, std::uint64_t seed);

} // namespace engine
