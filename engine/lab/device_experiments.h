// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/device_side.h"

namespace engine::device {

/// Contexts that experiments use at most.
constexpr int mostModelLen = 2048;

[[nodiscard]] ExperimentResult paging(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult dynamicBatching(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult overload(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult prefixCache(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult chunkedPrefill(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult flashAttention(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult groupedQueries(const DeviceTrial &trial);
[[nodiscard]] ExperimentResult stepCost(const DeviceTrial &trial);

} // namespace engine::device
