// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/mailbox.h"
#include "engine/core/ring.h"

#include <QTest>

#include <atomic>
#include <memory>
#include <thread>

using namespace engine;

class TestMailbox : public QObject {
    Q_OBJECT

private slots:
    void tellsWhenItWasEmpty()
    {
        Mailbox<int> box;
        QVERIFY(box.push(1));
        QVERIFY(!box.push(2));
        QVERIFY(!box.pushAll({}));
        QVERIFY(!box.pushAll({3, 4}));
        QCOMPARE(box.takeAll(), (std::vector<int>{1, 2, 3, 4}));
        QVERIFY(box.empty());
        QVERIFY(box.pushAll({5}));
        QVERIFY(!box.pushAll({6}));
    }

    void replacesAPendingItem()
    {
        Mailbox<int> box;
        const auto even = [](int x) { return x % 2 == 0; };
        box.replaceOrPush(2, even);
        box.push(3);
        for (int i = 4; i < 1000; i += 2)
            box.replaceOrPush(i, even);
        QCOMPARE(box.takeAll(), (std::vector<int>{998, 3}));
        box.replaceOrPush(6, even);
        QCOMPARE(box.takeAll(), std::vector<int>{6});
    }

    void nothingIsLostBetweenThreads()
    {
        constexpr int writers = 4;
        constexpr int each = 20000;
        Mailbox<std::unique_ptr<std::pair<int, int>>> box;
        std::atomic<int> wakes = 0;
        std::vector<std::jthread> threads;
        for (int w = 0; w < writers; ++w)
            threads.emplace_back([&box, &wakes, w] {
                for (int i = 0; i < each; ++i)
                    wakes += box.push(std::make_unique<std::pair<int, int>>(w, i)) ? 1 : 0;
            });
        std::vector<int> next(writers, 0);
        int got = 0;
        int nonEmpty = 0;
        while (got < writers * each) {
            box.waitUntil({}, std::chrono::steady_clock::now() + std::chrono::seconds(10));
            const auto items = box.takeAll();
            nonEmpty += items.empty() ? 0 : 1;
            for (const auto &item : items) {
                QCOMPARE(item->second, next[static_cast<std::size_t>(item->first)]++); // each writer's order is kept
                ++got;
            }
        }
        threads.clear();
        QCOMPARE(wakes.load(), nonEmpty); // one wake for every filling of the box
    }

    void waitingEndsByStopAndByDeadline()
    {
        Mailbox<int> box;
        box.waitUntil({}, std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
        std::jthread waiter([&box](const std::stop_token &stop) {
            box.waitUntil(stop, std::chrono::steady_clock::now() + std::chrono::hours(1));
        });
        waiter.request_stop();
        waiter.join();
        QVERIFY(box.empty());
    }

    void aRingKeepsTheNewest()
    {
        Ring<int> ring(4);
        QVERIFY(ring.takeAll().empty());
        for (int i = 0; i < 7; ++i)
            ring.push(i);
        QCOMPARE(ring.takeAll(), (std::vector<int>{3, 4, 5, 6}));
        QVERIFY(ring.takeAll().empty());
        ring.push(9);
        QCOMPARE(ring.takeAll(), std::vector<int>{9});
    }
};

QTEST_GUILESS_MAIN(TestMailbox)
#include "tst_mailbox.moc"
