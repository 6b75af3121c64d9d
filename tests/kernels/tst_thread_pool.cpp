// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/thread_pool.h"

#include <QTest>

#include <numeric>
#include <stdexcept>
#include <thread>

class TestThreadPool : public QObject {
    Q_OBJECT

private slots:
    void everyPartRunsOnce_data();
    void everyPartRunsOnce();
    void manyShortJobs();
    void sleepingWorkersWake();
    void exceptionReachesCaller();
    void threadsChange();
    void someThreadsRest();
};

void TestThreadPool::everyPartRunsOnce_data()
{
    QTest::addColumn<int>("threads");
    QTest::addColumn<int>("parts");
    for (const int threads : {1, 2, 3, 8}) {
        for (const int parts : {0, 1, 2, 7, 1000})
            QTest::addRow("%d threads, %d parts", threads, parts) << threads << parts;
    }
}

void TestThreadPool::everyPartRunsOnce()
{
    QFETCH(int, threads);
    QFETCH(int, parts);
    kernels::ThreadPool pool(threads);
    std::vector<int> runs(static_cast<std::size_t>(parts), 0);
    std::atomic<bool> workerOutside = false;
    pool.run(parts, [&](int part, int worker) {
        ++runs[static_cast<std::size_t>(part)];
        if (worker < 0 || worker >= threads)
            workerOutside = true;
    });
    QCOMPARE(runs, std::vector<int>(static_cast<std::size_t>(parts), 1));
    QVERIFY(!workerOutside);
}

/// Workers that are not used take no part, also while jobs follow one another, and come back when they are wanted.
void TestThreadPool::someThreadsRest()
{
    kernels::ThreadPool pool(4);
    for (const int used : {4, 2, 1, 3, 4}) {
        pool.useThreads(used);
        QCOMPARE(pool.threads(), used);
        QCOMPARE(pool.most(), 4);
        std::atomic<int> highest = 0;
        std::atomic<int> runs = 0;
        for (int job = 0; job < 200; ++job) {
            const auto body = [&](int, int worker) {
                ++runs;
                int seen = highest.load();
                while (worker > seen && !highest.compare_exchange_weak(seen, worker)) {
                }
            };
            if (job % 2 == 0)
                pool.run(9, body);
            else
                pool.runStretches(9, body);
        }
        QCOMPARE(runs.load(), 200 * 9);
        QVERIFY2(highest.load() < used, qPrintable(QString::number(highest.load())));
    }
    pool.useThreads(1); // ends while threads rest
}

void TestThreadPool::manyShortJobs()
{
    kernels::ThreadPool pool(4);
    std::vector<int> values(16, 0);
    for (int job = 0; job < 5000; ++job)
        pool.run(16, [&](int part, int) { values[static_cast<std::size_t>(part)] += part; });
    for (int part = 0; part < 16; ++part)
        QCOMPARE(values[static_cast<std::size_t>(part)], part * 5000);
}

void TestThreadPool::sleepingWorkersWake()
{
    kernels::ThreadPool pool(2);
    for (int job = 0; job < 5; ++job) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5)); // longer than the spinning
        std::atomic<int> inside = 0;
        pool.run(2, [&](int, int) {
            ++inside;
            while (inside < 2) // ends only when both threads hold a part
                std::this_thread::yield();
        });
        QCOMPARE(inside.load(), 2);
    }
}

void TestThreadPool::exceptionReachesCaller()
{
    kernels::ThreadPool pool(3);
    for (int job = 0; job < 50; ++job) {
        QVERIFY_EXCEPTION_THROWN(pool.run(100,
                                          [&](int part, int) {
                                              if (part == job)
                                                  throw std::runtime_error("part failed");
                                          }),
                                 std::runtime_error);
    }
    std::atomic<int> done = 0;
    pool.run(100, [&](int, int) { ++done; });
    QCOMPARE(done.load(), 100);
}

void TestThreadPool::threadsChange()
{
    kernels::ThreadPool pool(1);
    for (const int threads : {3, 1, 5, 2}) {
        pool.setThreads(threads);
        QCOMPARE(pool.threads(), threads);
        std::atomic<int> sum = 0;
        pool.run(100, [&](int part, int) { sum += part; });
        QCOMPARE(sum.load(), 4950);
    }
}

QTEST_GUILESS_MAIN(TestThreadPool)
#include "tst_thread_pool.moc"
