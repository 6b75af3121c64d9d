// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/thread_pool.h"

#include "kernels/error.h"

#include <chrono>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace kernels {

namespace {

constexpr std::uint64_t openBit = 1ULL << 31;
constexpr std::uint64_t insideMask = openBit - 1;
constexpr std::uint64_t jobStep = 1ULL << 32;
// Layers follow each other within a few microseconds; longer gaps (sampling, waiting for input) are slept through.
constexpr auto spinTime = std::chrono::microseconds(60);
constexpr int pausesPerLook = 32;

void pause()
{
#if defined(__x86_64__)
    _mm_pause();
#else
    std::this_thread::yield();
#endif
}

std::uint64_t jobOf(std::uint64_t state)
{
    return state / jobStep;
}

} // namespace

ThreadPool::ThreadPool(int threads)
    : m_threads(threads)
{
    CHECK(threads >= 1);
    start();
}

ThreadPool::~ThreadPool()
{
    stop();
}

void ThreadPool::setThreads(int threads)
{
    CHECK(threads >= 1);
    if (threads == m_threads)
        return;
    stop();
    m_threads = threads;
    start();
}

void ThreadPool::Stretch::set(int parts, int index, int count)
{
    const auto bound = [&](int i) { return static_cast<int>(std::int64_t{parts} * i / count); };
    next.store(bound(index), std::memory_order_relaxed);
    end = bound(index + 1);
}

void ThreadPool::useThreads(int threads)
{
    CHECK(threads >= 1 && threads <= m_threads);
    {
        const std::lock_guard lock(m_mutex); // or a worker between its look and its sleep would miss the change
        m_used.store(threads);
    }
    m_wakeUnused.notify_all();
}

void ThreadPool::start()
{
    m_used.store(m_threads);
    m_stretches = std::vector<Stretch>(static_cast<std::size_t>(m_threads));
    m_stopping = false;
    for (int worker = 1; worker < m_threads; ++worker)
        m_workers.emplace_back([this, worker] { workerLoop(worker); });
}

void ThreadPool::stop()
{
    {
        const std::lock_guard lock(m_mutex);
        m_stopping = true;
    }
    m_wake.notify_all();
    m_wakeUnused.notify_all();
    for (std::thread &worker : m_workers)
        worker.join();
    m_workers.clear();
}

void ThreadPool::runShared()
{
    const std::uint64_t job = jobOf(m_state.load(std::memory_order_relaxed)) + 1;
    m_state.store(job * jobStep | openBit); // sequentially consistent: pairs with the look in sleepUntilOpen
    if (m_sleepers.load() > 0) {
        const std::lock_guard lock(m_mutex);
        m_wake.notify_all();
    }
    work(0);
    // Closed to those who have not come yet; those inside are waited for.
    std::uint64_t state = m_state.fetch_and(~openBit, std::memory_order_acq_rel);
    for (int looks = 0; (state & insideMask) != 0; ++looks) {
        pause();
        if (looks > 4096)
            std::this_thread::yield();
        state = m_state.load(std::memory_order_acquire);
    }
    std::exception_ptr failure;
    {
        const std::lock_guard lock(m_mutex);
        std::swap(failure, m_failure);
    }
    if (failure)
        std::rethrow_exception(failure);
}

void ThreadPool::work(int worker)
{
    try {
        for (int i = 0; i < m_usedStretches; ++i) {
            Stretch &stretch = m_stretches[static_cast<std::size_t>((worker + i) % m_usedStretches)];
            for (int part = stretch.next.fetch_add(1, std::memory_order_relaxed); part < stretch.end;
                 part = stretch.next.fetch_add(1, std::memory_order_relaxed))
                m_call(m_context, part, worker);
        }
    } catch (...) {
        for (int i = 0; i < m_usedStretches; ++i) {
            Stretch &stretch = m_stretches[static_cast<std::size_t>(i)];
            stretch.next.store(stretch.end, std::memory_order_relaxed);
        }
        const std::lock_guard lock(m_mutex);
        if (!m_failure)
            m_failure = std::current_exception();
    }
}

bool ThreadPool::enter(std::uint64_t &seen, int worker)
{
    std::uint64_t state = m_state.load(std::memory_order_acquire);
    // Read behind the state, so that it is the job's own number, or else the exchange fails.
    while ((state & openBit) != 0 && jobOf(state) != jobOf(seen) && worker < threads()) {
        if (m_state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) {
            seen = state;
            return true;
        }
    }
    return false;
}

void ThreadPool::sleepUntilOpen(std::uint64_t seen)
{
    std::unique_lock lock(m_mutex);
    m_sleepers.fetch_add(1);
    m_wake.wait(lock, [&] {
        const std::uint64_t state = m_state.load();
        return m_stopping.load() || ((state & openBit) != 0 && jobOf(state) != jobOf(seen));
    });
    m_sleepers.fetch_sub(1);
}

void ThreadPool::sleepUntilUsed(int worker)
{
    std::unique_lock lock(m_mutex);
    m_wakeUnused.wait(lock, [&] { return m_stopping.load() || worker < threads(); });
}

void ThreadPool::workerLoop(int worker)
{
    std::uint64_t seen = 0;
    auto idleSince = std::chrono::steady_clock::now();
    while (!m_stopping.load(std::memory_order_relaxed)) {
        if (worker >= threads())
            sleepUntilUsed(worker);
        if (enter(seen, worker)) {
            work(worker);
            m_state.fetch_sub(1, std::memory_order_release);
            idleSince = std::chrono::steady_clock::now();
            continue;
        }
        for (int i = 0; i < pausesPerLook && (m_state.load(std::memory_order_relaxed) & openBit) == 0; ++i)
            pause();
        if (std::chrono::steady_clock::now() - idleSince > spinTime) {
            sleepUntilOpen(seen);
            idleSince = std::chrono::steady_clock::now();
        }
    }
}

} // namespace kernels
