// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/inspect.h"

#include <optional>

namespace engine {

/// Operations (two for each weight) of the matrix products of one token, by the kind of arithmetic. Attention and what
/// works on single rows are not counted.
struct TokenOperations {
    double integer = 0;
    double floating = 0;

    [[nodiscard]] double all() const { return integer + floating; }
    TokenOperations &operator+=(const TokenOperations &other);
    [[nodiscard]] TokenOperations operator*(double factor) const;
};

struct ModelOperations {
    TokenOperations body; ///< of every token
    TokenOperations head; ///< of a token whose logits are wanted
};

/// From the tensors of a GGUF file, inspected with tensors and metadata; nothing for other formats, whose tensors do
/// not tell how many weights they hold.
[[nodiscard]] std::optional<ModelOperations> countOperations(const ModelDescription &model);

} // namespace engine
