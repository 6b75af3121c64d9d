// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"
#include "engine/text/tokenizer_pipeline.h"

#include <vector>

namespace engine::tokenizer_steps {

/// Reads `normalizer`, `pre_tokenizer`, `post_processor` and `decoder` of a tokenizer.json into `parts`, whose
/// tokens and model are complete. `truncation` and `padding` belong to a caller of that file's library and are not
/// applied.
/// \throws Error Refused naming the step and the fault; steps that are not known are refused by type
void read(const Json &root, TokenizerParts &parts);

/// Reads `added_tokens`. A token whose text is in the model's vocabulary of `modelTokens` texts has that id and the
/// others have the next free ones in order, whatever the entries say; an entry with empty text is ignored. Ids of the
/// others are added to `tokens` and to `outsideModel`.
/// \throws Error Refused naming the entry and the fault
[[nodiscard]] std::vector<AddedToken> readAddedTokens(const Json &root, std::size_t modelTokens, TokenTable &tokens,
                                                      std::vector<int> &outsideModel);

/// The options of BPE that stand beside its vocabulary and merges; `parts.tokens` holds the model's tokens.
/// \throws Error Refused naming the option and the fault
void readBpeOptions(const Json &model, TokenizerParts &parts);

} // namespace engine::tokenizer_steps
