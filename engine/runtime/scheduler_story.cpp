// SPDX-License-Identifier: GPL-3.0-or-later
// What happens to a request on its way, told by Scheduler::schedule and commit as it happens.
#include "engine/runtime/scheduler.h"

#include <algorithm>

namespace engine {

namespace {

constexpr double ms = 1000.0;

} // namespace

/// Those of the queue that come after it under the rules in force are not before it.
void Scheduler::beginStory(Sequence &sequence) const
{
    sequence.waitSince = sequence.arrivedAt;
    sequence.story.runningBefore = running();
    sequence.story.waitingBefore = static_cast<int>(
        std::ranges::count_if(m_waiting, [&](const Entry &other) { return !comesBefore(sequence, *other); }));
}

/// After the admissions of a step: who waits from here on, and for what.
void Scheduler::noteWaits(double now)
{
    const bool full = m_running.size() >= places();
    for (const Entry &entry : m_waiting) {
        const bool noRoom = entry->wait == Sequence::Wait::Blocks && entry->waitSince == now;
        noteWait(*entry, full ? Sequence::Wait::Places : noRoom ? Sequence::Wait::Blocks : Sequence::Wait::Turn, now);
    }
    for (std::size_t i = 0; i < m_running.size(); ++i)
        noteWait(*m_running[i], i < active() ? Sequence::Wait::None : Sequence::Wait::Paused, now);
}

/// Ends the wait so far and begins another one.
void Scheduler::noteWait(Sequence &sequence, Sequence::Wait wait, double now) const
{
    const double waited = (now - sequence.waitSince) * ms;
    RequestStory &story = sequence.story;
    if (sequence.admittedAt < 0) {
        story.placesMs += sequence.wait == Sequence::Wait::Places ? waited : 0;
        story.blocksMs += sequence.wait == Sequence::Wait::Blocks ? waited : 0;
        story.turnMs += sequence.wait == Sequence::Wait::Turn ? waited : 0;
    }
    story.pausedMs += sequence.wait == Sequence::Wait::Paused ? waited : 0;
    sequence.wait = wait;
    sequence.waitSince = now;
}

void Scheduler::noteNoRoom(Sequence &sequence, int needed) const
{
    noteWait(sequence, Sequence::Wait::Blocks, m_step.began);
    if (sequence.admittedAt >= 0 || sequence.story.blocksWanted > 0)
        return;
    sequence.story.blocksWanted = needed;
    sequence.story.blocksFree = std::max(0, m_blocks.freeBlocks() - reserveBlocks());
}

/// It has blocks again, or for the first time.
void Scheduler::noteAdmission(Sequence &sequence, int cached) const
{
    noteWait(sequence, Sequence::Wait::None, m_step.began);
    if (sequence.preemptedAt >= 0)
        sequence.story.recomputedTokens += std::max(0, sequence.computedBefore - cached);
    sequence.computedBefore = 0;
}

void Scheduler::noteShare(Sequence &sequence, const BatchRow &row) const
{
    RequestStory &story = sequence.story;
    ++story.steps;
    story.prefillSteps += sequence.outputTokens() == 0 ? 1 : 0;
    story.mostRows = std::max(story.mostRows, m_step.rows);
    sequence.rowsOfSteps += m_step.rows;
    story.meanRows = static_cast<double>(sequence.rowsOfSteps) / story.steps;
    if (m_hot) {
        ++story.hotSteps;
        story.hotBudget = story.hotBudget == 0 ? m_limits.maxNumBatchedTokens
                                               : std::min(story.hotBudget, m_limits.maxNumBatchedTokens);
    }
    if (row.decodeTokens > 0)
        story.othersPrefill += m_step.prefillTokens;
}

/// `gapMs`: since the token before; 0 for the first.
void Scheduler::noteToken(Sequence &sequence, double gapMs, double now) const
{
    RequestStory &story = sequence.story;
    if (sequence.preemptedAt >= 0)
        story.preemptedMs += (now - sequence.preemptedAt) * ms;
    else if (gapMs > 0 && m_step.prefillTokens > 0)
        story.othersPrefillMs += (now - m_step.began) * ms;
    if (gapMs > story.longestGapMs) {
        story.longestGapMs = gapMs;
        story.longestGapPrefill = sequence.preemptedAt < 0 ? m_step.prefillTokens : 0;
    }
    sequence.preemptedAt = -1;
}

} // namespace engine
