// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/stats.h"

#include <string>

namespace serve {

/// The totals as Prometheus text: vLLM's names behind `lathe_`, and with `vllmNames` copies behind `vllm:`,
/// those by which earlier releases of it called some of them too.
[[nodiscard]] std::string metricsText(const engine::EngineTotals &totals, const std::string &model,
                                      const engine::EngineConfig &effective, bool vllmNames);

} // namespace serve
