// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace kernels {

/// Worker threads that share the numbered parts of one job after another.
///
/// Parts are taken one by one, so a thread whose core is stolen delays only the part it holds; a thread that has
/// not woken yet is never waited for. A job's parts are taken in order by whoever is free, or each thread has a stretch
/// of them that it begins with before it helps others. Idle threads spin for some ten microseconds, then sleep.
/// Thread: one caller at a time, which takes part in the work.
class ThreadPool {
public:
    /// \pre threads >= 1; one of them is the caller
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    /// Threads that take part in jobs.
    [[nodiscard]] int threads() const { return m_used.load(std::memory_order_relaxed); }
    /// Threads that there are, at least threads().
    [[nodiscard]] int most() const { return m_threads; }
    /// Stops the workers and starts `threads - 1` new ones; all take part. \pre threads >= 1
    void setThreads(int threads);
    /// The first `threads` take part in jobs from now on, the others sleep. \pre 1 <= threads <= most()
    void useThreads(int threads);

    /// Calls body(part, worker) once for every part in [0, parts), 0 <= worker < threads(); returns when all are
    /// done. A part may write only what no other part touches. \throws what a body threw first
    template<typename Body> void run(int parts, Body &&body) { share(parts, 1, std::forward<Body>(body)); }

    /// The same, but each worker begins with the parts that it had in the last job of so many parts, and goes through
    /// them in order: for memory that is read from job to job.
    template<typename Body> void runStretches(int parts, Body &&body)
    {
        share(parts, threads(), std::forward<Body>(body));
    }

private:
    /// Parts that are taken in order. Each on a line of its own, as its own worker takes most of them.
    struct alignas(64) Stretch {
        void set(int parts, int index, int count);

        std::atomic<int> next{0};
        int end = 0;
    };

    template<typename Body> void share(int parts, int stretches, Body &&body)
    {
        using Callable = std::remove_reference_t<Body>;
        if (parts <= 1 || threads() == 1) {
            for (int part = 0; part < parts; ++part)
                body(part, 0);
            return;
        }
        m_call = [](void *context, int part, int worker) { (*static_cast<Callable *>(context))(part, worker); };
        m_context = const_cast<void *>(static_cast<const void *>(&body));
        m_usedStretches = stretches;
        for (int i = 0; i < stretches; ++i)
            m_stretches[static_cast<std::size_t>(i)].set(parts, i, stretches);
        runShared();
    }

    void start();
    void stop();
    void runShared();
    void work(int worker);
    void workerLoop(int worker);
    bool enter(std::uint64_t &seen, int worker);
    void sleepUntilOpen(std::uint64_t seen);
    void sleepUntilUsed(int worker);

    int m_threads = 1;
    std::atomic<int> m_used{1}; ///< changed by the caller between jobs
    std::vector<std::thread> m_workers;

    // The job; written by the caller while no worker is inside, read by workers that have entered.
    void (*m_call)(void *, int, int) = nullptr;
    void *m_context = nullptr;
    std::vector<Stretch> m_stretches; ///< one for each thread
    int m_usedStretches = 1;
    std::exception_ptr m_failure; ///< guarded by m_mutex

    /// Job number (upper half), open bit, and how many workers are inside.
    alignas(64) std::atomic<std::uint64_t> m_state{0};
    alignas(64) std::atomic<int> m_sleepers{0};
    std::atomic<bool> m_stopping{false};
    std::mutex m_mutex;
    std::condition_variable m_wake;
    std::condition_variable m_wakeUnused;
};

} // namespace kernels
