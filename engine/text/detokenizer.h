// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/tokenizer.h"

#include <string>

namespace engine {

/// Turns one request's tokens into text as they come. Bytes of an unfinished UTF-8 character are held back until
/// they are complete, proved invalid (then U+FFFD) or flushed.
class Detokenizer {
public:
    Detokenizer(const Tokenizer &tokenizer, bool skipSpecial) : m_tokenizer(tokenizer), m_skipSpecial(skipSpecial) {}

    /// The text that became complete.
    [[nodiscard]] std::string append(int id);
    /// What is held back, with U+FFFD for an incomplete end.
    [[nodiscard]] std::string flush();

private:
    const Tokenizer &m_tokenizer;
    bool m_skipSpecial;
    std::string m_pending;
};

} // namespace engine
