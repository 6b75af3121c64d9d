// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string_view>

namespace cli {

/// The value of a metric in Prometheus text: the sum over its label sets. `stem` is vLLM's name without prefix, such as
/// "num_preemptions"; it is found as `lathe_` or `vllm:` + stem, with or without `_total`. Nothing when it is not
/// there.
[[nodiscard]] std::optional<double> prometheusValue(std::string_view text, std::string_view stem);

} // namespace cli
