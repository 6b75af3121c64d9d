// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/output.h"

namespace engine {

void appendToolCalls(std::vector<ToolCall> &calls, const std::vector<ToolCallDelta> &deltas)
{
    for (const ToolCallDelta &delta : deltas) {
        const auto index = static_cast<std::size_t>(delta.index);
        if (calls.size() <= index)
            calls.resize(index + 1);
        calls[index].name += delta.name;
        calls[index].arguments += delta.arguments;
    }
}

} // namespace engine
