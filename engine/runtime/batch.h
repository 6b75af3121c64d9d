// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"
#include "engine/cache/block_manager.h"
#include "engine/models/model.h"

#include <vector>

namespace engine {

/// One sequence's part of a step.
struct BatchRow {
    RequestId request = 0;
    int sequence = 0;   ///< the scheduler's handle
    int firstToken = 0; ///< index of its first token in ForwardBatch
    int tokens = 0;
    int decodeTokens = 0; ///< 1 when this is a decode, else 0
    bool samples = false; ///< the last token's logits are sampled
    int logitRow = -1;    ///< row of the logits when it samples
};

/// What one step computes; made by Scheduler::schedule, consumed by ModelRunner::run and Scheduler::commit.
struct Batch {
    ForwardBatch forward;
    std::vector<BatchRow> rows;
    std::vector<BlockCopy> copies; ///< of whole blocks, to be made in this order before the step is run
    [[nodiscard]] bool empty() const { return rows.empty(); }
};

} // namespace engine
