// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/member_text.h"

#include "app/cli/input.h"

#include <algorithm>

namespace cli {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

/// Moves over valid JSON text without building anything.
class Scanner {
public:
    explicit Scanner(std::string_view text)
        : m_text(text)
    {
    }

    /// The next value's own text, `{` and the like being taken with all that they hold.
    std::string_view value()
    {
        const std::size_t begin = skipSpace();
        int depth = 0;
        do {
            const char c = peek();
            if (c == '"') {
                string();
                continue;
            }
            if (c == '{' || c == '[')
                ++depth;
            else if (c == '}' || c == ']')
                --depth;
            else if (depth == 0)
                return scalar();
            ++m_at;
        } while (depth > 0 && m_at < m_text.size());
        return m_text.substr(begin, m_at - begin);
    }
    /// Whether the next character is `c`, which is then passed.
    bool pass(char c)
    {
        const bool found = skipSpace() < m_text.size() && m_text[m_at] == c;
        m_at += found ? 1 : 0;
        return found;
    }

private:
    [[nodiscard]] char peek() const { return m_at < m_text.size() ? m_text[m_at] : '\0'; }
    std::size_t skipSpace()
    {
        m_at = std::min(m_text.find_first_not_of(kSpace, m_at), m_text.size());
        return m_at;
    }
    void string()
    {
        for (++m_at; m_at < m_text.size() && m_text[m_at] != '"'; ++m_at)
            m_at += m_text[m_at] == '\\' ? 1 : 0;
        m_at = std::min(m_at + 1, m_text.size());
    }
    std::string_view scalar()
    {
        const std::size_t begin = m_at;
        m_at = std::min(m_text.find_first_of(" \t\r\n,]}", m_at), m_text.size());
        return m_text.substr(begin, m_at - begin);
    }

    std::string_view m_text;
    std::size_t m_at = 0;
};

} // namespace

std::optional<std::string> memberText(std::string_view object, std::string_view key)
{
    Scanner scanner(object);
    for (bool more = scanner.pass('{') && !scanner.pass('}'); more; more = scanner.pass(',')) {
        const bool wanted = Json::parse(scanner.value()).get_ref<const std::string &>() == key;
        scanner.pass(':');
        const std::string_view value = scanner.value();
        if (wanted)
            return value == "null" ? std::nullopt : std::optional<std::string>(value);
    }
    return std::nullopt;
}

} // namespace cli
