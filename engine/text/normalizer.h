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

/// What is done to text before it is cut into words: steps in order, each on the result of the one before.
/// Immutable once built; any thread. Source of the steps' meaning: huggingface/tokenizers, documentation of
/// normalizers.
class Normalizer {
public:
    void addForm(NormalForm form);
    void addLowercase();
    void addStripAccents(); ///< drops combining marks; what is composed keeps them
    void addStrip(bool left, bool right);
    void addPrepend(std::string text); ///< not before empty text
    void addReplace(std::string text, std::string content);
    void addReplace(Regex pattern, std::string content);
    void addCharacterMap(CharacterMap map);

    [[nodiscard]] bool empty() const { return m_steps.empty(); }
    /// \return `text` itself or a view of `storage`. \pre `text` is valid UTF-8
    /// \throws Error Refused when the text grows beyond all sense
    [[nodiscard]] std::string_view apply(std::string_view text, std::string &storage, RegexScratch &scratch) const;

private:
    struct Output {
        std::string text;
        std::size_t limit = 0; ///< bytes
        RegexScratch &scratch;

        void check() const;
    };
    /// Writes the changed text; false, leaving the output alone, when nothing changes.
    using Step = std::function<bool(std::string_view text, Output &out)>;

    std::vector<Step> m_steps;
};

} // namespace engine
