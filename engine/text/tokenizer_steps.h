// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/tokenizer_pipeline.h"

#include <vector>

namespace engine::tokenizer_steps {

/// Reads `normalizer`, `pre_tokenizer`, `post_processor` and `decoder` of a tokenizer.json into `parts`, whose
/// tokens are complete. `truncation` and `padding` belong to a caller of that file's library and are not applied.
/// \throws Error Refused naming the step and the fault; steps that are not known are refused by type
void read(const Json &root, TokenizerParts &parts);

/// Reads `added_tokens`. A token whose text is in the model's vocabulary has that id, whatever the entry says; an entry
/// with empty text is ignored; ids of other tokens are added to `tokens` and to `outsideModel`.
/// \throws Error Refused naming the entry and the fault
[[nodiscard]] std::vector<AddedToken> readAddedTokens(const Json &root, TokenTable &tokens,
                                                      std::vector<int> &outsideModel);

} // namespace engine::tokenizer_steps
