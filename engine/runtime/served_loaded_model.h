// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/served_model.h"

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// A LoadedModel for the serving loop, with operations that `wrap` makes of the device's. \throws Error as LoadedModel
[[nodiscard]] std::unique_ptr<ServedModel> serveLoadedModel(const std::string &path, const EngineConfig &config,
                                                            const LoadedModel::ProgressCallback &progress,
                                                            std::stop_token stop,
                                                            const LoadedModel::OpsWrapper &wrap = {});

/// Opens a model with `own`, or in a worker started with `workerCommand`, as EngineConfig::process says.
[[nodiscard]] ModelLoader processLoader(ModelLoader own, std::vector<std::string> workerCommand);

} // namespace engine
