// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/thread_governor.h"

#include "kernels/error.h"

#include <algorithm>
#include <tuple>
#include <utility>

#if defined(__linux__)
#include <sys/resource.h>
#endif

namespace engine {

namespace {

constexpr double gain = 0.97; // of the time; less is not worth a change that may be noise
constexpr int patience = 64;

} // namespace

std::int64_t lostCores()
{
#if defined(__linux__)
    rusage usage{};
    return getrusage(RUSAGE_SELF, &usage) == 0 ? usage.ru_nivcsw : 0;
#else
    return 0;
#endif
}

double ThreadGovernor::Times::median() const
{
    std::array<double, std::tuple_size_v<decltype(seconds)>> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
}

ThreadGovernor::ThreadGovernor(int most)
{
    reset(most);
}

void ThreadGovernor::reset(int most)
{
    CHECK(most >= 1);
    m_most = m_threads = most;
    m_wait = firstWait;
    m_sinceTrial = 0;
    m_disturbed.fill(false);
    m_trial = {};
}

bool ThreadGovernor::isDisturbed() const
{
    return std::count(m_disturbed.begin(), m_disturbed.end(), true) >= windowSteps / 4;
}

int ThreadGovernor::lower() const
{
    return std::max(1, std::min(m_threads - 1, m_threads * 3 / 4));
}

int ThreadGovernor::higher() const
{
    return std::min(m_most, std::max(m_threads + 1, m_threads * 4 / 3));
}

int ThreadGovernor::threads() const
{
    const bool there = m_trial.threads != 0 && m_trial.steps / turnSteps % 2 == 1;
    return there ? m_trial.threads : m_threads;
}

void ThreadGovernor::note(const Step &step)
{
    m_disturbed[m_steps++ % windowSteps] = step.disturbed;
    if (m_trial.threads != 0)
        return noteTrial(step);
    if (++m_sinceTrial >= m_wait)
        beginTrial(step.work);
}

/// Down while cores are lost, otherwise up.
void ThreadGovernor::beginTrial(std::int64_t work)
{
    const int other = isDisturbed() && m_threads > 1 ? lower() : higher();
    if (other == m_threads)
        return;
    m_trial = {other, work, 0, patience, {}, {}};
}

void ThreadGovernor::noteTrial(const Step &step)
{
    if (step.work != m_trial.work) {
        if (--m_trial.patience == 0) {
            m_trial = {};
            m_sinceTrial = 0;
        }
        return;
    }
    const int turn = m_trial.steps / turnSteps;
    if (m_trial.steps % turnSteps != 0)
        (turn % 2 == 0 ? m_trial.here : m_trial.there).add(step.seconds);
    if (++m_trial.steps == turnSteps * turns)
        endTrial();
}

void ThreadGovernor::endTrial()
{
    const Trial trial = std::exchange(m_trial, {});
    m_sinceTrial = 0;
    if (trial.there.median() < gain * trial.here.median()) {
        m_threads = trial.threads;
        m_wait = firstWait;
    } else {
        m_wait = std::min(2 * m_wait, longestWait);
    }
}

} // namespace engine
