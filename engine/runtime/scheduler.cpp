// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/scheduler.h"

#include "engine/api/error.h"
#include "engine/runtime/baselines/serving_baselines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <utility>

namespace engine {

namespace {

/// Empties it; the lists keep their memory.
void clear(ForwardBatch &batch)
{
    for (std::vector<int> *list :
         {&batch.tokenIds, &batch.positions, &batch.slotIds, &batch.queryStarts, &batch.contextLengths,
          &batch.blockTables, &batch.logitRows, &batch.windowSlotIds, &batch.windowTables, &batch.ropeVariants})
        list->clear();
    batch.maxBlocks = 0;
}

} // namespace

Scheduler::Scheduler(const Config &config)
    : m_limits(clampLimits(config.limits))
    , m_rules(config.rules)
    , m_maxModelLen(config.maxModelLen)
    , m_variants(config.variants)
    , m_baselines(config.baselines)
    , m_blocks(sizesOf(config.kv, config.window), config.kv.prefixCaching)
{
}

KvSizes Scheduler::sizesOf(const KvPoolConfig &kv, int window)
{
    return {kv.numBlocks, kv.blockTokens, window, window > 0 ? kv.windowBlocks : 0};
}

BatchLimits Scheduler::clampLimits(BatchLimits limits)
{
    limits.maxNumSeqs = std::max(limits.maxNumSeqs, 1);
    limits.maxNumBatchedTokens = std::max(limits.maxNumBatchedTokens, limits.maxNumSeqs);
    return limits;
}

int Scheduler::contextLimit() const
{
    const std::int64_t pool = std::int64_t{m_blocks.blocks()} * m_blocks.blockTokens();
    return static_cast<int>(std::min<std::int64_t>(m_maxModelLen, pool));
}

std::string Scheduler::refuse(int promptTokens, int maxTokens) const
{
    const std::int64_t pool = std::int64_t{m_blocks.blocks()} * m_blocks.blockTokens();
    if (promptTokens < 1)
        return "the prompt is empty, wanted is at least 1 token";
    if (promptTokens >= m_maxModelLen)
        return "the prompt has " + std::to_string(promptTokens) + " tokens, but the context holds "
            + std::to_string(m_maxModelLen) + " (max-model-len) for prompt and output together";
    const std::int64_t wanted =
        std::min<std::int64_t>(std::int64_t{promptTokens} + std::max(maxTokens, 1), m_maxModelLen);
    if (wanted > pool)
        return "the request needs room for " + std::to_string(wanted) + " tokens (" + std::to_string(promptTokens)
            + " of the prompt), but the whole KV pool holds " + std::to_string(pool) + " ("
            + std::to_string(m_blocks.blocks()) + " blocks of " + std::to_string(m_blocks.blockTokens()) + ")";
    return {};
}

Scheduler::Entry Scheduler::taken(Sequence sequence)
{
    CHECK(sequence.promptTokens == sequence.size() && sequence.computed == 0 && sequence.table.blocks.empty());
    sequence.handle = m_nextHandle++;
    sequence.order = m_nextOrder++;
    sequence.contextLimit = contextLimit();
    beginStory(sequence);
    return std::make_unique<Sequence>(std::move(sequence));
}

void Scheduler::add(Sequence sequence)
{
    enqueue(taken(std::move(sequence)));
}

void Scheduler::addFork(Sequence sequence, RequestId leader)
{
    const Sequence *first = find(leader);
    CHECK(first && first->outputTokens() == 0 && first->tokens == sequence.tokens);
    sequence.forkOf = first->forkOf >= 0 ? first->forkOf : first->handle;
    m_forks.push_back(taken(std::move(sequence)));
}

void Scheduler::enqueue(Entry sequence)
{
    const auto place = std::ranges::upper_bound(m_waiting, sequence,
                                                [this](const Entry &a, const Entry &b) { return comesBefore(*a, *b); });
    m_waiting.insert(place, std::move(sequence));
}

bool Scheduler::comesBefore(const Sequence &a, const Sequence &b) const
{
    if (m_rules.policy == SchedulingPolicy::Priority && a.priority != b.priority)
        return a.priority < b.priority;
    if (a.preempted != b.preempted)
        return a.preempted;
    if (m_rules.policy == SchedulingPolicy::Shortest) {
        const bool agedA = a.overtaken >= maxOvertaken;
        const bool agedB = b.overtaken >= maxOvertaken;
        if (agedA != agedB)
            return agedA;
        if (!agedA && a.size() != b.size())
            return a.size() < b.size();
    }
    return a.order < b.order;
}

std::size_t Scheduler::active() const
{
    return std::min(m_running.size(), static_cast<std::size_t>(m_limits.maxNumSeqs));
}

int Scheduler::running() const
{
    return static_cast<int>(active());
}

const Batch &Scheduler::schedule(double now, int tokenCap)
{
    m_batch.copies.clear();
    m_step.began = now;
    growForDecodes();
    makeWindowRoom();
    if (m_preempted.empty() || m_running.empty()) // a step that preempts admits nobody
        admit(now, tokenCap);
    noteWaits(now);
    share(tokenCap);
    holdWindows();
    build(m_parts, m_batch);
    return m_batch;
}

/// Gives every decode a block of its own for its token, taking it from others where none is free.
void Scheduler::growForDecodes()
{
    m_decodes.clear();
    for (std::size_t i = 0; i < active(); ++i)
        if (m_running[i]->pending() == 1)
            m_decodes.push_back(m_running[i].get());
    const auto hasRoom = [this](Sequence &sequence) {
        return m_blocks.grow(sequence.table, sequence.size())
            && m_blocks.own(sequence.table, sequence.computed, m_batch.copies)
            && m_blocks.holdWindow(sequence.table, sequence.size());
    };
    for (Sequence *sequence : m_decodes) {
        while (!sequence->preempted && !hasRoom(*sequence)) {
            // Alone, a request never gets here: refuse() and contextLimit() keep it within the pool.
            CHECK(m_running.size() > 1);
            preempt(victim());
        }
    }
}

/// Sequences that the window slots are enough for, whatever they do. A pool is sized for maxNumSeqs; fewer are let in
/// only when that limit was raised and there was no memory for more slots.
std::size_t Scheduler::seats() const
{
    const KvSizes sizes = m_blocks.sizes();
    if (sizes.windowBlocks == sizes.blocks || sizes.window == 0)
        return m_running.size() + m_waiting.size() + m_forks.size() + 1;
    const int ofStep = m_blocks.blocksForTokens(m_limits.maxNumBatchedTokens);
    const int each = m_blocks.blocksForTokens(sizes.window) + 2;
    return static_cast<std::size_t>(std::max(1, (sizes.windowBlocks - ofStep) / each));
}

/// Where nothing decodes, the first prompt must be able to go on. More than seats() run only as forks.
void Scheduler::makeWindowRoom()
{
    const auto isStuck = [this] {
        const auto end = m_running.begin() + static_cast<std::ptrdiff_t>(active());
        return active() > 0
            && std::none_of(m_running.begin(), end, [](const Entry &entry) { return entry->pending() == 1; })
            && m_blocks.windowReach(m_running.front()->table) <= m_running.front()->computed;
    };
    while (isStuck()) {
        CHECK(m_running.size() > 1);
        preempt(victim());
    }
}

/// Takes the window slots of a step; where they are too few, a prompt gets fewer tokens.
void Scheduler::holdWindows()
{
    for (Part &part : m_parts) {
        BlockTable &table = part.sequence->table;
        const int computed = part.sequence->computed;
        part.tokens = std::min(part.tokens, m_blocks.windowReach(table) - computed);
        if (part.tokens > 0)
            CHECK(m_blocks.holdWindow(table, computed + part.tokens));
    }
    std::erase_if(m_parts, [](const Part &part) { return part.tokens <= 0; });
}

Sequence &Scheduler::victim() const
{
    std::size_t best = 0;
    for (std::size_t i = 1; i < m_running.size(); ++i)
        if (betterVictim(i, best))
            best = i;
    return *m_running[best];
}

/// Paused ones first, then low priority, then the least work lost per block that comes free, then the youngest.
bool Scheduler::betterVictim(std::size_t indexA, std::size_t indexB) const
{
    const Sequence &a = *m_running[indexA];
    const Sequence &b = *m_running[indexB];
    const bool pausedA = indexA >= active();
    const bool pausedB = indexB >= active();
    if (pausedA != pausedB)
        return pausedA;
    if (m_rules.policy == SchedulingPolicy::Priority && a.priority != b.priority)
        return a.priority > b.priority;
    const std::int64_t freedA = m_blocks.exclusiveBlocks(a.table);
    const std::int64_t freedB = m_blocks.exclusiveBlocks(b.table);
    if ((freedA == 0) != (freedB == 0))
        return freedB == 0;
    const std::int64_t lossA = a.computed * freedB;
    const std::int64_t lossB = b.computed * freedA;
    return lossA != lossB ? lossA < lossB : a.order > b.order;
}

void Scheduler::preempt(Sequence &sequence)
{
    ++m_preemptions;
    ++sequence.preemptions;
    m_preempted.push_back(sequence.id);
    sequence.preemptedAt = sequence.preemptedAt < 0 ? m_step.began : sequence.preemptedAt;
    sequence.computedBefore = sequence.computed;
    restart(sequence);
}

/// Gives back a sequence's blocks; it waits, before new requests, to be computed again from its tokens.
void Scheduler::restart(Sequence &sequence)
{
    const auto it = std::ranges::find(m_running, &sequence, [](const Entry &item) { return item.get(); });
    Entry entry = std::move(*it);
    m_running.erase(it);
    m_blocks.release(entry->table);
    entry->computed = 0;
    entry->preempted = true;
    enqueue(std::move(entry));
}

/// Prompt tokens that the step has room for beside its decodes.
int Scheduler::promptBudget(int tokenCap) const
{
    int left = m_limits.maxNumBatchedTokens;
    for (std::size_t i = 0; i < active(); ++i)
        left -= m_running[i]->pending() == 1 ? 1 : 0;
    return std::max(tokenCap > 0 ? std::min(left, tokenCap) : left, 0);
}

/// Of a budget, what one prompt gets at first: all of it only when it is the only one that wants any.
int Scheduler::promptShare(int budget) const
{
    std::size_t claims = m_waiting.size();
    for (std::size_t i = 0; i < active(); ++i)
        claims += m_running[i]->pending() > 1 ? 1 : 0;
    return claims > 1 && !baselines::takesWholePrompts(m_baselines)
        ? std::max(budget / shareDivisor, m_blocks.blockTokens())
        : budget;
}

void Scheduler::admit(double now, int tokenCap)
{
    if (!baselines::mayJoin(m_baselines, m_running.size()))
        return;
    int left = promptBudget(tokenCap);
    const int shareOfOne = promptShare(left);
    for (std::size_t i = 0; i < active(); ++i)
        if (m_running[i]->pending() > 1)
            left -= std::min(m_running[i]->pending(), shareOfOne);
    std::size_t index = 0;
    while (index < m_waiting.size() && index < maxPassed && (left > 0 || m_baselines.staticBatches)
           && m_running.size() < places()) {
        Sequence &sequence = *m_waiting[index];
        const bool resumed = sequence.preempted;
        if (tryAdmit(sequence, now)) {
            left -= std::min(sequence.pending(), shareOfOne);
            if (!resumed) // that one had its turn already
                countOvertaken(index, sequence);
            m_running.push_back(std::move(m_waiting[index]));
            m_waiting.erase(m_waiting.begin() + static_cast<std::ptrdiff_t>(index));
            continue;
        }
        if (sequence.preempted || sequence.overtaken >= maxOvertaken)
            break; // its turn is kept for it until it fits
        ++index;
    }
    if (m_rules.policy == SchedulingPolicy::Shortest)
        std::ranges::stable_sort(m_waiting, [this](const Entry &a, const Entry &b) { return comesBefore(*a, *b); });
}

/// Counts an admission against the requests that were passed by it.
void Scheduler::countOvertaken(std::size_t index, const Sequence &admitted)
{
    for (std::size_t i = 0; i < m_waiting.size(); ++i) {
        const bool passed =
            i < index || (m_rules.policy == SchedulingPolicy::Shortest && m_waiting[i]->order < admitted.order);
        m_waiting[i]->overtaken += passed ? 1 : 0;
    }
}

bool Scheduler::tryAdmit(Sequence &sequence, double now)
{
    const PrefixMatch match = m_blocks.match(sequence.tokens, m_variants.of(sequence.size()));
    const int slots = baselines::tokensAtAdmission(m_baselines, sequence.size(), contextLimit());
    const int needed = m_blocks.blocksForTokens(slots) - static_cast<int>(match.blocks.size());
    if (needed + match.unreferenced + reserveBlocks() > m_blocks.freeBlocks()) {
        noteNoRoom(sequence, needed);
        return false;
    }
    if (sequence.admittedAt < 0)
        sequence.missPosition = m_blocks.missPosition(sequence.tokens, match);
    m_blocks.adopt(sequence.table, match);
    CHECK(m_blocks.grow(sequence.table, slots));
    noteAdmission(sequence, match.tokens);
    sequence.computed = match.tokens;
    sequence.preempted = false;
    if (sequence.admittedAt < 0) {
        sequence.admittedAt = now;
        sequence.cachedTokens = match.tokens;
        m_prefixQueryTokens += static_cast<std::uint64_t>(sequence.promptTokens);
        m_prefixHitTokens += static_cast<std::uint64_t>(match.tokens);
    }
    m_admitted.push_back(sequence.id);
    m_admittedCached.push_back(match.tokens);
    reserveOutput(sequence);
    return true;
}

/// Room for all tokens that it may come to, so that none of them allocates when it comes.
void Scheduler::reserveOutput(Sequence &sequence) const
{
    const int output = sequence.maxTokens > 0 ? sequence.maxTokens : sequence.contextLimit;
    const int most =
        std::max(sequence.size(),
                 std::min(sequence.contextLimit, sequence.promptTokens + std::min(output, sequence.contextLimit)));
    sequence.tokens.reserve(static_cast<std::size_t>(most));
    sequence.table.blocks.reserve(static_cast<std::size_t>(m_blocks.blocksForTokens(most)));
}

/// Blocks that admission leaves free for the growth of what runs already.
int Scheduler::reserveBlocks() const
{
    return m_running.empty() ? 0 : static_cast<int>(m_blocks.blocks() * m_rules.admissionReserve);
}

void Scheduler::setRules(const AdmissionRules &rules)
{
    m_rules = rules;
    std::ranges::stable_sort(m_waiting, [this](const Entry &a, const Entry &b) { return comesBefore(*a, *b); });
}

std::int64_t Scheduler::waitingTokens() const
{
    std::int64_t tokens = 0;
    for (const Entry &entry : m_waiting)
        tokens += entry->size();
    return tokens;
}

Scheduler::QueueLoad Scheduler::queued(int newTokens) const
{
    QueueLoad load{static_cast<int>(m_waiting.size()), waitingTokens()};
    std::size_t left = std::max(places(), active()) - active();
    int free = m_blocks.freeBlocks() - reserveBlocks();
    const auto fits = [&](int tokens) {
        free -= m_blocks.blocksForTokens(tokens);
        return left-- > 0 && free >= 0;
    };
    std::size_t index = 0;
    for (; index < m_waiting.size() && left > 0 && fits(m_waiting[index]->size()); ++index) {
        --load.requests;
        load.tokens -= m_waiting[index]->size();
    }
    const auto forks = std::min(left, m_forks.size());
    load.requests += static_cast<int>(m_forks.size() - forks);
    left -= forks;
    if (newTokens > 0 && !(index == m_waiting.size() && left > 0 && fits(newTokens))) {
        ++load.requests;
        load.tokens += newTokens;
    }
    return load;
}

void Scheduler::share(int tokenCap)
{
    m_parts.clear();
    for (std::size_t i = 0; i < active(); ++i)
        if (m_running[i]->pending() == 1)
            m_parts.push_back({m_running[i].get(), 1});
    int left = promptBudget(tokenCap);
    const int shareOfOne = promptShare(left);
    const std::size_t firstPrompt = m_parts.size();
    for (std::size_t i = 0; i < active(); ++i) {
        if (m_running[i]->pending() <= 1)
            continue;
        const int tokens = std::min({m_running[i]->pending(), shareOfOne, left});
        m_parts.push_back({m_running[i].get(), tokens});
        left -= tokens;
    }
    for (std::size_t i = firstPrompt; i < m_parts.size(); ++i) { // what others did not want
        const int more = std::min(m_parts[i].sequence->pending() - m_parts[i].tokens, left);
        m_parts[i].tokens += more;
        left -= more;
    }
    std::erase_if(m_parts, [](const Part &part) { return part.tokens == 0; });
}

Batch Scheduler::alone(const BatchRow &row) const
{
    const auto it = std::ranges::find(m_running, row.sequence, [](const Entry &entry) { return entry->handle; });
    CHECK(it != m_running.end());
    Batch batch;
    build(std::array{Part{it->get(), row.tokens}}, batch);
    return batch;
}

/// All but the copies.
void Scheduler::build(std::span<const Part> parts, Batch &batch) const
{
    ForwardBatch &forward = batch.forward;
    batch.rows.clear();
    clear(forward);
    if (parts.empty())
        return;
    forward.queryStarts.push_back(0);
    for (const auto &[sequence, count] : parts) {
        appendRow(*sequence, count, batch);
        forward.maxBlocks = std::max(forward.maxBlocks, m_blocks.blocksForTokens(sequence->computed + count));
    }
    const auto cells = parts.size() * static_cast<std::size_t>(forward.maxBlocks);
    const auto widths = std::bit_ceil(cells); // or they would be made anew with every block
    forward.blockTables.reserve(widths);
    forward.blockTables.assign(cells, 0);
    if (m_blocks.sizes().window > 0) {
        forward.windowTables.reserve(widths);
        forward.windowTables.assign(cells, -1);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const BlockTable &table = parts[i].sequence->table;
        const auto used = static_cast<std::size_t>(m_blocks.blocksForTokens(forward.contextLengths[i]));
        const std::size_t first = i * static_cast<std::size_t>(forward.maxBlocks);
        std::copy_n(table.blocks.begin(), used, forward.blockTables.begin() + static_cast<std::ptrdiff_t>(first));
        for (int held = table.windowFirst; held < table.windowEnd; ++held)
            if (const auto index = static_cast<std::size_t>(held); index < used)
                forward.windowTables[first + index] = m_blocks.window().slotOf(table.blocks[index]);
    }
}

void Scheduler::appendRow(const Sequence &sequence, int count, Batch &batch) const
{
    const int blockTokens = m_blocks.blockTokens();
    const bool windowed = m_blocks.sizes().window > 0;
    ForwardBatch &forward = batch.forward;
    BatchRow row{sequence.id, sequence.handle, static_cast<int>(forward.tokenIds.size()), count};
    for (int position = sequence.computed; position < sequence.computed + count; ++position) {
        forward.tokenIds.push_back(sequence.tokens[static_cast<std::size_t>(position)]);
        forward.positions.push_back(position);
        const int block = sequence.table.blocks[static_cast<std::size_t>(position / blockTokens)];
        forward.slotIds.push_back(block * blockTokens + position % blockTokens);
        if (windowed)
            forward.windowSlotIds.push_back(m_blocks.window().slotOf(block) * blockTokens + position % blockTokens);
    }
    row.decodeTokens = sequence.pending() == 1 && sequence.outputTokens() > 0 ? 1 : 0;
    row.samples = count == sequence.pending();
    if (row.samples) {
        row.logitRow = static_cast<int>(forward.logitRows.size());
        forward.logitRows.push_back(row.firstToken + count - 1);
    }
    forward.queryStarts.push_back(row.firstToken + count);
    forward.contextLengths.push_back(sequence.computed + count);
    forward.ropeVariants.push_back(sequence.table.variant);
    batch.rows.push_back(row);
}

} // namespace engine
