// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/output.h"

#include <string>
#include <string_view>
#include <vector>

namespace engine {

/// Reads calls written as JSON objects `{"name": ..., "arguments": {...}}` (or "parameters") while they come: one
/// object, several, or a list of them. A name is handed on as soon as it is complete, arguments piece by piece.
/// What turns out to be no call is kept as text, so nothing that the model wrote is lost.
class CallScanner {
public:
    /// The first call gets `firstIndex`.
    explicit CallScanner(int firstIndex = 0)
        : m_index(firstIndex)
    {
    }

    void append(std::string_view text, std::vector<ToolCallDelta> &out);
    /// The text that belongs to no call: objects without a name and what stands between objects, without brackets,
    /// commas, semicolons and white space. An unfinished call keeps what was handed on.
    [[nodiscard]] std::string finish();
    [[nodiscard]] int nextIndex() const { return m_index; }

private:
    /// What the value being read is to the call.
    enum class Value { None, Name, Arguments, Other };

    void outside(char c);
    void inside(char c, std::vector<ToolCallDelta> &out);
    void insideString(char c, std::vector<ToolCallDelta> &out);
    void stringEnded(std::vector<ToolCallDelta> &out);
    void valueEnded();
    void pass(std::string_view piece, std::vector<ToolCallDelta> &out);
    void nameKnown(std::string name, std::vector<ToolCallDelta> &out);
    void objectEnded(std::vector<ToolCallDelta> &out);

    int m_index;
    std::string m_stray;
    std::string m_object; ///< as written so far
    int m_depth = 0;
    bool m_inString = false;
    bool m_escaped = false;
    std::size_t m_stringAt = 0; ///< of the opening quote in m_object
    bool m_wantsKey = false;
    std::string m_key;
    Value m_value = Value::None;
    bool m_named = false;
    bool m_hasArguments = false;
    std::string m_early; ///< arguments that came before the name
};

} // namespace engine
