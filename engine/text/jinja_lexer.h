// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_budget.h"

#include <string>
#include <string_view>
#include <vector>

namespace engine::jinja {

enum class TokenKind {
    Data,
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name,
    String,
    Integer,
    Float,
    Operator,
    End,
};

struct Token {
    TokenKind kind = TokenKind::End;
    std::string_view text; ///< as written, in the lexer's source; of strings the part between the quotes
    int line = 1;

    [[nodiscard]] bool isOperator(std::string_view sign) const { return kind == TokenKind::Operator && text == sign; }
    [[nodiscard]] bool isName(std::string_view name) const { return kind == TokenKind::Name && text == name; }
};

/// The token in words, for error messages.
[[nodiscard]] std::string describe(const Token &token);

/// Cuts a template into tokens, one at a time. Whitespace control is as chat templates expect it: the newline behind a
/// block tag and the spaces before one are dropped, and so is one newline at the end of the template.
class Lexer {
public:
    /// `source` must outlive the lexer and its tokens; see normalSource().
    Lexer(std::string_view source, Budget &budget)
        : m_source(source)
        , m_budget(budget)
    {
    }

    /// \throws Fault; line() then tells where
    [[nodiscard]] Token next();
    [[nodiscard]] int line() const { return m_line; }

private:
    enum class State { Data, Variable, Block };

    [[nodiscard]] Token make(TokenKind kind, std::string_view text);
    void advance(std::size_t position);
    void skipSpace();
    [[nodiscard]] bool startsWith(std::string_view text) const { return m_source.substr(m_at).starts_with(text); }

    [[nodiscard]] bool lexData(Token &token);
    [[nodiscard]] std::string_view trimmedBefore(std::size_t start, bool isVariable) const;
    [[nodiscard]] std::size_t findOpening() const;
    void skipComment();
    [[nodiscard]] bool enterRaw(std::size_t tag);
    [[nodiscard]] bool lexRaw(Token &token);
    [[nodiscard]] bool closeRaw(std::size_t tag, std::size_t &end) const;
    void finishBlockTag(char sign, std::size_t end);

    [[nodiscard]] bool lexClosing(Token &token);
    [[nodiscard]] bool lexNumber(Token &token);
    [[nodiscard]] bool lexName(Token &token);
    [[nodiscard]] bool lexString(Token &token);
    [[nodiscard]] bool lexOperator(Token &token);
    void balance(char sign);

    std::string_view m_source;
    Budget &m_budget;
    std::size_t m_at = 0;
    int m_line = 1;
    State m_state = State::Data;
    bool m_raw = false;
    std::vector<char> m_closers; ///< brackets that are open inside a tag
};

/// The source with all line ends as \n and without the last one.
[[nodiscard]] std::string normalSource(std::string_view source);

/// The value of a string literal. \throws Fault
[[nodiscard]] std::string unescape(std::string_view literal);

} // namespace engine::jinja
