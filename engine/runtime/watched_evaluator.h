// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/evaluate.h"
#include "engine/runtime/loaded_model.h"

namespace engine {

/// openEvaluator with operations that `wrap` puts around those of the backend.
[[nodiscard]] std::unique_ptr<Evaluator> openWatchedEvaluator(const std::string &path, const EngineConfig &config,
                                                              std::stop_token stop,
                                                              const LoadedModel::OpsWrapper &wrap);

} // namespace engine
