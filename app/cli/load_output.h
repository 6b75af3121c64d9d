// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/output.h"
#include "engine/lab/load_report.h"

#include <string>

namespace cli {

/// The keys of the command-line contract; what is not known is null.
[[nodiscard]] Json loadJson(const engine::LoadReport &report);
/// A table in the manner of vLLM's benchmark, with the formula of each group.
[[nodiscard]] std::string loadText(const engine::LoadReport &report);

} // namespace cli
