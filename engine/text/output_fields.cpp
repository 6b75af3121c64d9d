// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/output_fields.h"

#include <utility>

namespace engine {

std::string TrimmedText::append(std::string_view text)
{
    if (!m_started) {
        text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
        if (text.empty())
            return {};
        m_started = true;
        if (m_any)
            m_held = std::exchange(m_separator, {});
    }
    m_any = true;
    const std::size_t last = text.find_last_not_of("\r\n");
    if (last == std::string_view::npos) {
        m_held += text;
        return {};
    }
    std::string shown = std::exchange(m_held, std::string(text.substr(last + 1)));
    return shown.append(text.substr(0, last + 1));
}

void TrimmedText::restart(std::string_view separator)
{
    m_started = false;
    m_held.clear();
    m_separator = separator;
}

std::string TrimmedText::flush()
{
    return std::exchange(m_held, {});
}

std::string JsonObjectFilter::append(std::string_view text)
{
    std::string passed;
    for (const char c : text) {
        if (m_done || (m_depth == 0 && c != '{'))
            continue;
        passed += c;
        if (m_inString) {
            const bool wasEscaped = std::exchange(m_escaped, !m_escaped && c == '\\');
            m_inString = c != '"' || wasEscaped;
        } else if (c == '"') {
            m_inString = true;
        } else if (c == '{') {
            ++m_depth;
        } else if (c == '}' && --m_depth == 0) {
            m_done = true;
        }
    }
    return passed;
}

} // namespace engine
