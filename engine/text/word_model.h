// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace engine {

/// Turns words into ids, by merging (Bpe) or by the best-scored parts (Unigram). Immutable; any thread.
class WordModel {
public:
    WordModel() = default;
    virtual ~WordModel() = default;
    WordModel(const WordModel &) = delete;
    WordModel &operator=(const WordModel &) = delete;

    /// Appends the ids of the words of `text`; word i is the bytes begins[i]..ends[i].
    virtual void encode(std::string_view text, std::span<const std::uint32_t> begins,
                        std::span<const std::uint32_t> ends, std::vector<int> &ids) const;

private:
    virtual void encodeWord(std::string_view word, std::vector<int> &ids) const = 0;
};

/// For text that no token stands for. `unknown` is what the file calls the token for such text, which its model lacks;
/// empty when it names none. \throws Error Refused, always
[[noreturn]] void refuseUnknown(std::string_view text, std::string_view unknown);

} // namespace engine
