// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/served_model.h"

#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// A model whose weights, cache and device are those of a worker, started with `command`; vocabulary and template are
/// here. Every end of the worker is kernels::DeviceLost. \throws Error as the worker's loader, NoDevice when the worker
/// cannot be started or ends, Cancelled
[[nodiscard]] std::unique_ptr<ServedModel> openRemoteModel(const std::string &path, const EngineConfig &config,
                                                           const LoadedModel::ProgressCallback &progress,
                                                           const std::stop_token &stop,
                                                           const std::vector<std::string> &command);

} // namespace engine
