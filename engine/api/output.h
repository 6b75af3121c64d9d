// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <vector>

namespace engine {

/// The next part of a call that the model makes of a tool.
struct ToolCallDelta {
    int index = 0;         ///< which call of the answer, from 0
    std::string name;      ///< whole; only in the first part of a call
    std::string arguments; ///< the next piece of the arguments, a JSON text as the model writes it
};

/// What some tokens of an answer add to its parts. Reasoning and calls are markup to the model and fields to us.
struct OutputDelta {
    std::string content;
    std::string reasoning;
    std::vector<ToolCallDelta> toolCalls;

    [[nodiscard]] bool empty() const { return content.empty() && reasoning.empty() && toolCalls.empty(); }
};

/// A whole call, the deltas of one index joined.
struct ToolCall {
    std::string name;
    std::string arguments; ///< JSON text, "{}" when the model gave none
    std::string id{};      ///< in a conversation's history, where the client named the call
    bool operator==(const ToolCall &) const = default;
};

/// Adds the deltas to the calls that they belong to.
void appendToolCalls(std::vector<ToolCall> &calls, const std::vector<ToolCallDelta> &deltas);

} // namespace engine
