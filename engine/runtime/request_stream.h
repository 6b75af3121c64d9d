// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/runtime/stop_matcher.h"
#include "engine/text/detokenizer.h"

#include <cstdint>
#include <string>

namespace engine {

/// One request's output on its way from tokens to text: unfinished characters and possible stop strings are held
/// back. Thread: the engine thread. \pre the tokenizer outlives this
class RequestStream {
public:
    /// `seed` is used where `sampling` names none.
    RequestStream(const Tokenizer &tokenizer, SamplingParams sampling, std::uint64_t seed);

    [[nodiscard]] const SamplingParams &sampling() const { return m_sampling; }
    [[nodiscard]] std::uint64_t seed() const { return m_sampling.seed.value_or(m_seed); }
    /// From the next token on; text held back is looked at again under the new stop strings.
    void setSampling(SamplingParams sampling);

    /// Whether the model means the answer to end with this token.
    [[nodiscard]] bool isEnd(int token) const;
    /// The text that can be shown after this token. An end token adds none.
    [[nodiscard]] std::string append(int token, bool isEnd);
    [[nodiscard]] bool stopped() const { return m_matcher.matched(); }
    /// What is held back at the end; empty after a stop string.
    [[nodiscard]] std::string flush();

private:
    [[nodiscard]] bool isKnown(int token) const; ///< networks may have more ids than their tokenizers

    const Tokenizer &m_tokenizer;
    Detokenizer m_detokenizer;
    SamplingParams m_sampling;
    std::uint64_t m_seed;
    StopMatcher m_matcher;
    std::string m_replayed; // shown with the next token: held back under stop strings that were replaced
};

} // namespace engine
