// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/tokenizer.h"

#include <memory>
#include <string>

namespace engine {

/// Turns one request's tokens into text as they come. Bytes of an unfinished UTF-8 character are held back until
/// they are complete, proved invalid (then U+FFFD) or flushed. All parts together are what decode() gives.
class Detokenizer {
public:
    Detokenizer(const Tokenizer &tokenizer, bool skipSpecial)
        : m_stream(tokenizer.stream(skipSpecial))
    {
    }

    /// The text that became complete.
    [[nodiscard]] std::string append(int id);
    /// What is held back, with U+FFFD for an incomplete end.
    [[nodiscard]] std::string flush();

private:
    std::unique_ptr<TokenStream> m_stream;
    std::string m_pending;
};

} // namespace engine
