// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine.h"

#include "tests/support/engine_fixture.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <new>
#include <random>
#include <stdexcept>
#include <thread>

using namespace engine;
using namespace engine_fixture;
using namespace std::chrono_literals;

class TestEngine : public QObject {
    Q_OBJECT

private slots:
    void answersOneRequest()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        const auto &answer = f.run(ask(promptOf(20, 1), greedy(30)));
        QCOMPARE(answer.ids, f.expected(promptOf(20, 1), greedy(30)));
        QCOMPARE(answer.promptTokens, 20);
        QVERIFY(answer.ordered);
        QCOMPARE(answer.text, FakeTokenizer().decode(answer.ids, true));
        const RequestFinished &finished = *answer.finished;
        QCOMPARE(finished.reason, FinishReason::Length);
        QCOMPARE(finished.usage.promptTokens, 20);
        QCOMPARE(finished.usage.completionTokens, 30);
        QCOMPARE(finished.usage.cachedTokens, 0);
        const Timings &t = finished.timings;
        QVERIFY(t.queueMs >= 0 && t.ttftMs >= t.queueMs && t.e2eMs >= t.ttftMs);
        QVERIFY(std::abs(t.tpotMs - (t.e2eMs - t.ttftMs) / 29) < 1e-9);
        QVERIFY(t.tokensPerSecond > 0 && t.promptTokensPerSecond > 0);
        QVERIFY(f.allBlocksFree());
        QCOMPARE(f.engine.totals().steps, 30U);
    }

    void withoutAModelARequestIsRefused()
    {
        Fixture f;
        const auto &answer = f.run(ask({5}, greedy(3)));
        QCOMPARE(answer.finished->reason, FinishReason::Failed);
        QCOMPARE(answer.finished->code, ErrorCode::Refused);
        QVERIFY(answer.finished->error.find("no model is loaded") != std::string::npos);
        f.engine.cancel(99); // nothing of that name: nothing happens
        f.engine.unloadModel();
        QVERIFY(f.driver.load("model"));
        QCOMPARE(f.driver.unloaded, 0);
    }

    void badPromptsEndAloneAndNameTheFault_data()
    {
        QTest::addColumn<int>("kind");
        QTest::addColumn<QString>("words");
        QTest::newRow("empty ids") << 0 << "the prompt is empty";
        QTest::newRow("id too large") << 1 << "token 2 is 64, but the vocabulary has ids 0 to 63";
        QTest::newRow("negative id") << 2 << "token 0 is -1";
        QTest::newRow("too long") << 3 << "has 256 tokens, but the context holds 256";
        QTest::newRow("far too long") << 4 << "has 100000 bytes";
        QTest::newRow("no template") << 5 << "no chat template";
        QTest::newRow("nothing") << 6 << "neither prompt, ids nor messages";
        QTest::newRow("temperature") << 7 << "temperature: found -1, wanted 0 to 5";
        QTest::newRow("stop") << 8 << "stop string 0 is empty";
        QTest::newRow("not a number") << 9 << "top-p: found nan";
        QTest::newRow("logprobs") << 10 << "logprobs: found -2";
    }

    void badPromptsEndAloneAndNameTheFault()
    {
        QFETCH(int, kind);
        QFETCH(QString, words);
        Fixture f;
        QVERIFY(f.driver.load("model"));
        Request request = ask({5, 6}, greedy(3));
        switch (kind) {
        case 0:
            request.ids->clear();
            break;
        case 1:
            request.ids->push_back(64);
            break;
        case 2:
            request.ids->front() = -1;
            break;
        case 3:
            request.ids = promptOf(256, 1);
            break;
        case 4:
            request.prompt = std::string(100000, 'a');
            break;
        case 5:
            request.ids.reset();
            request.messages = {{"user", "hello"}};
            break;
        case 6:
            request.ids.reset();
            break;
        case 7:
            request.sampling.temperature = -1;
            break;
        case 8:
            request.sampling.stop = {""};
            break;
        case 9:
            request.sampling.topP = std::nan("");
            break;
        default:
            request.sampling.logprobs = -2;
            break;
        }
        std::vector<Request> requests;
        requests.push_back(ask(promptOf(10, 1), greedy(10)));
        requests.push_back(std::move(request));
        requests.push_back(ask(promptOf(10, 2), greedy(10)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.finish(ids));
        const RequestFinished &bad = *f.answer(ids[1]).finished;
        QCOMPARE(bad.reason, FinishReason::Failed);
        QCOMPARE(bad.code, ErrorCode::Refused);
        QVERIFY2(QString::fromStdString(bad.error).contains(words), bad.error.c_str());
        QCOMPARE(f.answer(ids[1]).promptTokens, -1);
        QCOMPARE(f.answer(ids[0]).ids, f.expected(promptOf(10, 1), greedy(10)));
        QCOMPARE(f.answer(ids[2]).ids, f.expected(promptOf(10, 2), greedy(10)));
    }

    void textPromptsGetBosAndKeepSpecialTextApart()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        Request request;
        request.prompt = "ab</s>";
        request.sampling = greedy(1);
        QCOMPARE(f.run(request).promptTokens, 7);
        request.parseSpecial = true;
        QCOMPARE(f.run(request).promptTokens, 4);
    }

    void severalEnterOneStep()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        std::vector<Request> requests;
        for (int i = 0; i < 4; ++i)
            requests.push_back(ask(promptOf(4, i), greedy(3)));
        QVERIFY(f.driver.finish(f.engine.submitAll(std::move(requests))));
        const std::vector<StepStats> steps = f.engine.takeSteps();
        QCOMPARE(steps.size(), 3U);
        QCOMPARE(steps[0].rows.size(), 4U);
        QCOMPARE(steps[0].prefillTokens, 16);
        QCOMPARE(steps[1].decodeTokens, 4);
        QCOMPARE(steps[0].ttftMs.size(), 4U);
        QCOMPARE(steps[1].itlMs.size(), 4U);
        QVERIFY(steps[0].duration > 0 && steps[1].time > steps[0].time);
        QVERIFY(f.engine.takeSteps().empty());
    }

    void stopStringsAreNeverShown()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        const std::vector<int> prompt = promptOf(9, 3);
        const std::vector<int> free = f.expected(prompt, greedy(60));
        const std::string text = FakeTokenizer().decode(free, true);
        for (std::size_t at = 5; at < 30; at += 3) {
            SamplingParams sampling = greedy(60);
            std::size_t start = at; // stop strings begin with whole characters
            while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0U) == 0x80)
                ++start;
            std::size_t end = std::min(start + 4, text.size());
            while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80)
                ++end;
            const std::string stop = text.substr(start, end - start);
            sampling.stop = {"\x01never", stop};
            const auto &answer = f.run(ask(prompt, sampling));
            QCOMPARE(answer.finished->reason, FinishReason::Stop);
            QCOMPARE(answer.text, text.substr(0, text.find(stop)));
            QVERIFY(answer.ids.size() < free.size());
            QVERIFY(std::equal(answer.ids.begin(), answer.ids.end(), free.begin()));
            QVERIFY(answer.ordered);
        }
        QVERIFY(f.allBlocksFree());
    }

    void theEndTokenEndsTheAnswerAndIsNoText()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        int found = 0;
        for (int salt = 0; salt < 40 && found < 3; ++salt) {
            SamplingParams sampling = greedy(60);
            sampling.ignoreEos = false;
            const std::vector<int> expected = f.expected(promptOf(6, salt), sampling);
            if (expected.back() != FakeTokenizer::endId)
                continue;
            ++found;
            const auto &answer = f.run(ask(promptOf(6, salt), sampling));
            QCOMPARE(answer.ids, expected);
            QCOMPARE(answer.finished->reason, FinishReason::Stop);
            QCOMPARE(answer.text, FakeTokenizer().decode(expected, true));
            sampling.ignoreEos = true;
            const auto &ignored = f.run(ask(promptOf(6, salt), sampling));
            QCOMPARE(ignored.ids.size(), 60U);
            QVERIFY(ignored.text.find("</s>") == std::string::npos);
        }
        QCOMPARE(found, 3);
    }

    void aFullContextIsSaid()
    {
        Fixture f;
        EngineConfig config;
        config.maxModelLen = 40;
        QVERIFY(f.driver.load("model", config));
        const auto &answer = f.run(ask(promptOf(30, 1), greedy(0)));
        QCOMPARE(answer.finished->reason, FinishReason::ContextFull);
        QCOMPARE(answer.ids.size(), 10U);
    }

    void seedsDecideAlone()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        SamplingParams sampling;
        sampling.maxTokens = 20;
        sampling.ignoreEos = true;
        sampling.temperature = 1.2;
        sampling.seed = 7;
        const std::vector<int> alone = f.run(ask(promptOf(12, 1), sampling)).ids;
        QCOMPARE(alone, f.expected(promptOf(12, 1), sampling));
        std::vector<Request> requests;
        for (int i = 0; i < 8; ++i) {
            sampling.seed = i == 5 ? std::optional<std::uint64_t>(7) : std::nullopt;
            requests.push_back(ask(promptOf(12, 1), sampling));
        }
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(f.answer(ids[5]).ids, alone);
        int different = 0;
        for (const RequestId id : ids)
            different += f.answer(id).ids != alone ? 1 : 0;
        QVERIFY(different >= 6); // those without a seed got one each
    }

    void logprobsComeWithTheTokens()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        SamplingParams sampling = greedy(5);
        sampling.logprobs = 3;
        const auto &answer = f.run(ask(promptOf(12, 1), sampling));
        QCOMPARE(answer.logprobs.size(), 5U);
        for (std::size_t i = 0; i < 5; ++i) {
            QCOMPARE(answer.logprobs[i].token.id, answer.ids[i]);
            QCOMPARE(answer.logprobs[i].top.size(), 3U);
            QCOMPARE(answer.logprobs[i].top[0].id, answer.ids[i]);
            QCOMPARE(answer.logprobs[i].token.piece, FakeTokenizer().piece(answer.ids[i]));
            QVERIFY(answer.logprobs[i].token.logprob < 0);
        }
    }

    void cancelActsAtTheNextStepInEveryPhase()
    {
        Fixture f;
        Gate gate;
        f.controls.beforeRun = [&gate](const Batch & /*batch*/) { gate.pass(); };
        EngineConfig config;
        config.limits = {1, 64};
        QVERIFY(f.driver.load("model", config));
        const auto running = f.engine.submit(ask(promptOf(100, 1), greedy(100)));
        const auto waiting = f.engine.submit(ask(promptOf(10, 2), greedy(100)));
        QVERIFY(gate.waitForArrival()); // the first step is held
        const auto unseen = f.engine.submit(ask(promptOf(10, 3), greedy(100)));
        for (const RequestId id : {running, waiting, unseen})
            f.engine.cancel(id);
        gate.open();
        QVERIFY(f.driver.finish({running, waiting, unseen}));
        for (const RequestId id : {running, waiting, unseen})
            QCOMPARE(f.answer(id).finished->reason, FinishReason::Cancelled);
        QVERIFY(f.answer(running).ids.size() <= 1);
        QCOMPARE(f.engine.totals().steps, 1U);
        QVERIFY(f.allBlocksFree());
        QCOMPARE(f.run(ask(promptOf(10, 2), greedy(5))).ids, f.expected(promptOf(10, 2), greedy(5)));
    }

    void aFailureEndsTheRequestThatCausesIt_data()
    {
        QTest::addColumn<int>("kind");
        QTest::newRow("error") << 0;
        QTest::newRow("out of memory") << 1;
        QTest::newRow("other") << 2;
    }

    /// A step that fails is tried again request by request: whoever makes it fail ends, the others go on.
    void aFailureEndsTheRequestThatCausesIt()
    {
        QFETCH(int, kind);
        Fixture f;
        int steps = 0;
        f.controls.beforeRun = [&](const Batch &batch) {
            if (++steps < 3 || std::ranges::none_of(batch.rows, [](const BatchRow &row) { return row.request == 2; }))
                return;
            if (kind == 0)
                throw Error(ErrorCode::Internal, "a broken kernel");
            if (kind == 1)
                throw std::bad_alloc();
            throw std::runtime_error("something else");
        };
        EngineConfig config;
        config.limits = {3, 64};
        QVERIFY(f.driver.load("model", config));
        std::vector<Request> requests;
        for (int i = 0; i < 4; ++i)
            requests.push_back(ask(promptOf(8, i), greedy(10)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.finish(ids));
        for (std::size_t i = 0; i < 4; ++i) {
            const auto &answer = f.answer(ids[i]);
            QCOMPARE(answer.finished->reason, ids[i] == 2 ? FinishReason::Failed : FinishReason::Length);
            if (ids[i] != 2)
                QCOMPARE(answer.ids, f.expected(promptOf(8, static_cast<int>(i)), greedy(10)));
            else
                QCOMPARE(answer.finished->code, kind == 1 ? ErrorCode::OutOfMemory : ErrorCode::Internal);
        }
        QVERIFY(f.allBlocksFree());
    }

    void aFailureThatDoesNotComeBackEndsNobody()
    {
        Fixture f;
        int steps = 0;
        f.controls.beforeRun = [&](const Batch & /*batch*/) {
            if (++steps == 3)
                throw std::bad_alloc();
        };
        QVERIFY(f.driver.load("model"));
        std::vector<Request> requests;
        for (int i = 0; i < 4; ++i)
            requests.push_back(ask(promptOf(8, i), greedy(10)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.finish(ids));
        for (std::size_t i = 0; i < 4; ++i)
            QCOMPARE(f.answer(ids[i]).ids, f.expected(promptOf(8, static_cast<int>(i)), greedy(10)));
        QVERIFY(f.allBlocksFree());
    }

    void unusableLogitsEndOneRequest()
    {
        Fixture f;
        f.controls.spoil = [](const BatchRow &row, std::span<float> logits) {
            if (row.request == 2)
                logits[7] = std::numeric_limits<float>::quiet_NaN();
        };
        QVERIFY(f.driver.load("model"));
        std::vector<Request> requests;
        for (int i = 0; i < 3; ++i)
            requests.push_back(ask(promptOf(8, i), greedy(10)));
        const auto ids = f.engine.submitAll(std::move(requests));
        QVERIFY(f.driver.finish(ids));
        QCOMPARE(f.answer(2).finished->reason, FinishReason::Failed);
        QVERIFY(f.answer(2).finished->error.find("not-a-number") != std::string::npos);
        QCOMPARE(f.answer(1).ids, f.expected(promptOf(8, 0), greedy(10)));
        QCOMPARE(f.answer(3).ids, f.expected(promptOf(8, 2), greedy(10)));
    }

    void samplingChangesFromTheNextStepOn()
    {
        Fixture f;
        std::atomic<bool> held = false;
        f.controls.spoil = [&held](const BatchRow &, std::span<float>) { held.wait(true); };
        QVERIFY(f.driver.load("model"));
        const auto id = f.engine.submit(ask(promptOf(8, 1), greedy(0)));
        QVERIFY(f.driver.until([&] { return f.answer(id).ids.size() >= 3; }));
        for (int i = 0; i < 1000; ++i) { // a drag
            SamplingParams sampling = greedy(60);
            sampling.temperature = i / 1000.0;
            f.engine.setSampling(id, sampling);
        }
        QVERIFY(f.driver.finish({id}));
        QVERIFY(f.answer(id).finished->reason == FinishReason::Length
                || f.answer(id).finished->reason == FinishReason::ContextFull);
        SamplingParams wrong = greedy(5);
        wrong.topP = 7;
        held = true; // the change must meet a running request
        const auto other = f.engine.submit(ask(promptOf(8, 1), greedy(40)));
        f.engine.setSampling(other, wrong);
        f.engine.setSampling(12345, greedy(1));
        held = false;
        held.notify_all();
        QVERIFY(f.driver.finish({other}));
        QCOMPARE(f.answer(other).ids.size(), 40U);
        QCOMPARE(f.driver.refused.size(), 1U);
        QCOMPARE(f.driver.refused[0].id, other);
        QVERIFY(QString::fromStdString(f.driver.refused[0].message).contains(QStringLiteral("top-p")));
    }

    void manyRequestsUnderPressureFromSeveralThreads()
    {
        const int rounds = shared_data::fullTier() ? 200 : 12;
        for (int round = 0; round < rounds; ++round) {
            std::mt19937 random(static_cast<unsigned>(round));
            const auto pick = [&random](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
            Fixture f;
            EngineConfig config;
            config.kv.blockTokens = 8 << pick(5);
            config.maxModelLen = 128;
            config.kv.numBlocks = 128 / config.kv.blockTokens + pick(8);
            config.policy = static_cast<SchedulingPolicy>(pick(3));
            config.limits = {1 + pick(16), 16 + pick(200)};
            QVERIFY(f.driver.load("model", config));
            struct Job {
                RequestId id;
                std::vector<int> prompt;
                SamplingParams sampling;
                bool cancelled;
            };
            std::vector<std::vector<Job>> jobs(3);
            {
                std::vector<std::jthread> threads;
                for (std::size_t t = 0; t < jobs.size(); ++t)
                    threads.emplace_back([&f, &own = jobs[t], seed = random()] {
                        std::mt19937 local(static_cast<unsigned>(seed));
                        for (int i = 0; i < 12; ++i) {
                            Job job{0, promptOf(1 + static_cast<int>(local() % 90), static_cast<int>(local() % 4)),
                                    greedy(1 + static_cast<int>(local() % 30)), local() % 5 == 0};
                            job.sampling.temperature = local() % 2 ? 0.0 : 1.0;
                            job.sampling.seed = local();
                            job.id = f.engine.submit(ask(job.prompt, job.sampling));
                            if (job.cancelled)
                                f.engine.cancel(job.id);
                            if (local() % 6 == 0)
                                (void)f.engine.setLimits(
                                    {1 + static_cast<int>(local() % 12), 16 + static_cast<int>(local() % 100)});
                            own.push_back(std::move(job));
                        }
                    });
            }
            std::vector<RequestId> ids;
            for (const auto &own : jobs)
                for (const Job &job : own)
                    ids.push_back(job.id);
            QVERIFY(f.driver.finish(ids));
            for (const auto &own : jobs)
                for (const Job &job : own) {
                    const auto &answer = f.answer(job.id);
                    std::vector<int> expected = f.expected(job.prompt, job.sampling, 128);
                    QVERIFY(answer.ordered);
                    if (job.cancelled && answer.finished->reason == FinishReason::Cancelled)
                        expected.resize(std::min(expected.size(), answer.ids.size()));
                    QCOMPARE(answer.ids, expected);
                    QCOMPARE(answer.finished->usage.completionTokens, static_cast<int>(answer.ids.size()));
                }
            QVERIFY(f.allBlocksFree());
        }
    }

    void drawsNoEndBeforeMinTokens()
    {
        Fixture f;
        f.controls.spoil = [](const BatchRow & /*row*/, std::span<float> logits) { // it wants to end at once
            logits[FakeTokenizer::endId] = 1000;
            logits[9] = 900;
        };
        QVERIFY(f.driver.load("model"));
        SamplingParams sampling = greedy(20);
        sampling.ignoreEos = false;
        QCOMPARE(f.run(ask(promptOf(5, 1), sampling)).ids, std::vector<int>{FakeTokenizer::endId});
        sampling.stopIds = {9};
        for (const bool ignoreEos : {false, true}) {
            for (const int least : {0, 1, 7}) {
                sampling.minTokens = least;
                sampling.ignoreEos = ignoreEos;
                const auto &answer = f.run(ask(promptOf(5, 1), sampling));
                std::vector<int> expected = promptOf(5, 1); // the best of the tokens that do not end the answer
                for (int i = 0; i < least; ++i) {
                    std::vector<float> logits = f.reference.logits(expected);
                    logits[FakeTokenizer::endId] = ignoreEos ? 1000 : -1000;
                    logits[9] = -1000;
                    expected.push_back(static_cast<int>(std::ranges::max_element(logits) - logits.begin()));
                }
                expected.erase(expected.begin(), expected.begin() + 5);
                const bool endless = ignoreEos && least < 20; // the end token is liked best and ends nothing
                expected.resize(static_cast<std::size_t>(endless ? 20 : least + 1), FakeTokenizer::endId);
                QCOMPARE(answer.ids, expected);
                QCOMPARE(answer.finished->reason, endless ? FinishReason::Length : FinishReason::Stop);
            }
        }
        sampling.minTokens = 21;
        const auto &refused = f.run(ask(promptOf(5, 1), sampling));
        QCOMPARE(refused.finished->code, ErrorCode::Refused);
        QVERIFY(refused.finished->error.find("min-tokens") != std::string::npos);
    }

    void stopIdsEndAnAnswerUnderIgnoreEos()
    {
        Fixture f;
        QVERIFY(f.driver.load("model"));
        SamplingParams sampling = greedy(40);
        const std::vector<int> whole = f.run(ask(promptOf(6, 2), sampling)).ids;
        const int stop = whole[25];
        const auto first = std::ranges::find(whole, stop);
        sampling.stopIds = {FakeTokenizer::size - 1, stop};
        if (std::ranges::find(whole, FakeTokenizer::size - 1) < first)
            sampling.stopIds.erase(sampling.stopIds.begin());
        const auto &answer = f.run(ask(promptOf(6, 2), sampling));
        QCOMPARE(answer.ids, std::vector<int>(whole.begin(), first + 1));
        QCOMPARE(answer.finished->reason, FinishReason::Stop);
        QCOMPARE(answer.text, FakeTokenizer().decode({whole.begin(), first}, true)); // its own text is not shown
        sampling.stopIds = {-1};
        QCOMPARE(f.run(ask(promptOf(6, 2), sampling)).finished->code, ErrorCode::Refused);
    }

    void countsChoicesOfAQuestionOnce()
    {
        Fixture f;
        EngineConfig config;
        config.maxModelLen = 128;
        QVERIFY(f.driver.load("model", config));
        SamplingParams sampling = greedy(9);
        sampling.temperature = 1;
        QVERIFY(f.driver.finish(f.engine.submitForks(ask(promptOf(20, 3), sampling), 3)));
        sampling.maxTokens = 0;
        sampling.stopIds = {1, 2, 3, 4, 5, 6};
        const auto &single = f.run(ask(promptOf(20, 3), sampling));
        const LatencyHistograms counts = f.engine.totals().latencies;
        QCOMPARE(counts.choices.count, 2U);
        QCOMPARE(counts.choices.sum, 4.0);
        QCOMPARE(counts.longestChoice.count, 2U);
        QCOMPARE(counts.longestChoice.sum, 9.0 + single.finished->usage.completionTokens);
        QCOMPARE(counts.askedTokens.count, 4U);
        QCOMPARE(counts.askedTokens.sum, 3 * 9.0 + 128 - 20);
        QCOMPARE(counts.inference.count, 4U);
        QVERIFY(std::abs(counts.inference.sum - counts.prefill.sum - counts.decode.sum) < 1e-9);
        QCOMPARE(counts.computedTokens.sum, 4 * 20.0 - single.finished->usage.cachedTokens);
        QCOMPARE(counts.promptTokens.bounds.back(), 100.0); // of 1, 2, 5, 10, ... as far as a context goes
    }
};

QTEST_GUILESS_MAIN(TestEngine)
#include "tst_engine.moc"
