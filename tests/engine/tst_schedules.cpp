// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/scheduler_rig.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <random>

using namespace engine;
using namespace scheduler_rig;

/// Random workloads: whatever the schedule, every request gets the tokens of a serial run.
class TestSchedules : public QObject {
    Q_OBJECT

private slots:
    void random_data()
    {
        QTest::addColumn<unsigned>("first");
        const unsigned rows = shared_data::fullTier() ? 50 : 1;
        for (unsigned row = 0; row < rows; ++row)
            QTest::addRow("seeds from %u", row * count) << row * count;
    }
    void random()
    {
        QFETCH(unsigned, first);
        m_preemptions = m_hitTokens = m_copies = m_changes = m_small = 0;
        for (unsigned seed = first; seed < first + count; ++seed) {
            const QString fault = runRandom(seed);
            QVERIFY2(fault.isEmpty(), qPrintable(QStringLiteral("seed %1: %2").arg(seed).arg(fault)));
        }
        // The schedules reach what they are for.
        QVERIFY2(m_preemptions > count / 4, qPrintable(QString::number(m_preemptions)));
        QVERIFY2(m_hitTokens > count, qPrintable(QString::number(m_hitTokens)));
        QVERIFY2(m_copies > count / 2, qPrintable(QString::number(m_copies)));
        QVERIFY2(m_changes > count, qPrintable(QString::number(m_changes)));
        QVERIFY2(m_small > count / 8, qPrintable(QString::number(m_small)));
    }

private:
    static constexpr unsigned count = 400; ///< schedules of one row

    static SamplingParams randomSampling(std::mt19937 &random)
    {
        SamplingParams params;
        params.temperature = random() % 2 ? 0.0 : 0.5 + static_cast<double>(random() % 10) / 10.0;
        params.topK = random() % 2 ? 0 : static_cast<int>(1 + random() % 20);
        params.topP = random() % 2 ? 1.0 : 0.8;
        params.minP = random() % 3 ? 0.0 : 0.05;
        params.repetitionPenalty = random() % 3 ? 1.0 : 1.3;
        params.presencePenalty = random() % 4 ? 0.0 : 0.5;
        params.frequencyPenalty = random() % 4 ? 0.0 : 0.25;
        return params;
    }

    /// One random workload with forks, cancels and live changes of everything; empty when every rule held.
    QString runRandom(unsigned seed)
    {
        std::mt19937 random(seed);
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        const int blockTokens = 8 << pick(5);
        Scheduler::Config c = config(0, blockTokens, {1 + pick(10), 1 + pick(90)});
        c.rules.policy = static_cast<SchedulingPolicy>(pick(3));
        c.kv.prefixCaching = pick(4) != 0;
        c.maxModelLen = 60 + pick(200);
        c.variants = {pick(2) ? 0 : 10 + pick(c.maxModelLen), pick(2) != 0};
        c.kv.numBlocks = (c.maxModelLen + blockTokens - 1) / blockTokens + pick(4);
        if (pick(2))
            c = withRandomWindow(c, random);
        m_small += c.window > 0 && c.kv.windowBlocks < c.kv.numBlocks ? 1 : 0;
        Rig rig(c);
        rig.endToken = pick(3) ? -1 : pick(vocab);
        int left = 1 + pick(24);
        const int changeEvery = pick(3) ? 8 + pick(30) : 1 << 20; // some run without live changes
        std::uint64_t preemptions = 0;
        for (int step = 0; left > 0 || !rig.scheduler.idle(); ++step) {
            for (int burst = pick(4); left > 0 && burst > 0; --burst, --left)
                addRandom(rig, random);
            if (pick(12) == 0 && rig.nextId > 1)
                rig.cancel(1 + static_cast<RequestId>(pick(static_cast<int>(rig.nextId - 1))));
            if (pick(15) == 0)
                rig.scheduler.setLimits({1 + pick(12), 1 + pick(100)});
            if (pick(changeEvery) == 0)
                changeRandom(rig, random);
            if (const QString fault = oneStep(rig, pick(3) ? 0 : 1 + pick(30), preemptions); !fault.isEmpty())
                return fault;
            preemptions = rig.scheduler.preemptions();
            if (step > 20000)
                return QStringLiteral("it does not end");
        }
        if (rig.scheduler.blocks().usedBlocks() != 0)
            return QStringLiteral("%1 blocks leaked").arg(rig.scheduler.blocks().usedBlocks());
        const WindowPool &window = rig.scheduler.blocks().window();
        if (window.free() != window.size())
            return QStringLiteral("%1 window slots leaked").arg(window.size() - window.free());
        m_preemptions += rig.scheduler.preemptions();
        m_hitTokens += rig.scheduler.prefixHitTokens();
        m_copies += static_cast<std::uint64_t>(rig.copies);
        return check(rig);
    }

    /// Half of the layers hold a window only, in as many slots as the rule gives, or in too few: the least that one
    /// sequence needs.
    static Scheduler::Config withRandomWindow(const Scheduler::Config &config, std::mt19937 &random)
    {
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        Scheduler::Config more = config;
        more.kv.numBlocks += pick(2) ? 0 : pick(24);
        Scheduler::Config c = withWindow(more, 1 + pick(pick(2) ? 10 : 100));
        if (pick(2) == 0) {
            const int least = windowBlocksFor({c.kv.numBlocks, c.kv.blockTokens, c.window}, 1, 1);
            c.kv.windowBlocks = least + pick(c.kv.windowBlocks - least + 1);
        }
        return c;
    }

    /// One request, or several of one prompt.
    static void addRandom(Rig &rig, std::mt19937 &random)
    {
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        std::vector<int> prompt = promptOf(1 + pick(rig.maxModelLen - 1), pick(3));
        if (pick(2))
            prompt.back() = pick(vocab);
        const int maxTokens = pick(5) ? 1 + pick(40) : 0;
        if (!rig.scheduler.refuse(static_cast<int>(prompt.size()), maxTokens).empty())
            return; // the pool was made too small for it
        const int priority = pick(3);
        const RequestId leader = rig.add(prompt, maxTokens, priority, randomSampling(random), random());
        for (int forks = pick(5) ? 0 : 1 + pick(4); forks > 0; --forks)
            rig.add(prompt, maxTokens, priority, randomSampling(random), random(), leader);
    }

    void changeRandom(Rig &rig, std::mt19937 &random)
    {
        const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
        AdmissionRules rules;
        rules.policy = static_cast<SchedulingPolicy>(pick(3));
        rules.admissionReserve = pick(5) / 10.0;
        rig.scheduler.setRules(rules);
        const int blockTokens = 8 << pick(5);
        const auto least = static_cast<int>((rig.scheduler.promisedTokens() + blockTokens - 1) / blockTokens);
        rig.repage(std::max(least, 1) + pick(pick(2) ? 3 : 40), blockTokens, pick(5) != 0);
        ++m_changes;
    }

    static QString oneStep(Rig &rig, int tokenCap, std::uint64_t preemptions)
    {
        if (const std::string fault = rig.scheduler.audit(); !fault.empty())
            return QString::fromStdString(fault);
        std::vector<RequestId> before;
        for (const Sequence *sequence : rig.scheduler.sequences())
            if (sequence->table.blocks.empty())
                before.push_back(sequence->id);
        const bool anyRan = before.size() < rig.scheduler.sequences().size();
        if (!rig.step(tokenCap))
            return rig.scheduler.idle() ? QString() : QStringLiteral("nothing runs although requests wait");
        const BatchLimits limits = rig.scheduler.limits();
        if (totalTokens(rig.batch) > limits.maxNumBatchedTokens
            || static_cast<int>(rig.batch.rows.size()) > limits.maxNumSeqs)
            return QStringLiteral("a step is over its limits");
        if (rig.scheduler.preemptions() != preemptions && anyRan
            && std::ranges::any_of(rig.batch.rows,
                                   [&](const BatchRow &row) { return std::ranges::count(before, row.request) > 0; }))
            return QStringLiteral("a step that preempts admitted a request");
        for (const Sequence *sequence : rig.scheduler.sequences())
            if (sequence->overtaken > Scheduler::maxOvertaken + 12)
                return QStringLiteral("request %1 was passed by %2 others").arg(sequence->id).arg(sequence->overtaken);
        return QString::fromStdString(rig.scheduler.audit());
    }

    static QString check(const Rig &rig)
    {
        for (const auto &[id, job] : rig.jobs) {
            if (!job.ended)
                return QStringLiteral("request %1 never ended").arg(id);
            std::vector<int> expected = rig.expected(job, job.contextLimit);
            if (*job.ended == FinishReason::Cancelled && job.output.size() < expected.size())
                expected.resize(job.output.size());
            if (job.output != expected)
                return QStringLiteral("request %1 got other tokens than alone").arg(id);
        }
        return {};
    }

    std::uint64_t m_small = 0; ///< schedules with fewer window slots than blocks
    std::uint64_t m_copies = 0;
    std::uint64_t m_changes = 0;
    std::uint64_t m_preemptions = 0;
    std::uint64_t m_hitTokens = 0;
};

QTEST_GUILESS_MAIN(TestSchedules)
#include "tst_schedules.moc"
