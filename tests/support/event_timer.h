// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QApplication>
#include <QTest>
#include <QThread>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

/// How long handlers of events kept the UI thread, in milliseconds.
struct Blocks {
    double p50 = 0, p99 = 0, longest = 0, sum = 0;
    std::size_t count = 0;

    static constexpr double p99LimitMs = 16, longestLimitMs = 50;
    [[nodiscard]] bool fluid(double p99Limit = p99LimitMs) const
    {
        return p99 <= p99Limit && longest <= longestLimitMs;
    }

    /// Only handlers that did something: thousands of empty deliveries would hide the slow ones behind the percentile.
    static Blocks of(std::vector<double> ms)
    {
        std::erase_if(ms, [](double value) { return value < 0.05; });
        std::sort(ms.begin(), ms.end());
        if (ms.empty())
            return {};
        const auto at = [&](double share) {
            return ms[std::min(ms.size() - 1, std::size_t(share * double(ms.size())))];
        };
        Blocks blocks{at(.5), at(.99), ms.back(), 0, ms.size()};
        for (const double value : ms)
            blocks.sum += value;
        return blocks;
    }
    [[nodiscard]] QByteArray text() const
    {
        return QByteArray::number(qulonglong(count)) + " handlers, P50 " + QByteArray::number(p50, 'f', 2) + " ms, P99 "
            + QByteArray::number(p99, 'f', 2) + " ms, longest " + QByteArray::number(longest, 'f', 2) + " ms";
    }
};

/// An application that measures how long each outermost event handler keeps the UI thread, by three clocks.
class TimedApplication : public QApplication {
public:
    using QApplication::QApplication;

    bool notify(QObject *receiver, QEvent *event) override
    {
        if (QThread::currentThread() != thread()) // every thread's events come by here
            return QApplication::notify(receiver, event);
        if (m_depth++ > 0 || !m_recording) {
            const bool result = QApplication::notify(receiver, event);
            --m_depth;
            return result;
        }
        const double wall = clockMs(CLOCK_MONOTONIC), cpu = clockMs(CLOCK_THREAD_CPUTIME_ID), ready = readyMs();
        const bool result = QApplication::notify(receiver, event);
        --m_depth;
        const double waited = readyMs() - ready, lasted = clockMs(CLOCK_MONOTONIC) - wall;
        m_wall.push_back(lasted);
        m_own.push_back(std::max(0.0, lasted - waited));
        m_cpu.push_back(clockMs(CLOCK_THREAD_CPUTIME_ID) - cpu);
        return result;
    }

    void startRecording()
    {
        m_wall.clear();
        m_own.clear();
        m_cpu.clear();
        m_recording = true;
    }
    void stopRecording() { m_recording = false; }
    [[nodiscard]] Blocks wall() const { return Blocks::of(m_wall); }
    /// Wall time without what the thread was ready to run but other programs had the processor: computing and waiting.
    [[nodiscard]] Blocks own() const { return Blocks::of(m_own); }
    [[nodiscard]] Blocks cpu() const { return Blocks::of(m_cpu); }

    /// Prints what was recorded and gives own().
    [[nodiscard]] Blocks report(const char *what) const
    {
        qInfo("%s, own time: %s", what, own().text().constData());
        qInfo("%s, wall time: %s; processor time: longest %.2f ms", what, wall().text().constData(), cpu().longest);
        return own();
    }

private:
    static double clockMs(clockid_t clock)
    {
        timespec now{};
        clock_gettime(clock, &now);
        return double(now.tv_sec) * 1e3 + double(now.tv_nsec) / 1e6;
    }
    // The second number of schedstat: nanoseconds that this thread waited for a processor; 0 where the kernel has none.
    double readyMs() const
    {
        char text[96] = {};
        if (m_schedstat < 0 || ::pread(m_schedstat, text, sizeof text - 1, 0) <= 0)
            return 0;
        unsigned long long ran = 0, waited = 0;
        return std::sscanf(text, "%llu %llu", &ran, &waited) == 2 ? double(waited) / 1e6 : 0;
    }

    bool m_recording = false;
    int m_depth = 0;
    int m_schedstat = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    std::vector<double> m_wall, m_own, m_cpu;
};

/// Runs until the window was fluid, three times at most, and gives what the last run measured. A slow window fails all
/// three; a machine that was busy for a moment does not. Run: void(Blocks &), which may fail the test and return.
template<typename Run> Blocks fluidRun(const Run &run, double p99Limit = Blocks::p99LimitMs)
{
    Blocks own;
    for (int attempt = 0; attempt < 3; ++attempt) {
        run(own);
        if (own.fluid(p99Limit) || QTest::currentTestFailed())
            break;
    }
    return own;
}
