// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/stop_matcher.h"
#include "engine/text/detokenizer.h"
#include "engine/text/grammar_matcher.h"
#include "engine/text/output_parser.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// The choices of one question that are open, as they end. Thread: the engine thread.
struct ChoiceGroup {
    int asked = 0;
    int open = 0;
    int longest = 0; ///< tokens of those that have ended
};

/// One request's output on its way from tokens to text: unfinished characters and possible stop strings are held
/// back, and with a parser reasoning and tool calls become fields of their own. Thread: the engine thread.
/// \pre the tokenizer outlives this
class RequestStream {
public:
    /// `seed` is used where `sampling` names none.
    RequestStream(const Tokenizer &tokenizer, SamplingParams sampling, std::uint64_t seed);
    /// Sorts what follows. \pre nothing was appended
    void setParser(std::unique_ptr<OutputParser> parser) { m_parser = std::move(parser); }

    /// Every token is then chosen among those that the grammar allows.
    void setGrammar(std::unique_ptr<GrammarMatcher> grammar) { m_grammar = std::move(grammar); }
    /// The same, but only for what follows the token `marker` until it is complete: a tool call.
    void setCallGrammar(int marker, std::shared_ptr<GrammarStates> calls);
    [[nodiscard]] GrammarMatcher *grammar() const { return m_grammar.get(); } ///< null: any text

    /// One of the answers to a question that has several.
    void setChoices(std::shared_ptr<ChoiceGroup> choices);
    [[nodiscard]] ChoiceGroup *choices() const { return m_choices.get(); } ///< null: it is the only one

    [[nodiscard]] const SamplingParams &sampling() const { return m_sampling; }
    [[nodiscard]] std::uint64_t seed() const { return m_sampling.seed.value_or(m_seed); }
    /// From the next token on; text held back is looked at again under the new stop strings.
    void setSampling(SamplingParams sampling);

    /// Whether the answer ends with this token: the model means it to, or the request says so.
    [[nodiscard]] bool isEnd(int token) const;
    /// One bit for each of `vocab` tokens that ends no answer. Valid until the next call.
    [[nodiscard]] std::span<const std::uint64_t> unending(std::size_t vocab);
    /// What can be shown after this token. An end token adds none.
    [[nodiscard]] OutputDelta append(int token, bool isEnd);
    [[nodiscard]] bool stopped() const { return m_matcher.matched(); }
    /// What is held back at the end; empty after a stop string.
    [[nodiscard]] OutputDelta flush();

private:
    void add(std::string_view text, OutputDelta &out);
    [[nodiscard]] std::string heldText();
    [[nodiscard]] bool isKnown(int token) const; ///< networks may have more ids than their tokenizers

    const Tokenizer &m_tokenizer;
    Detokenizer m_detokenizer;
    SamplingParams m_sampling;
    std::uint64_t m_seed;
    StopMatcher m_matcher;
    void followGrammar(int token);

    std::vector<std::uint64_t> m_unending; // made when first asked for
    std::shared_ptr<ChoiceGroup> m_choices;
    std::unique_ptr<GrammarMatcher> m_grammar;
    std::shared_ptr<GrammarStates> m_calls; // null: calls are free
    int m_callMarker = -1;
    std::unique_ptr<OutputParser> m_parser; // null: everything is content
    std::string m_replayed; // shown with the next token: held back under stop strings that were replaced
};

} // namespace engine
