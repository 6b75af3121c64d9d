// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/tokenizer.h"

#include <memory>
#include <string>

namespace engine {

/// The vocabulary of a model whose kind of tokenizer is not supported: its ids can be read and generated, but text
/// cannot be encoded, which is Error Refused with `reason`.
[[nodiscard]] std::unique_ptr<Tokenizer> makeIdsOnlyTokenizer(VocabularyData data, std::string reason);

} // namespace engine
