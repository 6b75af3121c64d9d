// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_lexer.h"

#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool isAsciiDigit(char c)
{
    return c >= '0' && c <= '9';
}

std::size_t spaceEnd(std::string_view text, std::size_t at)
{
    while (at < text.size()) {
        std::size_t next = at;
        if (!isSpace(nextChar(text, next)))
            break;
        at = next;
    }
    return at;
}

/// End of digits of `base` with single underscores between them, or `at` when there is none.
std::size_t digitsEnd(std::string_view text, std::size_t at, unsigned base, bool mayBeginWithUnderscore = false)
{
    const auto isDigit = [&](std::size_t i) {
        if (i >= text.size())
            return false;
        const char c = text[i];
        const unsigned lower = static_cast<unsigned char>(c) | 0x20U;
        const unsigned value =
            isAsciiDigit(c) ? static_cast<unsigned>(c - '0') : (lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99);
        return value < base;
    };
    std::size_t end = at;
    if (mayBeginWithUnderscore && end < text.size() && text[end] == '_' && isDigit(end + 1))
        ++end;
    while (isDigit(end)) {
        ++end;
        if (end < text.size() && text[end] == '_' && isDigit(end + 1))
            ++end;
    }
    return end;
}

std::size_t floatEnd(std::string_view text, std::size_t at)
{
    if (at > 0 && text[at - 1] == '.')
        return kNone;
    const std::size_t whole = digitsEnd(text, at, 10);
    std::size_t end = whole;
    if (end < text.size() && text[end] == '.' && digitsEnd(text, end + 1, 10) > end + 1)
        end = digitsEnd(text, end + 1, 10);
    if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
        const std::size_t digits =
            end + 1 + (end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-') ? 1 : 0);
        if (digitsEnd(text, digits, 10) > digits)
            end = digitsEnd(text, digits, 10);
    }
    return end > whole ? end : kNone;
}

std::size_t integerEnd(std::string_view text, std::size_t at)
{
    if (text[at] == '0' && at + 1 < text.size()) {
        const char kind = static_cast<char>(text[at + 1] | 0x20);
        const unsigned base = kind == 'b' ? 2 : (kind == 'o' ? 8 : (kind == 'x' ? 16 : 0));
        if (base != 0 && digitsEnd(text, at + 2, base, true) > at + 2)
            return digitsEnd(text, at + 2, base, true);
    }
    return text[at] == '0' ? digitsEnd(text, at, 1) : digitsEnd(text, at, 10);
}

} // namespace

std::string describe(const Token &token)
{
    switch (token.kind) {
    case TokenKind::Data:
        return "template data";
    case TokenKind::VariableBegin:
        return "begin of print statement";
    case TokenKind::VariableEnd:
        return "end of print statement";
    case TokenKind::BlockBegin:
        return "begin of statement block";
    case TokenKind::BlockEnd:
        return "end of statement block";
    case TokenKind::End:
        return "end of template";
    default:
        // A hostile template may hold a very long word.
        return token.text.size() > 60 ? std::string(token.text.substr(0, byteOffset(token.text, 40))) + "…"
                                      : std::string(token.text);
    }
}

Token Lexer::make(TokenKind kind, std::string_view text)
{
    return {kind, text, m_line};
}

void Lexer::advance(std::size_t position)
{
    m_line += static_cast<int>(std::count(m_source.begin() + static_cast<std::ptrdiff_t>(m_at),
                                          m_source.begin() + static_cast<std::ptrdiff_t>(position), '\n'));
    m_at = position;
}

void Lexer::skipSpace()
{
    advance(spaceEnd(m_source, m_at));
}

Token Lexer::next()
{
    const std::size_t before = m_at;
    Token token;
    while (m_state == State::Data) {
        const bool found = m_raw ? lexRaw(token) : lexData(token);
        if (found) {
            m_budget.steps(4 + (m_at - before) / 4);
            return token;
        }
    }
    skipSpace();
    if (m_at >= m_source.size())
        return make(TokenKind::End, {});
    const bool found =
        lexClosing(token) || lexNumber(token) || lexName(token) || lexString(token) || lexOperator(token);
    if (!found)
        fail("unexpected character '" + std::string(m_source.substr(m_at, byteOffset(m_source.substr(m_at, 4), 1)))
             + "'");
    m_budget.steps(4 + (m_at - before) / 4);
    return token;
}

std::size_t Lexer::findOpening() const
{
    for (std::size_t at = m_at; (at = m_source.find('{', at)) != kNone; ++at) {
        const char kind = at + 1 < m_source.size() ? m_source[at + 1] : '\0';
        if (kind == '{' || kind == '%' || kind == '#')
            return at;
    }
    return kNone;
}

/// The text from here to a tag, without what the tag's sign or lstrip_blocks takes away.
std::string_view Lexer::trimmedBefore(std::size_t start, bool isVariable) const
{
    const std::string_view text = m_source.substr(m_at, start - m_at);
    const char sign = start + 2 < m_source.size() ? m_source[start + 2] : '\0';
    if (sign == '-')
        return stripSpace(text, Ends::Right);
    if (sign == '+' || isVariable)
        return text;
    const std::size_t newline = text.rfind('\n');
    const std::size_t lineStart = newline == kNone ? 0 : newline + 1;
    const bool atLineStart = lineStart > 0 || m_at == 0 || m_source[m_at - 1] == '\n';
    if (atLineStart && spaceEnd(text, lineStart) == text.size())
        return text.substr(0, lineStart);
    return text;
}

bool Lexer::lexData(Token &token)
{
    if (m_at >= m_source.size()) {
        token = make(TokenKind::End, {});
        return true;
    }
    const std::size_t opening = findOpening();
    if (opening == kNone) {
        token = make(TokenKind::Data, m_source.substr(m_at));
        advance(m_source.size());
        return true;
    }
    const bool isVariable = m_source[opening + 1] == '{';
    const std::string_view text = trimmedBefore(opening, isVariable);
    if (!text.empty()) {
        token = make(TokenKind::Data, text);
        // What was trimmed is passed over here, so the tag is met again with nothing before it.
        advance(opening);
        return true;
    }
    advance(opening);
    if (m_source[opening + 1] == '#') {
        skipComment();
        return false;
    }
    if (!isVariable && enterRaw(opening))
        return false;
    token = make(isVariable ? TokenKind::VariableBegin : TokenKind::BlockBegin, m_source.substr(opening, 2));
    const bool signedTag =
        opening + 2 < m_source.size() && (m_source[opening + 2] == '-' || m_source[opening + 2] == '+');
    advance(opening + (signedTag ? 3 : 2));
    m_state = isVariable ? State::Variable : State::Block;
    m_closers.clear();
    return true;
}

void Lexer::finishBlockTag(char sign, std::size_t end)
{
    advance(end);
    if (sign == '-')
        skipSpace();
    else if (sign != '+' && startsWith("\n"))
        advance(m_at + 1);
}

void Lexer::skipComment()
{
    std::size_t begin = m_at + 2;
    if (begin < m_source.size() && (m_source[begin] == '-' || m_source[begin] == '+'))
        ++begin;
    // Jinja's own quirk: an opening at the very end of the template opens nothing.
    if (begin == m_source.size())
        return advance(begin);
    const std::size_t end = m_source.find("#}", begin);
    if (end == kNone)
        fail("the comment that begins here has no end");
    m_budget.steps(4 + (end - begin) / 16);
    finishBlockTag(end > begin ? m_source[end - 1] : '\0', end + 2);
}

bool Lexer::enterRaw(std::size_t tag)
{
    std::size_t at = tag + 2;
    if (at < m_source.size() && (m_source[at] == '-' || m_source[at] == '+'))
        ++at;
    at = spaceEnd(m_source, at);
    if (!m_source.substr(at).starts_with("raw"))
        return false;
    at = spaceEnd(m_source, at + 3);
    const bool strip = m_source.substr(at).starts_with("-%}");
    if (!strip && !m_source.substr(at).starts_with("%}"))
        return false;
    advance(at + (strip ? 3 : 2));
    if (strip)
        skipSpace();
    m_raw = true;
    return true;
}

/// Whether an endraw tag stands at `tag`; `end` is then the place of its closing sign and %}.
bool Lexer::closeRaw(std::size_t tag, std::size_t &end) const
{
    std::size_t at = tag + 2;
    if (at < m_source.size() && (m_source[at] == '-' || m_source[at] == '+'))
        ++at;
    at = spaceEnd(m_source, at);
    if (!m_source.substr(at).starts_with("endraw"))
        return false;
    end = spaceEnd(m_source, at + 6);
    const std::string_view rest = m_source.substr(end);
    return rest.starts_with("%}") || rest.starts_with("-%}") || rest.starts_with("+%}");
}

bool Lexer::lexRaw(Token &token)
{
    if (m_at == m_source.size()) {
        m_raw = false;
        return false;
    }
    std::size_t end = 0;
    std::size_t tag = m_source.find("{%", m_at);
    while (tag != kNone && !closeRaw(tag, end)) {
        m_budget.steps(4);
        tag = m_source.find("{%", tag + 1);
    }
    if (tag == kNone)
        fail("the raw block that begins here has no end");
    token = make(TokenKind::Data, trimmedBefore(tag, false));
    m_raw = false;
    const char sign = m_source[end];
    finishBlockTag(sign, end + (sign == '%' ? 2 : 3));
    return !token.text.empty();
}

bool Lexer::lexClosing(Token &token)
{
    if (!m_closers.empty())
        return false;
    const std::string_view closing = m_state == State::Variable ? "}}" : "%}";
    const char sign = m_source[m_at];
    const bool isSigned = sign == '-' || (sign == '+' && m_state == State::Block);
    if (!m_source.substr(m_at + (isSigned ? 1 : 0)).starts_with(closing))
        return false;
    const std::size_t end = m_at + (isSigned ? 3 : 2);
    token = make(m_state == State::Variable ? TokenKind::VariableEnd : TokenKind::BlockEnd, closing);
    if (m_state == State::Block)
        finishBlockTag(sign, end);
    else
        advance(end);
    if (m_state == State::Variable && sign == '-')
        skipSpace();
    m_state = State::Data;
    return true;
}

bool Lexer::lexNumber(Token &token)
{
    if (!isAsciiDigit(m_source[m_at]))
        return false;
    const std::size_t real = floatEnd(m_source, m_at);
    const std::size_t end = real != kNone ? real : integerEnd(m_source, m_at);
    token = make(real != kNone ? TokenKind::Float : TokenKind::Integer, m_source.substr(m_at, end - m_at));
    advance(end);
    return true;
}

bool Lexer::lexName(Token &token)
{
    std::size_t end = m_at;
    for (std::size_t next = m_at; end < m_source.size() && isWord(nextChar(m_source, next));)
        end = next;
    if (end == m_at)
        return false;
    token = make(TokenKind::Name, m_source.substr(m_at, end - m_at));
    if (!isIdentifier(token.text))
        fail("invalid character in the name '" + describe(token) + "'");
    advance(end);
    return true;
}

bool Lexer::lexString(Token &token)
{
    const char quote = m_source[m_at];
    if (quote != '"' && quote != '\'')
        return false;
    for (std::size_t end = m_at + 1; end < m_source.size(); ++end) {
        if (m_source[end] == '\\') {
            ++end;
        } else if (m_source[end] == quote) {
            token = make(TokenKind::String, m_source.substr(m_at + 1, end - m_at - 1));
            advance(end + 1);
            return true;
        }
    }
    fail("the string that begins here has no end");
}

bool Lexer::lexOperator(Token &token)
{
    static constexpr std::string_view twoSigns[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view sign : twoSigns) {
        if (startsWith(sign)) {
            token = make(TokenKind::Operator, sign);
            advance(m_at + 2);
            return true;
        }
    }
    const char sign = m_source[m_at];
    if (std::string_view("+-/*%~[](){}><=.:|,;").find(sign) == kNone)
        return false;
    balance(sign);
    token = make(TokenKind::Operator, m_source.substr(m_at, 1));
    advance(m_at + 1);
    return true;
}

void Lexer::balance(char sign)
{
    if (sign == '{' || sign == '(' || sign == '[') {
        m_closers.push_back(sign == '{' ? '}' : (sign == '(' ? ')' : ']'));
        return;
    }
    if (sign != '}' && sign != ')' && sign != ']')
        return;
    if (m_closers.empty())
        fail(std::string("unexpected '") + sign + "'");
    if (m_closers.back() != sign)
        fail(std::string("unexpected '") + sign + "', expected '" + m_closers.back() + "'");
    m_closers.pop_back();
}

std::string normalSource(std::string_view source)
{
    std::string out;
    out.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r') {
            if (i + 1 < source.size() && source[i + 1] == '\n')
                ++i;
            out.push_back('\n');
        } else {
            out.push_back(source[i]);
        }
    }
    if (!out.empty() && out.back() == '\n')
        out.pop_back();
    return out;
}

namespace {

void appendEscapedChar(std::string &out, char32_t c)
{
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        fail("a string holds an escape that is no Unicode character (a surrogate, or out of range)");
    appendChar(out, c);
}

/// Reads `count` hexadecimal digits.
char32_t hexDigits(std::string_view literal, std::size_t at, std::size_t count)
{
    char32_t value = 0;
    if (at + count > literal.size() || digitsEnd(literal.substr(0, at + count), at, 16) != at + count)
        fail("a string holds a truncated \\x, \\u or \\U escape");
    for (const char c : literal.substr(at, count))
        value = value * 16 + static_cast<char32_t>(isAsciiDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    return value;
}

/// Appends the escape that follows the backslash at `at`; returns the place behind it.
std::size_t appendEscape(std::string &out, std::string_view literal, std::size_t at)
{
    static constexpr std::string_view letters = "abfnrtv\\'\"";
    static constexpr std::string_view values = "\a\b\f\n\r\t\v\\'\"";
    const char kind = literal[at + 1];
    if (const std::size_t simple = letters.find(kind); simple != kNone) {
        out.push_back(values[simple]);
        return at + 2;
    }
    if (kind == '\n')
        return at + 2;
    if (kind == 'x' || kind == 'u' || kind == 'U') {
        const std::size_t count = kind == 'x' ? 2 : (kind == 'u' ? 4 : 8);
        const char32_t c = hexDigits(literal, at + 2, count);
        const std::size_t end = at + 2 + count;
        if (c >= 0xD800 && c < 0xDC00 && literal.substr(end).starts_with("\\u")) {
            const char32_t low = hexDigits(literal, end + 2, 4);
            if (low >= 0xDC00 && low < 0xE000) {
                appendChar(out, 0x10000 + ((c - 0xD800) << 10U) + (low - 0xDC00));
                return end + 6;
            }
        }
        appendEscapedChar(out, c);
        return end;
    }
    if (kind >= '0' && kind <= '7') {
        std::size_t end = at + 1;
        char32_t value = 0;
        for (; end < literal.size() && end < at + 4 && literal[end] >= '0' && literal[end] <= '7'; ++end)
            value = value * 8 + static_cast<char32_t>(literal[end] - '0');
        appendEscapedChar(out, value);
        return end;
    }
    if (kind == 'N')
        fail("a string holds a \\N{...} escape, which is not supported");
    out.push_back('\\');
    return at + 1;
}

/// Jinja reads literals through an ASCII form in which a backslash before a character beyond ASCII meets the
/// backslash of that character's own escape; what is left is the escape's text.
std::size_t appendSplitEscape(std::string &out, std::string_view literal, std::size_t at)
{
    std::size_t next = at + 1;
    const char32_t c = nextChar(literal, next);
    const int digits = c < 0x100 ? 2 : (c < 0x10000 ? 4 : 8);
    out += c < 0x100 ? "\\x" : (c < 0x10000 ? "\\u" : "\\U");
    for (int i = digits; i-- > 0;)
        out.push_back("0123456789abcdef"[(c >> (4U * static_cast<unsigned>(i))) & 0xFU]);
    return next;
}

} // namespace

std::string unescape(std::string_view literal)
{
    std::string out;
    for (std::size_t at = 0; at < literal.size();) {
        if (literal[at] != '\\' || at + 1 >= literal.size())
            out.push_back(literal[at++]);
        else if (static_cast<unsigned char>(literal[at + 1]) >= 0x80)
            at = appendSplitEscape(out, literal, at);
        else
            at = appendEscape(out, literal, at);
    }
    return out;
}

} // namespace engine::jinja
