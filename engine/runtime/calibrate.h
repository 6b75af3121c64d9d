// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/quantize.h"
#include "engine/io/importance_file.h"

namespace engine {

/// Runs `options.calibrationText` through the model `options.input`, in chunks of `options.calibrationContext` tokens
/// with BOS first, and sums the squares of what meets each input channel of every matrix but the head.
/// \throws Error Refused when the text is shorter than one chunk; Cancelled; and as loading does
[[nodiscard]] ImportanceMatrix measureImportance(const QuantizeOptions &options, std::stop_token stop);

} // namespace engine
