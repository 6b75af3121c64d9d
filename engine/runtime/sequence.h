// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/cache/block_manager.h"

#include <cstdint>
#include <vector>

namespace engine {

/// One request on its way through the scheduler. There is no prefill or decode phase: `computed` chases the number
/// of tokens, which covers chunked prompts, prefix hits and resuming after preemption alike.
/// Written by Scheduler alone. Times are seconds on the engine's clock, negative before they happen.
struct Sequence {
    RequestId id = 0;
    int handle = 0;          ///< set by Scheduler::add
    int forkOf = -1;         ///< handle of the sequence that computes the prompt for this one too, until it has
    int contextLimit = 0;    ///< prompt and output together; what it was promised when it was taken
    std::vector<int> tokens; ///< prompt, then output
    int promptTokens = 0;
    int maxTokens = 0; ///< of output; 0 = until the context is full
    int priority = 0;

    int computed = 0; ///< leading tokens whose keys and values are in the cache
    BlockTable table;
    bool preempted = false; ///< waits to be resumed
    int overtaken = 0;      ///< requests that came later and were admitted first
    int cachedTokens = 0;   ///< of the prompt, found in the prefix cache at the first admission
    int preemptions = 0;
    int missPosition = -1;   ///< first prompt token that differs from all cached content, or -1
    std::uint64_t order = 0; ///< of arrival, from 1

    double arrivedAt = 0;
    double admittedAt = -1;
    double firstTokenAt = -1;
    double lastTokenAt = -1;

    /// Why it computes nothing, from `waitSince` on.
    enum class Wait { None, Step, Places, Blocks, Turn, Paused };
    Wait wait = Wait::Step;
    double waitSince = 0;
    double preemptedAt = -1;      ///< until its next token
    int computedBefore = 0;       ///< of its tokens, when its blocks were last taken from it
    std::int64_t rowsOfSteps = 0; ///< requests in the steps that it had a share in, added up
    RequestStory story;

    [[nodiscard]] int size() const { return static_cast<int>(tokens.size()); }
    [[nodiscard]] int outputTokens() const { return size() - promptTokens; }
    [[nodiscard]] int pending() const { return size() - computed; } ///< 1 = a decode
};

} // namespace engine
