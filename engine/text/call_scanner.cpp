// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/call_scanner.h"

#include "engine/core/json.h"

#include <utility>

namespace engine {
namespace {

bool isSpace(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// A quoted JSON string decoded; the characters between the quotes where it is none.
std::string decoded(std::string_view quoted)
{
    try {
        return parseJson(quoted, "string").get<std::string>();
    } catch (const std::exception &) {
        return std::string(quoted.substr(1, quoted.size() - 2));
    }
}

} // namespace

void CallScanner::append(std::string_view text, std::vector<ToolCallDelta> &out)
{
    for (const char c : text) {
        if (m_depth == 0)
            outside(c);
        else if (m_inString)
            insideString(c, out);
        else
            inside(c, out);
    }
}

void CallScanner::outside(char c)
{
    if (c == '{') {
        m_object = "{";
        m_depth = 1;
        m_wantsKey = true;
    } else if (!isSpace(c) && c != '[' && c != ']' && c != ',' && c != ';') {
        m_stray += c;
    }
}

void CallScanner::inside(char c, std::vector<ToolCallDelta> &out)
{
    m_object += c;
    const bool top = m_depth == 1;
    if (c == '"') {
        m_inString = true;
        m_stringAt = m_object.size() - 1;
        if (m_value == Value::Arguments && !top)
            pass("\"", out);
        return;
    }
    if (top && c == ':') {
        m_wantsKey = false;
        m_value = m_key == "name"                           ? Value::Name
            : m_key == "arguments" || m_key == "parameters" ? Value::Arguments
                                                            : Value::Other;
        return;
    }
    if (top && (c == ',' || c == '}'))
        valueEnded();
    const bool opens = c == '{' || c == '[';
    const bool closes = c == '}' || c == ']';
    if (m_value == Value::Arguments && !(top && isSpace(c)))
        pass({&c, 1}, out);
    if (opens)
        ++m_depth;
    else if (closes && --m_depth == 0)
        objectEnded(out);
}

void CallScanner::insideString(char c, std::vector<ToolCallDelta> &out)
{
    m_object += c;
    const bool nested = m_depth > 1;
    if (m_value == Value::Arguments && nested)
        pass({&c, 1}, out);
    if (m_escaped) {
        m_escaped = false;
    } else if (c == '\\') {
        m_escaped = true;
    } else if (c == '"') {
        m_inString = false;
        if (!nested)
            stringEnded(out);
    }
}

/// A string directly in the call's object: a key, the name, or arguments that were written as a text of JSON.
void CallScanner::stringEnded(std::vector<ToolCallDelta> &out)
{
    const std::string text = decoded(std::string_view(m_object).substr(m_stringAt));
    if (m_wantsKey)
        m_key = text;
    else if (m_value == Value::Name)
        nameKnown(text, out);
    else if (m_value == Value::Arguments)
        pass(text, out);
}

void CallScanner::valueEnded()
{
    m_value = Value::None;
    m_wantsKey = true;
    m_key.clear();
}

void CallScanner::pass(std::string_view piece, std::vector<ToolCallDelta> &out)
{
    m_hasArguments = true;
    if (!m_named) {
        m_early += piece;
        return;
    }
    if (out.empty() || out.back().index != m_index)
        out.push_back({m_index, {}, {}});
    out.back().arguments += piece;
}

void CallScanner::nameKnown(std::string name, std::vector<ToolCallDelta> &out)
{
    if (m_named || name.empty())
        return;
    m_named = true;
    out.push_back({m_index, std::move(name), std::exchange(m_early, {})});
}

void CallScanner::objectEnded(std::vector<ToolCallDelta> &out)
{
    if (m_named) {
        if (!m_hasArguments)
            pass("{}", out);
        ++m_index;
    } else {
        m_stray += m_object;
    }
    m_object.clear();
    m_early.clear();
    m_value = Value::None;
    m_named = m_hasArguments = false;
}

std::string CallScanner::finish()
{
    if (m_depth > 0 && !m_named)
        m_stray += m_object;
    else if (m_depth > 0)
        ++m_index;
    const int next = m_index;
    std::string stray = std::move(m_stray);
    *this = CallScanner(next);
    return stray;
}

} // namespace engine
