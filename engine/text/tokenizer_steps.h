// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/tokenizer_pipeline.h"

namespace engine::tokenizer_steps {

/// Reads `normalizer`, `pre_tokenizer`, `post_processor` and `decoder` of a tokenizer.json into `parts`, whose
/// tokens are complete. `truncation` and `padding` belong to a caller of that file's library and are not applied.
/// \throws Error Refused naming the step and the fault; steps that are not known are refused by type
void read(const Json &root, TokenizerParts &parts);

} // namespace engine::tokenizer_steps
