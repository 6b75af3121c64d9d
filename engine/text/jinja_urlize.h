// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_value.h"

namespace engine::jinja {

/// The filter urlize: addresses and e-mail addresses in a text become HTML links.
[[nodiscard]] Value urlize(Interpreter &owner, const Value &input, Arguments &arguments);

} // namespace engine::jinja
