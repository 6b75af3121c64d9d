// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/character_map.h"
#include "engine/text/normal_form.h"
#include "engine/text/pretokenizer_regex.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// The normalizer of BERT: its parts, in order.
struct BertNormalization {
    bool cleansText = true;   ///< drops what is no text; white space becomes spaces
    bool partsChinese = true; ///< spaces around ideographs
    bool stripsAccents = true;
    bool lowercases = true;
};

/// What is done to text before it is cut into words: steps in order, each on the result of the one before.
/// Immutable once built; any thread. Source of the steps' meaning: huggingface/tokenizers, documentation of
/// normalizers.
class Normalizer {
public:
    void addForm(NormalForm form);
    void addLowercase();
    void addStripAccents(); ///< drops combining marks; what is composed keeps them
    void addNmt();          ///< drops control characters; marks, joiners and line ends become spaces
    void addBert(const BertNormalization &rule);
    void addByteLevel(); ///< every byte becomes the character that the byte-level table has for it
    void addStrip(bool left, bool right);
    void addPrepend(std::string text); ///< not before empty text
    void addReplace(std::string text, std::string content);
    void addReplace(Regex pattern, std::string content);
    void addCharacterMap(CharacterMap map);

    [[nodiscard]] bool empty() const { return m_steps.empty(); }
    /// `keepsStart`, where given, is set to whether the result still begins with what stood first in `text`.
    /// \return `text` itself or a view of `storage`. \pre `text` is valid UTF-8
    /// \throws Error Refused when the text grows beyond all sense
    [[nodiscard]] std::string_view apply(std::string_view text, std::string &storage, RegexScratch &scratch,
                                         bool *keepsStart = nullptr) const;

private:
    struct Output {
        std::string text;
        std::size_t limit = 0; ///< bytes
        RegexScratch &scratch;
        bool keepsStart = true;

        void check() const;
        void replaceStart(std::string_view gone, std::string_view content);
    };
    /// Writes the changed text; false, leaving the output alone, when nothing changes.
    using Step = std::function<bool(std::string_view text, Output &out)>;

    using CharacterRule = void (*)(char32_t code, std::string_view bytes, std::string &out);
    void addCharacters(CharacterRule rule);

    std::vector<Step> m_steps;
};

} // namespace engine
