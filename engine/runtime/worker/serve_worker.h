// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/served_model.h"

namespace engine {

/// The work of a worker: a model that `loader` opens, for the engine at the other end of workerDescriptor, until that
/// is done with it or the device is lost. Returns the exit code.
[[nodiscard]] int serveWorker(const ModelLoader &loader);

} // namespace engine
