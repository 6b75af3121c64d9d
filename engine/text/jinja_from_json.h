// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/jinja_value.h"

namespace engine::jinja {

/// Makes a value of a JSON value. Integers beyond 64 bits, which JSON keeps as floats here, become integers again.
[[nodiscard]] Value fromJson(Heap &heap, const Json &json);

} // namespace engine::jinja
