// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/scheduler.h"

#include "engine/api/error.h"

#include <algorithm>
#include <utility>

namespace engine {

CommitResult Scheduler::commit(const Batch &batch, std::span<const RowResult> results, double now)
{
    CHECK(results.size() == batch.forward.logitRows.size());
    CommitResult out;
    ++m_steps;
    m_maxRunning = std::max(m_maxRunning, running());
    fillStats(batch, out.stats, now);
    out.stats.admitted = std::exchange(m_admitted, {});
    out.stats.preempted = std::exchange(m_preempted, {});
    for (const BatchRow &row : batch.rows)
        advance(row, results, out, now);
    return out;
}

void Scheduler::fillStats(const Batch &batch, StepStats &stats, double now) const
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
    stats.preemptions = m_preemptions;
    stats.prefixQueryTokens = m_prefixQueryTokens;
    stats.prefixHitTokens = m_prefixHitTokens;
    for (const BatchRow &row : batch.rows) {
        stats.decodeTokens += row.decodeTokens;
        stats.prefillTokens += row.tokens - row.decodeTokens;
    }
}

void Scheduler::advance(const BatchRow &row, std::span<const RowResult> results, CommitResult &out, double now)
{
    const auto it = std::ranges::find(m_running, row.sequence, [](const Entry &entry) { return entry->handle; });
    CHECK(it != m_running.end());
    Sequence &sequence = **it;
    sequence.computed += row.tokens;
    out.stats.rows.push_back(
        {sequence.id, row.tokens - row.decodeTokens, row.decodeTokens, sequence.computed, sequence.promptTokens});
    const auto index = static_cast<std::size_t>(it - m_running.begin());
    const RowResult *result = row.samples ? &results[static_cast<std::size_t>(row.logitRow)] : nullptr;
    if (result && !result->error.empty()) {
        out.finished.push_back(remove(m_running, index, FinishReason::Failed, result->error));
        return;
    }
    m_blocks.publish(sequence.table, sequence.tokens, sequence.computed);
    if (!result)
        return;
    append(sequence, result->token, out.stats, now);
    out.outputs.push_back({sequence.id, result->token, sequence.cachedTokens, static_cast<std::size_t>(row.logitRow)});
    if (const auto reason = endOf(sequence, *result))
        out.finished.push_back(remove(m_running, index, *reason, {}));
    else if (m_variants.of(sequence.size()) != sequence.table.variant)
        restart(sequence); // its keys are rotated as a shorter sequence's
}

void Scheduler::append(Sequence &sequence, int token, StepStats &stats, double now)
{
    sequence.tokens.push_back(token);
    if (sequence.firstTokenAt < 0) {
        sequence.firstTokenAt = now;
        stats.ttftMs.push_back((now - sequence.arrivedAt) * 1000.0);
        stats.answeredPromptTokens += sequence.promptTokens;
    } else {
        stats.itlMs.push_back((now - sequence.lastTokenAt) * 1000.0);
    }
    sequence.lastTokenAt = now;
}

std::optional<FinishReason> Scheduler::endOf(const Sequence &sequence, const RowResult &result) const
{
    if (result.end)
        return FinishReason::Stop;
    if (sequence.maxTokens > 0 && sequence.outputTokens() >= sequence.maxTokens)
        return FinishReason::Length;
    if (sequence.size() >= contextLimit())
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
    for (std::vector<Entry> *from : {&m_running, &m_waiting}) {
        const auto it = std::ranges::find(*from, id, [](const Entry &entry) { return entry->id; });
        if (it != from->end())
            return remove(*from, static_cast<std::size_t>(it - from->begin()), reason, std::move(error));
    }
    return std::nullopt;
}

std::vector<FinishedSequence> Scheduler::abandon(const Batch &batch, const std::string &error)
{
    std::vector<FinishedSequence> finished;
    for (const BatchRow &row : batch.rows)
        if (auto one = finish(row.request, FinishReason::Failed, error))
            finished.push_back(std::move(*one));
    return finished;
}

const Sequence *Scheduler::find(RequestId id) const
{
    for (const std::vector<Entry> *from : {&m_running, &m_waiting}) {
        const auto it = std::ranges::find(*from, id, [](const Entry &entry) { return entry->id; });
        if (it != from->end())
            return it->get();
    }
    return nullptr;
}

void Scheduler::setMaxTokens(RequestId id, int maxTokens)
{
    for (std::vector<Entry> *from : {&m_running, &m_waiting})
        for (Entry &entry : *from)
            if (entry->id == id)
                entry->maxTokens = maxTokens;
}

std::vector<const Sequence *> Scheduler::sequences() const
{
    std::vector<const Sequence *> all;
    for (const std::vector<Entry> *from : {&m_running, &m_waiting})
        for (const Entry &entry : *from)
            all.push_back(entry.get());
    return all;
}

std::string Scheduler::audit() const
{
    std::vector<const BlockTable *> tables;
    for (const Entry &entry : m_running)
        tables.push_back(&entry->table);
    for (const Entry &entry : m_waiting) {
        if (!entry->table.blocks.empty())
            return "waiting request " + std::to_string(entry->id) + " holds "
                + std::to_string(entry->table.blocks.size()) + " blocks";
    }
    return m_blocks.audit(tables);
}

} // namespace engine
