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
    PoolChange change{BlockManager(sizesOf(kv, m_blocks.sizes().window), true), {}, {}};
    change.tables.resize(m_running.size());
    std::vector<std::size_t> order(m_running.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [this](std::size_t a, std::size_t b) { return betterVictim(b, a); });
    for (const std::size_t index : order) {
        BlockTable table;
        if (place(*m_running[index], change, table))
            change.tables[index] = std::move(table);
    }
    if (!kv.prefixCaching) {
        change.blocks.setPrefixCaching(false);
        return change;
    }
    for (std::size_t i = 0; i < m_running.size(); ++i)
        if (const auto &table = change.tables[i])
            placeKeptWindow(m_running[i]->table.blocks,
                            std::span(table->blocks)
                                .first(static_cast<std::size_t>(std::min(table->windowFirst, table->publishedBlocks))),
                            0, change);
    placeCached(change);
    return change;
}

/// False when there is no room. A prompt keeps blocks for all of its tokens, as at admission.
bool Scheduler::place(const Sequence &sequence, PoolChange &change, BlockTable &table) const
{
    const std::span<const int> tokens(sequence.tokens);
    const auto computed = static_cast<std::size_t>(sequence.computed);
    const PrefixMatch match =
        change.blocks.match(tokens.first(computed + 1), sequence.table.variant, sequence.computed);
    const int wanted = sequence.pending() > 1 ? sequence.size() : sequence.computed;
    const int missing = change.blocks.blocksForTokens(wanted) - static_cast<int>(match.blocks.size());
    if (missing + match.unreferenced > change.blocks.freeBlocks())
        return false;
    change.blocks.adopt(table, match); // whose window slots are referenced already: the cached comes later
    CHECK(change.blocks.grow(table, wanted));
    change.blocks.passWindow(table, sequence.computed);
    const int inWindow = table.windowEnd;
    if (!change.blocks.holdWindow(table, sequence.computed)) {
        change.blocks.release(table);
        return false;
    }
    placeWindow(sequence, std::max(match.tokens, inWindow * change.blocks.blockTokens()), change, table);
    appendMoves(change.moves, sequence.table.blocks, m_blocks.blockTokens(), table.blocks, change.blocks.blockTokens(),
                match.tokens, sequence.computed);
    change.blocks.publish(table, tokens, sequence.computed);
    return true;
}

/// Carries over what a sequence sees through the window, from position `from` on; where more of a block is there, that
/// too.
void Scheduler::placeWindow(const Sequence &sequence, int from, PoolChange &change, BlockTable &table) const
{
    if (m_blocks.sizes().window == 0 || from >= sequence.computed)
        return;
    const int oldSize = m_blocks.blockTokens();
    const int needed = sequence.computed - m_blocks.sizes().window + 1;
    int first = sequence.computed; // what is there, from here on
    for (int i = (sequence.computed - 1) / oldSize; i >= 0 && first > from; --i) {
        const int block = sequence.table.blocks[static_cast<std::size_t>(i)];
        if (!m_blocks.window().holds(block, oldSize))
            break;
        first = i * oldSize + m_blocks.window().missing(block);
        if (m_blocks.window().missing(block) > 0)
            break;
    }
    first = std::max(first, from);
    CHECK(first <= std::max(needed, from));
    const auto slotsOf = [](const BlockManager &manager, const BlockTable &of) {
        std::vector<int> slots;
        for (const int block : of.blocks)
            slots.push_back(manager.window().slotOf(block));
        return slots;
    };
    const std::size_t before = change.moves.size();
    appendMoves(change.moves, slotsOf(m_blocks, sequence.table), oldSize, slotsOf(change.blocks, table),
                change.blocks.blockTokens(), first, sequence.computed);
    for (auto move = change.moves.begin() + static_cast<std::ptrdiff_t>(before); move != change.moves.end(); ++move)
        move->window = true;
    if (first > from)
        change.blocks.setWindowMissing(table.blocks[static_cast<std::size_t>(from / change.blocks.blockTokens())],
                                       first - from);
}

/// Window slots for blocks that only hits would look at, from index `first` on, the last before others, as long as
/// there are empty ones.
void Scheduler::placeKeptWindow(std::span<const int> oldBlocks, std::span<const int> blocks, int first,
                                PoolChange &change) const
{
    if (m_blocks.sizes().window == 0)
        return;
    const int size = change.blocks.blockTokens();
    const int oldSize = m_blocks.blockTokens();
    const auto oldSlot = [&](int position) {
        const int block = oldBlocks[static_cast<std::size_t>(position / oldSize)];
        return m_blocks.window().holds(block, position % oldSize) ? m_blocks.window().slotOf(block) : -1;
    };
    for (int i = static_cast<int>(blocks.size()) - 1; i >= first; --i) {
        std::vector<SlotMove> moves;
        for (int position = i * size; position < (i + 1) * size;) {
            const int slot = oldSlot(position);
            const int tokens = std::min(oldSize - position % oldSize, (i + 1) * size - position);
            if (slot < 0)
                break;
            moves.push_back({slot * oldSize + position % oldSize, position % size, tokens, true});
            position += tokens;
        }
        const int block = blocks[static_cast<std::size_t>(i)];
        const bool isWhole = !moves.empty() && moves.back().to + moves.back().tokens == size;
        if (!isWhole || !change.blocks.view(block).published || change.blocks.window().slotOf(block) >= 0
            || !change.blocks.keepWindow(block))
            continue;
        for (SlotMove &move : moves)
            move.to += change.blocks.window().slotOf(block) * size;
        change.moves.insert(change.moves.end(), moves.begin(), moves.end());
    }
}

/// Hashes what is cached again, the most recently used first, as long as there are empty blocks.
void Scheduler::placeCached(PoolChange &change) const
{
    const int size = change.blocks.blockTokens();
    std::vector<BlockTable> tables;
    for (CachedPrefix &prefix : m_blocks.cachedPrefixes()) {
        const int whole = static_cast<int>(prefix.tokens.size()) / size;
        prefix.tokens.push_back(0); // match() leaves the last token out
        const PrefixMatch match = change.blocks.match(prefix.tokens, prefix.variant, BlockManager::withoutWindow);
        const int blocks = std::min(whole, static_cast<int>(match.blocks.size()) + change.blocks.freeBlocks());
        BlockTable &table = tables.emplace_back();
        change.blocks.adopt(table, match);
        CHECK(change.blocks.grow(table, blocks * size));
        appendMoves(change.moves, prefix.blocks, m_blocks.blockTokens(), table.blocks, size, match.tokens,
                    blocks * size);
        change.blocks.publish(table, prefix.tokens, blocks * size);
        placeKeptWindow(prefix.blocks, table.blocks, static_cast<int>(match.blocks.size()), change);
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

std::string Scheduler::auditIdle() const
{
    if (std::string fault = audit(); !fault.empty())
        return fault;
    if (const int used = m_blocks.usedBlocks(); used > 0)
        return std::to_string(used) + " blocks are still in use";
    if (const int used = m_blocks.window().size() - m_blocks.window().free(); used > 0)
        return std::to_string(used) + " window slots are still in use";
    return {};
}

void Scheduler::restartAll()
{
    while (!m_running.empty())
        preempt(*m_running.back());
    m_batch.copies.clear();
    m_blocks = BlockManager(m_blocks.sizes(), m_blocks.prefixCaching());
}

void Scheduler::resetPool()
{
    CHECK(idle());
    m_blocks = BlockManager(m_blocks.sizes(), m_blocks.prefixCaching());
}

} // namespace engine
