// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/hf_family.h"

#include <string>
#include <vector>

namespace engine {

/// Translates what all families have in common, sizes, norms, rotary embedding, windows, scales and experts, to GGUF's
/// keys, and says which activation the family computes. Values are checked as far as they would be read.
/// \throws Error Refused naming file, key, found and wanted
void translateCommonKeys(const HfConfig &config, const HfFamily &family, HfKeys &keys);

/// `rope_scaling`, or the transformers-5 form `rope_parameters`, with the base, also where each kind of layer has its
/// own.
void translateRope(const HfConfig &config, HfKeys &keys);

/// Which layers have a window, by `layer_types`, an interval or `max_window_layers`.
void translateWindow(const HfConfig &config, HfKeys &keys);

/// Layers with a window of `sliding_window` tokens, one flag each; replaces what was set before.
void setWindowedLayers(const HfConfig &config, HfKeys &keys, const std::vector<bool> &windowed);

/// Values of generation_config.json that a request may start from, as `general.sampling.*`, and the ids that end an
/// answer, from there and from the configuration, as `tokenizer.ggml.eos_token_ids`.
void translateGeneration(const HfConfig *generation, const HfConfig &config, Metadata &metadata);

} // namespace engine
