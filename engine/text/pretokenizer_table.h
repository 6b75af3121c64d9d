// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// What some values of `tokenizer.ggml.pre` stand for.
struct PreTokenizerRow {
    std::vector<std::string_view> names;
    std::vector<const char *> patterns; ///< each cuts the words of the one before; matches are words of their own
    bool ignoreMerges = false;          ///< a word that is a token becomes that token
    bool addsBos = false;               ///< unless the file says otherwise
};

[[nodiscard]] const std::vector<PreTokenizerRow> &preTokenizerTable();
/// The split of GPT-2.
[[nodiscard]] std::string_view gpt2Pattern();

/// The `tokenizer.ggml.pre` that stands for splits by `patterns`, or empty when none does. Of several names the one
/// that models of `architecture` are known under is taken, and of those that differ by it, one with `ignoreMerges`.
[[nodiscard]] std::string preTokenizerName(const std::vector<std::string> &patterns, bool ignoreMerges,
                                           std::string_view architecture);
/// Whether the name stands for a tokenizer that ignores merges. \pre `name` is known
[[nodiscard]] bool preTokenizerIgnoresMerges(std::string_view name);

} // namespace engine
