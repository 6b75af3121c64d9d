// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <memory>

namespace engine {

/// A checkpoint whose matrices have types that GGUF files know, with their columns in order: all others are seen as
/// float32, made when they are asked for.
[[nodiscard]] std::unique_ptr<Checkpoint> withGgufTypes(std::unique_ptr<Checkpoint> folder);

} // namespace engine
