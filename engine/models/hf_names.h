// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/hf_family.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace engine {

/// Names that most families share: embedding, norms, projections of attention and of the gated feed-forward part, and
/// experts one by one or fused.
[[nodiscard]] std::span<const HfName> commonHfNames();

/// A tensor's name in our language.
struct HfMatch {
    std::string gguf; ///< with its ending, ".weight" where the file gives none
    HfForm form = HfForm::Plain;
    int layer = -1; ///< first number in the name, -1 = none
};

/// Looks in `names`, then in the common ones. Prefixes of models that hold a text model ("language_model.") do not
/// count. Empty for a name that no row fits.
[[nodiscard]] std::optional<HfMatch> matchHfName(std::string_view name, std::span<const HfName> names);

/// The name that a tensor of ours has in a folder by those tables; `gguf` itself where no row makes it.
[[nodiscard]] std::string hfNameOf(std::string_view gguf, std::span<const HfName> names);

/// `name` as it stands in a model that is nothing but a text model.
[[nodiscard]] std::string plainHfName(std::string_view name);

/// True for what a network computes itself and old files store beside the weights.
[[nodiscard]] bool isDerivedHfTensor(std::string_view name);

} // namespace engine
