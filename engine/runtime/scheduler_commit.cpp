// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/scheduler.h"

#include "engine/api/error.h"

#include <algorithm>
#include <utility>

namespace engine {

namespace {

/// A new one that keeps the memory of the old one's lists.
void clear(StepStats &stats)
{
    StepStats fresh;
    const auto keep = [&](auto list) {
        (stats.*list).clear();
        (fresh.*list).swap(stats.*list);
    };
    keep(&StepStats::rows);
    keep(&StepStats::admitted);
    keep(&StepStats::admittedCached);
    keep(&StepStats::preempted);
    keep(&StepStats::ttftMs);
    keep(&StepStats::itlMs);
    keep(&StepStats::ttftRequests);
    keep(&StepStats::itlRequests);
    stats = std::move(fresh);
}

} // namespace

CommitResult &Scheduler::commit(const Batch &batch, std::span<const RowResult> results, double now)
{
    CHECK(results.size() == batch.forward.logitRows.size());
    CommitResult &out = m_result;
    out.outputs.clear();
    out.finished.clear();
    clear(out.stats);
    ++m_steps;
    m_maxRunning = std::max(m_maxRunning, running());
    fillStats(batch, out.stats, now);
    out.stats.admitted.swap(m_admitted);
    out.stats.admittedCached.swap(m_admittedCached);
    out.stats.preempted.swap(m_preempted);
    m_step.rows = static_cast<int>(batch.rows.size());
    m_step.prefillTokens = out.stats.prefillTokens;
    for (const BatchRow &row : batch.rows)
        advance(row, results, out, now);
    return out;
}

void Scheduler::fillStats(const Batch &batch, StepStats &stats, double now)
{
    stats.step = m_steps;
    stats.time = now;
    stats.running = running();
    stats.waiting = waiting();
    stats.maxNumSeqs = m_limits.maxNumSeqs;
    stats.maxNumBatchedTokens = m_limits.maxNumBatchedTokens;
    stats.blocksTotal = m_blocks.blocks();
    stats.blocksUsed = m_blocks.usedBlocks();
    stats.blocksCached = m_blocks.cachedBlocks();
    stats.kvSlots = std::int64_t{stats.blocksUsed} * m_blocks.blockTokens();
    stats.kvSlotsEmpty = emptySlots(batch);
    stats.preemptions = m_preemptions;
    stats.prefixQueryTokens = m_prefixQueryTokens;
    stats.prefixHitTokens = m_prefixHitTokens;
    for (const BatchRow &row : batch.rows) {
        stats.decodeTokens += row.decodeTokens;
        stats.prefillTokens += row.tokens - row.decodeTokens;
    }
}

/// Token slots of used blocks that hold no token once the batch is computed. Whole blocks are empty for one sequence
/// only; a last one that forks still share is counted once.
std::int64_t Scheduler::emptySlots(const Batch &batch)
{
    const int size = m_blocks.blockTokens();
    std::int64_t empty = 0;
    m_sharedBlocks.clear();
    for (const Entry &entry : m_running) {
        const std::vector<int> &blocks = entry->table.blocks;
        empty += static_cast<std::int64_t>(blocks.size()) * size - entry->computed;
        const auto last = static_cast<std::size_t>(entry->computed / size);
        if (last >= blocks.size() || entry->computed % size == 0 || m_blocks.view(blocks[last]).refCount == 1)
            continue;
        if (std::ranges::find(m_sharedBlocks, blocks[last]) == m_sharedBlocks.end())
            m_sharedBlocks.push_back(blocks[last]);
        else
            empty -= size - entry->computed % size;
    }
    for (const BatchRow &row : batch.rows)
        empty -= row.tokens;
    return empty;
}

void Scheduler::advance(const BatchRow &row, std::span<const RowResult> results, CommitResult &out, double now)
{
    const auto it = std::ranges::find(m_running, row.sequence, [](const Entry &entry) { return entry->handle; });
    CHECK(it != m_running.end());
    Sequence &sequence = **it;
    noteShare(sequence, row);
    sequence.computed += row.tokens;
    out.stats.rows.push_back(
        {sequence.id, row.tokens - row.decodeTokens, row.decodeTokens, sequence.computed, sequence.promptTokens});
    const auto index = static_cast<std::size_t>(it - m_running.begin());
    const RowResult *result = row.samples ? &results[static_cast<std::size_t>(row.logitRow)] : nullptr;
    if (result && !result->error.empty()) {
        failForks(sequence.handle, result->error, out.finished);
        out.finished.push_back(remove(m_running, index, FinishReason::Failed, result->error));
        return;
    }
    m_blocks.publish(sequence.table, sequence.tokens, sequence.computed);
    m_blocks.passWindow(sequence.table, sequence.computed);
    if (!result)
        return;
    if (sequence.outputTokens() == 0)
        out.stats.answeredPromptTokens += sequence.promptTokens;
    startForks(sequence, row, *result, out, now);
    append(sequence, result->token, out.stats, now);
    out.outputs.push_back({sequence.id, result->token, sequence.cachedTokens, static_cast<std::size_t>(row.logitRow)});
    if (const auto reason = endOf(sequence, *result))
        out.finished.push_back(remove(m_running, index, *reason, {}));
    else if (m_variants.of(sequence.size()) != sequence.table.variant)
        restart(sequence); // its keys are rotated as a shorter sequence's
}

void Scheduler::append(Sequence &sequence, int token, StepStats &stats, double now) const
{
    sequence.tokens.push_back(token);
    const bool first = sequence.firstTokenAt < 0;
    const double ms = (now - (first ? sequence.arrivedAt : sequence.lastTokenAt)) * 1000.0;
    (first ? stats.ttftMs : stats.itlMs).push_back(ms);
    (first ? stats.ttftRequests : stats.itlRequests).push_back(sequence.id);
    noteToken(sequence, first ? 0 : ms, now);
    if (first)
        sequence.firstTokenAt = now;
    sequence.lastTokenAt = now;
}

std::optional<FinishReason> Scheduler::endOf(const Sequence &sequence, const RowResult &result) const
{
    if (result.end)
        return FinishReason::Stop;
    if (sequence.maxTokens > 0 && sequence.outputTokens() >= sequence.maxTokens)
        return FinishReason::Length;
    if (sequence.size() >= sequence.contextLimit)
        return FinishReason::ContextFull;
    return std::nullopt;
}

FinishedSequence Scheduler::remove(std::vector<Entry> &from, std::size_t index, FinishReason reason, std::string error)
{
    FinishedSequence finished{std::move(*from[index]), reason, std::move(error)};
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
    // What a failed request left in the cache may be the fault itself (not-a-number spreads), so nobody reuses it.
    m_blocks.release(finished.sequence.table, reason == FinishReason::Failed);
    return finished;
}

std::optional<FinishedSequence> Scheduler::finish(RequestId id, FinishReason reason, std::string error)
{
    for (std::vector<Entry> *from : {&m_running, &m_waiting, &m_forks}) {
        const auto it = std::ranges::find(*from, id, [](const Entry &entry) { return entry->id; });
        if (it == from->end())
            continue;
        if (!forksOf((*it)->handle).empty())
            return leaveToFork(**it, reason, std::move(error));
        return remove(*from, static_cast<std::size_t>(it - from->begin()), reason, std::move(error));
    }
    return std::nullopt;
}

/// The first of its forks takes the place, the blocks and the work of a sequence that ends before its prompt is
/// computed.
FinishedSequence Scheduler::leaveToFork(Sequence &leader, FinishReason reason, std::string error)
{
    const auto next = std::ranges::find(m_forks, leader.handle, [](const Entry &entry) { return entry->forkOf; });
    FinishedSequence finished{leader, reason, std::move(error)};
    finished.sequence.table = {};
    leader.id = (*next)->id;
    leader.order = (*next)->order;
    leader.maxTokens = (*next)->maxTokens;
    leader.priority = (*next)->priority;
    m_forks.erase(next);
    return finished;
}

void Scheduler::failForks(int leader, const std::string &error, std::vector<FinishedSequence> &finished)
{
    for (std::size_t i = 0; i < m_forks.size();) {
        if (m_forks[i]->forkOf == leader)
            finished.push_back(remove(m_forks, i, FinishReason::Failed, error));
        else
            ++i;
    }
}

std::vector<const Sequence *> Scheduler::forksOf(int handle) const
{
    std::vector<const Sequence *> forks;
    for (const Entry &entry : m_forks)
        if (entry->forkOf == handle)
            forks.push_back(entry.get());
    return forks;
}

/// The prompt is computed: those that waited for it go on from here with the same blocks. Whoever writes first into
/// the last of them gets a copy.
void Scheduler::startForks(const Sequence &leader, const BatchRow &row, const RowResult &result, CommitResult &out,
                           double now)
{
    std::size_t next = 0;
    for (std::size_t i = 0; i < m_forks.size();) {
        if (m_forks[i]->forkOf != leader.handle) {
            ++i;
            continue;
        }
        const RowResult &own = result.forks.at(next++);
        Entry entry = std::move(m_forks[i]);
        m_forks.erase(m_forks.begin() + static_cast<std::ptrdiff_t>(i));
        Sequence &fork = *entry;
        fork.forkOf = -1;
        fork.computed = leader.computed;
        fork.admittedAt = leader.admittedAt;
        fork.cachedTokens = leader.cachedTokens;
        fork.missPosition = leader.missPosition;
        fork.wait = Sequence::Wait::None;
        fork.rowsOfSteps = leader.rowsOfSteps;
        fork.story = leader.story;
        m_blocks.share(fork.table, leader.table);
        reserveOutput(fork);
        m_running.push_back(std::move(entry));
        out.stats.admitted.push_back(fork.id);
        out.stats.admittedCached.push_back(fork.cachedTokens);
        if (!own.error.empty()) {
            out.finished.push_back(remove(m_running, m_running.size() - 1, FinishReason::Failed, own.error));
            continue;
        }
        append(fork, own.token, out.stats, now);
        out.outputs.push_back({fork.id, own.token, fork.cachedTokens, static_cast<std::size_t>(row.logitRow)});
        if (const auto reason = endOf(fork, own))
            out.finished.push_back(remove(m_running, m_running.size() - 1, *reason, {}));
        else if (m_variants.of(fork.size()) != fork.table.variant)
            restart(fork);
    }
    CHECK(next == result.forks.size());
}

std::vector<FinishedSequence> Scheduler::abandon(const Batch &batch, const std::string &error)
{
    std::vector<FinishedSequence> finished;
    for (const BatchRow &row : batch.rows) {
        failForks(row.sequence, error, finished);
        if (auto one = finish(row.request, FinishReason::Failed, error))
            finished.push_back(std::move(*one));
    }
    return finished;
}

const Sequence *Scheduler::find(RequestId id) const
{
    for (const std::vector<Entry> *from : {&m_running, &m_waiting, &m_forks}) {
        const auto it = std::ranges::find(*from, id, [](const Entry &entry) { return entry->id; });
        if (it != from->end())
            return it->get();
    }
    return nullptr;
}

void Scheduler::setMaxTokens(RequestId id, int maxTokens)
{
    for (std::vector<Entry> *from : {&m_running, &m_waiting, &m_forks})
        for (Entry &entry : *from)
            if (entry->id == id) {
                entry->maxTokens = maxTokens;
                entry->contextLimit = std::min(entry->contextLimit, contextLimit());
            }
}

std::vector<const Sequence *> Scheduler::sequences() const
{
    std::vector<const Sequence *> all;
    for (const std::vector<Entry> *from : {&m_running, &m_waiting, &m_forks})
        for (const Entry &entry : *from)
            all.push_back(entry.get());
    return all;
}

std::string Scheduler::audit() const
{
    std::vector<const BlockTable *> tables;
    for (const Entry &entry : m_running)
        tables.push_back(&entry->table);
    for (const std::vector<Entry> *from : {&m_waiting, &m_forks})
        for (const Entry &entry : *from)
            if (!entry->table.blocks.empty())
                return "waiting request " + std::to_string(entry->id) + " holds "
                    + std::to_string(entry->table.blocks.size()) + " blocks";
    for (const Entry &entry : m_forks)
        if (std::ranges::none_of(sequences(), [&](const Sequence *other) { return other->handle == entry->forkOf; }))
            return "request " + std::to_string(entry->id) + " waits for a prompt that nobody computes";
    return m_blocks.audit(tables);
}

} // namespace engine
