// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace engine {

/// Decides by measurement how many threads steps run on while other programs hold some of the cores.
///
/// Threads wait for one another several times a layer, so one that shares its core with another program holds back all.
/// When threads lose their cores, fewer threads are tried: steps of the same work take turns between both numbers, and
/// the medians decide. A lowered number tries to rise again from time to time. A trial that changes nothing doubles the
/// time to the next one, so trials cost little however long the machine stays as it is.
class ThreadGovernor {
public:
    /// What a step was like.
    struct Step {
        std::int64_t work = 0; ///< steps of equal work are comparable
        double seconds = 0;
        bool disturbed = false; ///< a thread of this process lost its core meanwhile
    };

    explicit ThreadGovernor(int most = 1);
    /// All threads are used; what was measured is forgotten.
    void reset(int most);
    /// Threads for the next step, 1 to `most`.
    [[nodiscard]] int threads() const;
    void note(const Step &step);

    static constexpr int windowSteps = 16; ///< steps that decide whether the machine is disturbed
    static constexpr int turnSteps = 3;    ///< with one number of threads in a row; the first of them is not counted
    static constexpr int turns = 6;        ///< of a trial
    static constexpr int firstWait = 32;   ///< steps between trials
    static constexpr int longestWait = 1024;

private:
    /// Durations of steps with one number of threads.
    struct Times {
        void add(double value) { seconds[count++] = value; }
        [[nodiscard]] double median() const;

        std::array<double, (turnSteps - 1) * (turns / 2)> seconds{};
        std::size_t count = 0;
    };

    struct Trial {
        int threads = 0; ///< other than m_threads; 0: none
        std::int64_t work = 0;
        int steps = 0;    ///< of this work so far
        int patience = 0; ///< steps of other work that are still waited through
        Times here;
        Times there;
    };

    void beginTrial(std::int64_t work);
    void noteTrial(const Step &step);
    void endTrial();
    [[nodiscard]] bool isDisturbed() const;
    [[nodiscard]] int lower() const;
    [[nodiscard]] int higher() const;

    int m_most = 1;
    int m_threads = 1;
    int m_wait = firstWait;
    int m_sinceTrial = 0;
    std::array<bool, windowSteps> m_disturbed{};
    std::uint64_t m_steps = 0;
    Trial m_trial;
};

/// Involuntary switches of this process's threads so far; 0 where the system does not count them.
[[nodiscard]] std::int64_t lostCores();

} // namespace engine
