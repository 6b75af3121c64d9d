// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar_matcher.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace engine {

/// The grammars of the requests of one model. Answers of one schema share what is known of it, and the last few schemas
/// are kept, as clients ask for the same one again and again. Thread: the engine thread.
class AnswerGrammars {
public:
    /// \pre `tokenizer` outlives this
    AnswerGrammars(const Tokenizer &tokenizer, int vocabSize);

    /// \throws Error Refused when the schema is wrong or says what is not supported
    [[nodiscard]] std::unique_ptr<GrammarMatcher> matcher(const std::string &schema);

    /// What calls must be when a tool of the list is strict, else null. Only families whose calls stand between
    /// `<tool_call>` markers can be held to it; with other markers a strict tool is refused. \throws Error Refused
    [[nodiscard]] std::shared_ptr<GrammarStates> strictCalls(const std::string &toolsJson);
    [[nodiscard]] int callMarker() const; ///< the token before a call, or -1

private:
    [[nodiscard]] std::shared_ptr<GrammarStates> states(const std::string &schema);

    struct Known {
        std::string schema;
        std::shared_ptr<GrammarStates> states;
    };

    const Tokenizer &m_tokenizer;
    int m_vocabSize;
    std::shared_ptr<const SortedVocabulary> m_vocabulary; // made when first needed
    std::vector<Known> m_known;                           // the newest last
};

} // namespace engine
