// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/output.h"
#include "app/cli/session.h"

namespace cli {

/// One finished request as `generate` and `chat` print it.
[[nodiscard]] Json resultJson(const RequestResult &result);

/// Throws what ended the request when it failed.
void throwIfFailed(const RequestResult &result);

} // namespace cli
