// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/simt/block.h"

#include <atomic>
#include <mutex>

namespace simt {

/// What the workers of one launch share.
struct Run {
    const std::vector<Launch> *launches = nullptr;
    std::vector<std::pair<unsigned, unsigned>> order; ///< launch and block number
    bool coresident = false;
    std::atomic<std::size_t> next{0};
    std::atomic<bool> failed{false};
    std::mutex mutex; ///< of the fields below and of the pool
    std::string error;
    Counts counts;
    Pool *pool = nullptr;
    char tag = 0; ///< for TSan: a launch happens before its kernel and after it
};

/// One thread of the system and the blocks that it runs.
class Worker {
public:
    Worker(Run &run, const Config &config, unsigned number);

    /// Takes blocks until none is left or a kernel failed.
    void work();

    [[nodiscard]] static Worker *current(); ///< null outside of kernels

    [[nodiscard]] Lane &lane() { return *m_current; }
    [[nodiscard]] bool inKernel() const { return m_current != nullptr; }
    [[nodiscard]] const Config &config() const { return m_config; }
    [[nodiscard]] Counts &counts() { return m_counts; }

    /// The lane can run again.
    void wake(Lane &lane);
    /// Lets another lane run; the caller goes on once it was woken and picked.
    void reschedule();
    /// The caller has nothing to do but to look again; mostly it runs after everybody else.
    void poll();
    /// At times, so that the last to arrive is not always the first to go on.
    void maybeReschedule();
    void recordError(const std::string &message);

private:
    static void laneEntry();
    void runLane(Lane &lane);
    void checkEnd(const Lane &lane);
    void leave(Lane &lane);
    bool startBlock();
    void fillLanes(Block &block);
    void endBlock(Block &block);
    void runBlocks();
    void reportDeadlock();
    [[nodiscard]] Block *takeBlock();
    [[nodiscard]] Lane *takeLane();
    [[nodiscard]] Lane *pick();
    [[nodiscard]] bool pollersMayRun();
    [[nodiscard]] std::size_t choose();
    void jump(Lane *to, bool ends);
    [[nodiscard]] std::uint64_t random();

    Run &m_run;
    const Config m_config;
    Fiber m_main{0};
    Lane *m_current = nullptr;
    std::deque<Lane *> m_ready;
    std::deque<Lane *> m_polling;
    std::vector<Block *> m_live;
    std::uint64_t m_random;
    std::size_t m_stackBytes;
    unsigned m_resident = 0; ///< live blocks with threads left
    unsigned m_idleRounds = 0;
    bool m_stopped = false;
    Counts m_counts;
};

} // namespace simt
