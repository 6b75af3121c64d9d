// SPDX-License-Identifier: GPL-3.0-or-later
// Definitions of a load's figures on scripted times, arrivals, prompts, and the run loop on a scripted target.
#include "engine/api/error.h"
#include "engine/lab/engine_load_target.h"
#include "engine/lab/load_generator.h"
#include "tests/support/engine_fixture.h"

#include <QTest>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace engine;

namespace {

constexpr const char *conversations = R"([
  {"id": "a", "conversations": [{"from": "human", "value": "one two three four five"},
                                {"from": "gpt", "value": "six seven eight nine ten eleven"}]},
  {"id": "b", "conversations": [{"from": "human", "value": "too short"}, {"from": "gpt", "value": "a b c d e"}]},
  {"id": "c", "conversations": [{"from": "human", "value": "alone"}]},
  {"id": "d", "conversations": [{"from": "human", "value": "aa bb cc dd"}, {"from": "gpt", "value": "ee ff gg hh"},
                                {"from": "human", "value": "ignored"}]}
])";

int countWords(const std::string &text)
{
    return static_cast<int>(std::ranges::count(text, ' ')) + 1;
}

LoadSample sample(double sentAt, const std::vector<double> &outputs, int prompt = 10)
{
    LoadSample one;
    one.outcome = LoadOutcome::Completed;
    one.sentAt = sentAt;
    one.endedAt = outputs.back();
    one.promptTokens = prompt;
    one.outputTokens = static_cast<int>(outputs.size());
    measureOutputs(one, outputs);
    return one;
}

ErrorCode codeOf(const std::function<void()> &call, std::string *message = nullptr)
{
    try {
        call();
    } catch (const Error &error) {
        if (message)
            *message = error.what();
        return error.code();
    }
    return ErrorCode::Internal;
}

/// Answers every request a fixed time after it was sent, on a clock that wait() moves.
class ScriptedTarget final : public LoadTarget {
public:
    [[nodiscard]] double now() const override { return m_now; }
    void send(std::size_t index, const LoadRequest &) override
    {
        m_open.emplace_back(index, m_now);
        most = std::max(most, m_open.size());
        sent.push_back(m_now);
    }
    [[nodiscard]] std::vector<std::pair<std::size_t, LoadSample>> wait(double seconds) override
    {
        m_now += std::max(seconds, 0.001);
        std::vector<std::pair<std::size_t, LoadSample>> ended;
        std::erase_if(m_open, [&](const auto &open) {
            if (!cancelled && m_now < open.second + latency)
                return false;
            LoadSample one = sample(open.second, {open.second + latency / 2, open.second + latency});
            if (cancelled)
                one.outcome = LoadOutcome::Cancelled;
            ended.emplace_back(open.first, one);
            return true;
        });
        return ended;
    }
    void cancelAll() override { cancelled = true; }
    [[nodiscard]] ServingFigures figures() override { return {}; }

    double latency = 0.2;
    std::size_t most = 0;
    bool cancelled = false;
    std::vector<double> sent;

private:
    double m_now = 100;
    std::vector<std::pair<std::size_t, double>> m_open;
};

} // namespace

class LoadGeneratorTest : public QObject {
    Q_OBJECT

private slots:
    void latenciesOfScriptedTimes();
    void percentilesAreLinear();
    void throughputsAndOutcomes();
    void goodputKeepsAllLimits();
    void goodputTextIsChecked_data();
    void goodputTextIsChecked();
    void lengthTextIsChecked_data();
    void lengthTextIsChecked();
    void arrivalsArePoisson();
    void randomPromptsShareTheirPrefix();
    void promptsWithoutAVocabularyAreWords();
    void datasetKeepsWhatVllmKeeps();
    void brokenDatasetsAreRefused_data();
    void brokenDatasetsAreRefused();
    void concurrencyIsKept();
    void stopReportsWhatHasEnded();
    void wasteOfScriptedSteps();
    void engineTellsItsOwnFigures();
};

void LoadGeneratorTest::latenciesOfScriptedTimes()
{
    const LoadSample one = sample(1.0, {1.5, 1.6, 1.9, 2.1});
    QVERIFY(std::abs(one.ttftMs - 500) < 1e-9);
    QVERIFY(std::abs(one.e2eMs - 1100) < 1e-9);
    QVERIFY(std::abs(one.tpotMs - 200) < 1e-9);
    QCOMPARE(one.itlMs.size(), 3U);
    QVERIFY(std::abs(one.itlMs[1] - 300) < 1e-9);
    QCOMPARE(sample(0, {0.25}).tpotMs, 0.0);
}

void LoadGeneratorTest::percentilesAreLinear()
{
    std::vector<double> values(101);
    std::iota(values.begin(), values.end(), 0.0);
    const LatencySummary all = *latencyOf(values);
    QCOMPARE(all.mean, 50.0);
    QCOMPARE(all.p50, 50.0);
    QCOMPARE(all.p95, 95.0);
    const LatencySummary four = *latencyOf({4, 1, 3, 2});
    QCOMPARE(four.p50, 2.5);
    QVERIFY(std::abs(four.p90 - 3.7) < 1e-12); // numpy.percentile([1, 2, 3, 4], 90)
    QVERIFY(std::abs(four.p99 - 3.97) < 1e-12);
    QCOMPARE(latencyOf({7})->p99, 7.0);
    QVERIFY(!latencyOf({}));
}

void LoadGeneratorTest::throughputsAndOutcomes()
{
    std::vector<LoadSample> samples{sample(0, {1, 2}), sample(1, {3, 4, 5})};
    LoadSample failed;
    failed.sentAt = 2;
    failed.endedAt = 10;
    failed.error = "why";
    LoadSample rejected = failed;
    rejected.outcome = LoadOutcome::Rejected;
    rejected.endedAt = 2.5;
    samples.push_back(failed);
    samples.push_back(rejected);
    const LoadReport report = summarize(samples, {}, {});
    QCOMPARE(report.completed, 2);
    QCOMPARE(report.failed, 1);
    QCOMPARE(report.rejected, 1);
    QCOMPARE(report.firstError, std::string("why"));
    QCOMPARE(report.durationSeconds, 10.0);
    QCOMPARE(report.requestThroughput, 0.2);
    QCOMPARE(report.outputThroughput, 0.5);
    QCOMPARE(report.totalThroughput, 2.5);
    QVERIFY(!report.goodput);
    QCOMPARE(report.rejectMs->p50, 500.0);
    QCOMPARE(report.itlMs->mean, 1000.0); // pooled over requests
    QCOMPARE(report.ttftMs->mean, 1500.0);
    QVERIFY(!report.queueMs);
}

void LoadGeneratorTest::goodputKeepsAllLimits()
{
    const std::vector<LoadSample> samples{sample(0, {0.4, 0.44}), sample(0, {0.6, 0.64}), sample(0, {0.4, 0.5}),
                                          sample(0, {0.1})};
    const LoadReport report = summarize(samples, {}, parseGoodput("ttft:500,tpot:50"));
    QVERIFY(std::abs(*report.goodput * report.durationSeconds - 2) < 1e-9);
    QVERIFY(std::abs(*summarize(samples, {}, parseGoodput("e2e:450")).goodput * 0.64 - 2) < 1e-9);
}

void LoadGeneratorTest::goodputTextIsChecked_data()
{
    QTest::addColumn<QString>("text");
    for (const char *text : {"", "ttft", "ttft:", "ttft:x", "ttft:-1", "speed:5", "ttft:5,", "ttft:5;tpot:6", "ttft:0"})
        QTest::newRow(text) << text;
}

void LoadGeneratorTest::goodputTextIsChecked()
{
    QFETCH(QString, text);
    QCOMPARE(codeOf([&] { (void)parseGoodput(text.toStdString()); }), ErrorCode::InvalidArgument);
}

void LoadGeneratorTest::lengthTextIsChecked_data()
{
    QTest::addColumn<QString>("text");
    for (const char *text : {"", "0", "5:4", "a", "4:", ":4", "4:5:6", "-3", "4-5", "99999999999"})
        QTest::newRow(text) << text;
}

void LoadGeneratorTest::lengthTextIsChecked()
{
    QFETCH(QString, text);
    std::string message;
    QCOMPARE(codeOf([&] { (void)parseLengthRange(text.toStdString(), "--input-len"); }, &message),
             ErrorCode::InvalidArgument);
    QVERIFY(message.starts_with("--input-len: found \""));
    QCOMPARE(parseLengthRange("12", "").to, 12);
    QCOMPARE(parseLengthRange("3:9", "").to, 9);
}

void LoadGeneratorTest::arrivalsArePoisson()
{
    constexpr int count = 20000;
    constexpr double rate = 40;
    const std::vector<double> times = arrivalTimes(count, rate, 7);
    QCOMPARE(times, arrivalTimes(count, rate, 7));
    QVERIFY(times != arrivalTimes(count, rate, 8));
    QCOMPARE(times.front(), 0.0);
    std::vector<double> gaps;
    for (std::size_t i = 1; i < times.size(); ++i)
        gaps.push_back(times[i] - times[i - 1]);
    const double mean = std::accumulate(gaps.begin(), gaps.end(), 0.0) / static_cast<double>(gaps.size());
    double squares = 0;
    for (const double gap : gaps)
        squares += (gap - mean) * (gap - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(gaps.size()));
    QVERIFY2(std::abs(mean * rate - 1) < 0.03, qPrintable(QString::number(mean)));
    QVERIFY(std::abs(deviation / mean - 1) < 0.03); // of an exponential, both are equal
    const auto early = std::ranges::count_if(gaps, [&](double gap) { return gap < std::log(2.0) / rate; });
    QVERIFY(std::abs(static_cast<double>(early) / static_cast<double>(gaps.size()) - 0.5) < 0.02);
    QCOMPARE(arrivalTimes(5, 0, 1), std::vector<double>(5));
}

void LoadGeneratorTest::randomPromptsShareTheirPrefix()
{
    const RandomWorkload workload{50, {3, 9}, {2, 4}, 16, 100, 5};
    const std::vector<LoadRequest> requests = makeRandomRequests(workload);
    std::set<std::size_t> lengths;
    std::set<int> outputs;
    for (const LoadRequest &request : requests) {
        QVERIFY(std::equal(request.ids.begin(), request.ids.begin() + 16, requests.front().ids.begin()));
        lengths.insert(request.ids.size());
        outputs.insert(request.outputTokens);
        QVERIFY(std::ranges::all_of(request.ids, [](int id) { return id >= 0 && id < 100; }));
    }
    QCOMPARE(*lengths.begin(), 19U);
    QCOMPARE(*lengths.rbegin(), 25U);
    QCOMPARE(outputs, (std::set<int>{2, 3, 4}));
    QVERIFY(requests[0].ids != requests[1].ids);
    QVERIFY(makeRandomRequests(workload)[49].ids == requests[49].ids);
}

void LoadGeneratorTest::promptsWithoutAVocabularyAreWords()
{
    const std::vector<LoadRequest> requests = makeRandomRequests({3, {8, 8}, {1, 1}, 4, 0, 1});
    for (const LoadRequest &request : requests) {
        QVERIFY(request.ids.empty());
        QCOMPARE(countWords(request.prompt), 12);
    }
    QVERIFY(requests[0].prompt != requests[1].prompt);
}

void LoadGeneratorTest::datasetKeepsWhatVllmKeeps()
{
    const std::vector<LoadRequest> two = makeDatasetRequests(conversations, "f.json", {2, {}, 0, 0, 0}, countWords);
    std::set<std::string> prompts{two[0].prompt, two[1].prompt};
    QCOMPARE(prompts, (std::set<std::string>{"one two three four five", "aa bb cc dd"}));
    for (const LoadRequest &request : two)
        QCOMPARE(request.outputTokens, request.prompt.starts_with("one") ? 6 : 4);
    QCOMPARE(makeDatasetRequests(conversations, "f", {7, {}, 0, 0, 0}, countWords).size(), 7U); // used again
    const auto small = makeDatasetRequests(conversations, "f", {2, {}, 0, 10, 0}, countWords);
    QCOMPARE(small[1].prompt, std::string("aa bb cc dd")); // the other one has no room in 10 tokens
    const auto fixed = makeDatasetRequests(conversations, "f", {1, LengthRange{3, 3}, 2, 0, 0}, countWords);
    QCOMPARE(fixed[0].outputTokens, 3);
    QVERIFY(fixed[0].prompt.find("\n\n") != std::string::npos);
}

void LoadGeneratorTest::brokenDatasetsAreRefused_data()
{
    QTest::addColumn<QByteArray>("text");
    QTest::newRow("empty") << QByteArray();
    QTest::newRow("cut") << QByteArray(conversations).chopped(40);
    QTest::newRow("no list") << QByteArray("{}");
    QTest::newRow("no objects") << QByteArray("[1]");
    QTest::newRow("no conversations") << QByteArray(R"([{"id": 1}])");
    QTest::newRow("no text") << QByteArray(R"([{"conversations": [{"value": 1}, {"value": "a"}]}])");
    QTest::newRow("nothing usable") << QByteArray(R"([{"conversations": [{"value": "a"}, {"value": "b"}]}])");
    QTest::newRow("no entries") << QByteArray("[]");
}

void LoadGeneratorTest::brokenDatasetsAreRefused()
{
    QFETCH(QByteArray, text);
    std::string message;
    const auto read = [&] { (void)makeDatasetRequests(text.toStdString(), "set.json", {1, {}, 0, 0, 0}, countWords); };
    QCOMPARE(codeOf(read, &message), ErrorCode::Refused);
    QVERIFY2(message.find("set.json") != std::string::npos, message.c_str());
}

void LoadGeneratorTest::concurrencyIsKept()
{
    ScriptedTarget target;
    const std::vector<LoadRequest> requests(20);
    const LoadReport report = runLoad(target, requests, {4, 0, {}, 0}, {});
    QCOMPARE(report.completed, 20);
    QCOMPARE(target.most, 4U);
    ScriptedTarget all;
    (void)runLoad(all, requests, {}, {});
    QCOMPARE(all.most, 20U);
    ScriptedTarget spread;
    spread.latency = 0.001;
    (void)runLoad(spread, requests, {0, 10, {}, 3}, {});
    const std::vector<double> due = arrivalTimes(20, 10, 3);
    for (std::size_t i = 0; i < due.size(); ++i)
        QVERIFY(spread.sent[i] - spread.sent[0] >= due[i] - 1e-9 && spread.sent[i] - spread.sent[0] < due[i] + 0.06);
}

void LoadGeneratorTest::stopReportsWhatHasEnded()
{
    ScriptedTarget target;
    std::stop_source stop;
    const LoadReport report = runLoad(target, std::vector<LoadRequest>(40), {5, 0, {}, 0}, stop.get_token(),
                                      [&](int ended) { ended >= 10 ? (void)stop.request_stop() : (void)0; });
    QVERIFY(target.cancelled);
    QCOMPARE(report.completed + report.cancelled, static_cast<int>(target.sent.size()));
    QVERIFY(report.completed >= 10 && report.completed < 40);
    QVERIFY(report.ttftMs.has_value());
}

void LoadGeneratorTest::wasteOfScriptedSteps()
{
    KvUsage usage(16);
    StepStats step;
    step.duration = 1;
    step.blocksTotal = 10;
    step.blocksUsed = 2;
    step.rows = {{1, 20, 0, 20, 30}}; // two blocks for 30 tokens, 20 of them computed
    usage.add(step);
    QVERIFY(std::abs(usage.waste() - 12.0 / 32) < 1e-12);
    step.rows = {{1, 10, 0, 30, 30}};
    usage.add(step);
    QVERIFY(std::abs(usage.waste() - 14.0 / 64) < 1e-12);
    step.blocksUsed = 3; // a second request shares the first block
    step.rows = {{1, 0, 1, 31, 30}, {2, 17, 0, 33 - 16, 17}};
    usage.add(step);
    QVERIFY(std::abs(usage.waste() - (14.0 + 1 + 15) / (64 + 48)) < 1e-12);
    QCOMPARE(usage.peak(), 0.3);
}

void LoadGeneratorTest::engineTellsItsOwnFigures()
{
    engine_fixture::Fixture fixture;
    EngineConfig config;
    config.kv.blockTokens = 8;
    config.kv.numBlocks = 40;
    config.limits.maxNumSeqs = 3;
    RequestRunner runner(fixture.engine);
    (void)runner.load("model", config, {});
    EngineLoadTarget target(runner, fixture.engine, config.kv.blockTokens);
    const std::vector<LoadRequest> requests = makeRandomRequests({12, {8, 20}, {5, 5}, 16, FakeTokenizer::size, 1});
    const LoadReport report = runLoad(target, requests, {6, 0, {}, 0}, {});
    QCOMPARE(report.completed, 12);
    QCOMPARE(report.outputTokens, 60);
    QCOMPARE(*report.serving.maxRunning, 3);
    QCOMPARE(report.serving.itlMs.size(), 48U);
    QVERIFY(*report.serving.prefixHitRate > 0.2);
    QVERIFY(*report.serving.kvPeakUsage > 0 && *report.serving.kvPeakUsage <= 1);
    QVERIFY(report.queueMs && report.ttftMs->p50 <= report.e2eMs->p50);
    const EngineLoadTarget again(runner, fixture.engine, config.kv.blockTokens);
}

QTEST_GUILESS_MAIN(LoadGeneratorTest)
#include "tst_load_generator.moc"
