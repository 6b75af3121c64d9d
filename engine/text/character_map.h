// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// A SentencePiece normalization table: short strings and what replaces them, in a double-array trie. Immutable;
/// any thread. Source: google/sentencepiece, src/normalizer.h (layout of precompiled_charsmap); which part of a text
/// is looked up follows huggingface/tokenizers, normalizers/precompiled.rs.
class CharacterMap {
public:
    /// An empty text gives the map that changes nothing. \throws Error Refused for what is no such table
    [[nodiscard]] static CharacterMap fromBase64(std::string_view text);
    [[nodiscard]] static CharacterMap fromBytes(std::string_view bytes); ///< as above, of the table's own bytes
    [[nodiscard]] static std::string bytesOfBase64(std::string_view text);

    /// Appends the replaced text; stops soon after `limit` bytes. \pre `text` is valid UTF-8
    void append(std::string_view text, std::string &out, std::size_t limit) const;

private:
    struct Found {
        bool any = false;
        std::string_view text;
    };

    /// The replacement of the shortest entry that `text` begins with.
    [[nodiscard]] Found find(std::string_view text) const;
    void appendCluster(std::string_view cluster, std::string &out) const;

    std::vector<std::uint32_t> m_units; ///< double array
    std::string m_texts;                ///< replacements, each ended by a zero byte
};

} // namespace engine
