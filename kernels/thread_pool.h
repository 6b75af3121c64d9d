// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace kernels {

/// Worker threads that share the numbered parts of one job after another.
///
/// Parts are taken one by one, so a thread whose core is stolen delays only the part it holds; a thread that has
/// not woken yet is never waited for. Idle threads spin for some ten microseconds, then sleep.
/// Thread: one caller at a time, which takes part in the work.
class ThreadPool {
public:
    /// \pre threads >= 1; one of them is the caller
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool &) = delete;
    ThreadPool &operator=(const ThreadPool &) = delete;

    [[nodiscard]] int threads() const { return m_threads; }
    /// Stops the workers and starts `threads - 1` new ones. \pre threads >= 1
    void setThreads(int threads);

    /// Calls body(part, worker) once for every part in [0, parts), 0 <= worker < threads(); returns when all are
    /// done. A part may write only what no other part touches. \throws what a body threw first
    template<typename Body> void run(int parts, Body &&body)
    {
        using Callable = std::remove_reference_t<Body>;
        if (parts <= 1 || m_threads == 1) {
            for (int part = 0; part < parts; ++part)
                body(part, 0);
            return;
        }
        m_call = [](void *context, int part, int worker) { (*static_cast<Callable *>(context))(part, worker); };
        m_context = const_cast<void *>(static_cast<const void *>(&body));
        m_parts = parts;
        runShared();
    }

private:
    void start();
    void stop();
    void runShared();
    void work(int worker);
    void workerLoop(int worker);
    bool enter(std::uint64_t &seen);
    void sleepUntilOpen(std::uint64_t seen);

    int m_threads = 1;
    std::vector<std::thread> m_workers;

    // The job; written by the caller while no worker is inside, read by workers that have entered.
    void (*m_call)(void *, int, int) = nullptr;
    void *m_context = nullptr;
    int m_parts = 0;
    std::exception_ptr m_failure; ///< guarded by m_mutex

    /// Job number (upper half), open bit, and how many workers are inside.
    alignas(64) std::atomic<std::uint64_t> m_state{0};
    alignas(64) std::atomic<int> m_next{0}; ///< next part to take
    alignas(64) std::atomic<int> m_sleepers{0};
    std::atomic<bool> m_stopping{false};
    std::mutex m_mutex;
    std::condition_variable m_wake;
};

} // namespace kernels
