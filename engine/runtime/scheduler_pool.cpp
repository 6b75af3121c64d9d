// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/scheduler.h"

#include "engine/api/error.h"

#include <algorithm>
#include <numeric>
#include <utility>

// Change of the KV pool while requests run.

namespace engine {

std::int64_t Scheduler::promisedTokens() const
{
    std::int64_t most = 0;
    for (const Sequence *sequence : sequences()) {
        const std::int64_t wanted = sequence->maxTokens > 0
            ? std::min<std::int64_t>(std::int64_t{sequence->promptTokens} + sequence->maxTokens, sequence->contextLimit)
            : sequence->contextLimit;
        most = std::max({most, wanted, std::int64_t{sequence->size()}});
    }
    return most;
}

PoolChange Scheduler::planPool(const KvPoolConfig &kv) const
{
    // What is shared is found again by its content, so the index is on while tables are laid out.
    PoolChange change{BlockManager(kv.numBlocks, kv.blockTokens, true), {}, {}};
    change.tables.resize(m_running.size());
    std::vector<std::size_t> order(m_running.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [this](std::size_t a, std::size_t b) { return betterVictim(b, a); });
    for (const std::size_t index : order) {
        BlockTable table;
        if (place(*m_running[index], change, table))
            change.tables[index] = std::move(table);
    }
    if (kv.prefixCaching)
        placeCached(change);
    else
        change.blocks.setPrefixCaching(false);
    return change;
}

/// False when there is no room. A prompt keeps blocks for all of its tokens, as at admission.
bool Scheduler::place(const Sequence &sequence, PoolChange &change, BlockTable &table) const
{
    const std::span<const int> tokens(sequence.tokens);
    const auto computed = static_cast<std::size_t>(sequence.computed);
    const PrefixMatch match = change.blocks.match(tokens.first(computed + 1), sequence.table.variant);
    const int wanted = sequence.pending() > 1 ? sequence.size() : sequence.computed;
    const int missing = change.blocks.blocksForTokens(wanted) - static_cast<int>(match.blocks.size());
    if (missing + match.unreferenced > change.blocks.freeBlocks())
        return false;
    change.blocks.adopt(table, match);
    CHECK(change.blocks.grow(table, wanted));
    appendMoves(change.moves, sequence.table.blocks, m_blocks.blockTokens(), table.blocks, change.blocks.blockTokens(),
                match.tokens, sequence.computed);
    change.blocks.publish(table, tokens, sequence.computed);
    return true;
}

/// Hashes what is cached again, the most recently used first, as long as there are empty blocks.
void Scheduler::placeCached(PoolChange &change) const
{
    const int size = change.blocks.blockTokens();
    std::vector<BlockTable> tables;
    for (CachedPrefix &prefix : m_blocks.cachedPrefixes()) {
        const int whole = static_cast<int>(prefix.tokens.size()) / size;
        prefix.tokens.push_back(0); // match() leaves the last token out
        const PrefixMatch match = change.blocks.match(prefix.tokens, prefix.variant);
        const int blocks = std::min(whole, static_cast<int>(match.blocks.size()) + change.blocks.freeBlocks());
        BlockTable &table = tables.emplace_back();
        change.blocks.adopt(table, match);
        CHECK(change.blocks.grow(table, blocks * size));
        appendMoves(change.moves, prefix.blocks, m_blocks.blockTokens(), table.blocks, size, match.tokens,
                    blocks * size);
        change.blocks.publish(table, prefix.tokens, blocks * size);
    }
    for (auto it = tables.rbegin(); it != tables.rend(); ++it) // the most recently used is reused last
        change.blocks.release(*it);
}

void Scheduler::setPool(PoolChange change)
{
    CHECK(change.tables.size() == m_running.size());
    const std::int64_t tokens = std::int64_t{change.blocks.blocks()} * change.blocks.blockTokens();
    CHECK(tokens >= promisedTokens());
    std::vector<Sequence *> homeless;
    for (std::size_t i = 0; i < m_running.size(); ++i) {
        Sequence &sequence = *m_running[i];
        sequence.table = change.tables[i].value_or(BlockTable{});
        if (!change.tables[i])
            homeless.push_back(&sequence);
    }
    m_blocks = std::move(change.blocks);
    for (Sequence *sequence : homeless)
        preempt(*sequence);
}

void Scheduler::resetPool()
{
    CHECK(idle());
    m_blocks = BlockManager(m_blocks.blocks(), m_blocks.blockTokens(), m_blocks.prefixCaching());
}

} // namespace engine
