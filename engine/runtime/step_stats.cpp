// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/step_stats.h"

#include <algorithm>

namespace engine {

Usage usageOf(const Sequence &sequence)
{
    return {sequence.promptTokens, sequence.outputTokens(), sequence.cachedTokens, sequence.missPosition,
            sequence.preemptions};
}

Timings timingsOf(const Sequence &sequence, double now)
{
    constexpr double ms = 1000.0;
    Timings timings;
    const double admitted = sequence.admittedAt >= 0 ? sequence.admittedAt : now;
    timings.queueMs = (admitted - sequence.arrivedAt) * ms;
    const bool hasOutput = sequence.firstTokenAt >= 0;
    timings.e2eMs = ((hasOutput ? sequence.lastTokenAt : now) - sequence.arrivedAt) * ms;
    if (!hasOutput)
        return timings;
    timings.ttftMs = (sequence.firstTokenAt - sequence.arrivedAt) * ms;
    timings.decodeMs = (sequence.lastTokenAt - sequence.firstTokenAt) * ms;
    const double prefillSeconds = sequence.firstTokenAt - admitted;
    timings.prefillMs = prefillSeconds * ms;
    if (prefillSeconds > 0)
        timings.promptTokensPerSecond = (sequence.promptTokens - sequence.cachedTokens) / prefillSeconds;
    if (sequence.outputTokens() > 1) {
        timings.tpotMs = (timings.e2eMs - timings.ttftMs) / (sequence.outputTokens() - 1);
        timings.tokensPerSecond = timings.tpotMs > 0 ? ms / timings.tpotMs : 0;
    }
    return timings;
}

namespace {

void fillFromSequence(const Sequence &sequence, BlockMap &map, std::vector<int> &tokens)
{
    const int size = map.blockTokens;
    for (std::size_t i = 0; i < sequence.table.blocks.size(); ++i) {
        const auto block = static_cast<std::size_t>(sequence.table.blocks[i]);
        BlockInfo &info = map.blocks[block];
        if (info.owner != 0)
            continue;
        info.owner = sequence.id;
        info.firstPosition = static_cast<int>(i) * size;
        info.tokens = std::clamp(sequence.computed - info.firstPosition, 0, size);
        std::copy_n(sequence.tokens.begin() + info.firstPosition, info.tokens,
                    tokens.begin() + static_cast<std::ptrdiff_t>(block) * size);
    }
}

} // namespace

BlockSnapshot snapshotBlocks(const Scheduler &scheduler)
{
    const BlockManager &manager = scheduler.blocks();
    auto map = std::make_shared<BlockMap>();
    map->step = scheduler.steps();
    map->blockTokens = manager.blockTokens();
    map->windowBlocks = manager.window().size();
    map->windowBlocksUsed = manager.window().size() - manager.window().free();
    map->blocks.resize(static_cast<std::size_t>(manager.blocks()));
    std::vector<int> tokens(map->blocks.size() * static_cast<std::size_t>(manager.blockTokens()));
    for (const Sequence *sequence : scheduler.sequences())
        fillFromSequence(*sequence, *map, tokens);
    for (std::size_t i = 0; i < map->blocks.size(); ++i) {
        BlockInfo &info = map->blocks[i];
        const BlockView view = manager.view(static_cast<int>(i));
        info.refCount = view.refCount;
        info.inWindow = manager.window().slotOf(static_cast<int>(i)) >= 0;
        if (view.refCount > 0) {
            info.state = BlockState::Used;
        } else if (view.published) {
            info.state = BlockState::Cached;
            info.tokens = static_cast<int>(view.tokens.size());
            std::ranges::copy(view.tokens, tokens.begin() + static_cast<std::ptrdiff_t>(i) * manager.blockTokens());
        }
    }
    return {std::move(map), std::move(tokens)};
}

} // namespace engine
