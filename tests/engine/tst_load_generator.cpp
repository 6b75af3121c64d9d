// SPDX-License-Identifier: GPL-3.0-or-later
// Definitions of a load's figures on scripted times, arrivals, prompts, and the run loop on a scripted target.
#include "engine/api/error.h"
#include "engine/lab/comparison.h"
#include "engine/lab/engine_load_target.h"
#include "engine/lab/load_generator.h"
#include "engine/lab/relay_load_target.h"
#include "tests/support/engine_fixture.h"

#include <QElapsedTimer>
#include <QTest>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

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
    void wasteIsWeightedByTime();
    void engineTellsItsOwnFigures();
    void variantsKeepLengthsAndShareNothing();
    void studentsQuantiles_data();
    void studentsQuantiles();
    void differencesOfPairs();
    void figuresReadTheReport();
    void relayedLoad();
    void abandonedLoadEndsAtOnce();
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

void LoadGeneratorTest::wasteIsWeightedByTime()
{
    KvUsage usage;
    QVERIFY(usage.empty());
    StepStats step;
    step.blocksTotal = 10;
    step.blocksUsed = 2;
    step.kvSlots = 32;
    step.kvSlotsEmpty = 12;
    step.duration = 1;
    usage.add(step);
    QVERIFY(std::abs(usage.waste() - 12.0 / 32) < 1e-12);
    step.blocksUsed = 3;
    step.kvSlots = 48;
    step.kvSlotsEmpty = 2;
    step.duration = 3;
    usage.add(step);
    QVERIFY(std::abs(usage.waste() - (12.0 + 6) / (32 + 144)) < 1e-12);
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
    EngineLoadTarget target(runner, fixture.engine);
    const std::vector<LoadRequest> requests = makeRandomRequests({12, {8, 20}, {5, 5}, 16, FakeTokenizer::size, 1});
    const LoadReport report = runLoad(target, requests, {6, 0, {}, 0}, {});
    QCOMPARE(report.completed, 12);
    QCOMPARE(report.outputTokens, 60);
    QCOMPARE(*report.serving.maxRunning, 3);
    QCOMPARE(report.serving.itlMs.size(), 48U);
    QVERIFY(*report.serving.prefixHitRate > 0.2);
    QVERIFY(*report.serving.kvPeakUsage > 0 && *report.serving.kvPeakUsage <= 1);
    QVERIFY(report.queueMs && report.ttftMs->p50 <= report.e2eMs->p50);
    // Blocks of 8 for contexts of 24 to 40 tokens: on average half of the last one is empty, and never seven eighths.
    QVERIFY(*report.serving.kvWaste > 0.02 && *report.serving.kvWaste < 7.0 / 24);
    const EngineTotals totals = fixture.engine.totals();
    QVERIFY(std::abs(totals.kvEmptySeconds / totals.kvSlotSeconds - *report.serving.kvWaste) < 1e-9);
    const EngineLoadTarget again(runner, fixture.engine);
}

void LoadGeneratorTest::variantsKeepLengthsAndShareNothing()
{
    RandomWorkload workload{6, {4, 40}, {2, 9}, 8, 1000, 3};
    const std::vector<LoadRequest> plain = makeRandomRequests(workload);
    workload.variant = 5;
    const std::vector<LoadRequest> other = makeRandomRequests(workload);
    for (std::size_t i = 0; i < plain.size(); ++i) {
        QCOMPARE(other[i].ids.size(), plain[i].ids.size());
        QCOMPARE(other[i].outputTokens, plain[i].outputTokens);
        QVERIFY(other[i].ids[0] != plain[i].ids[0]);
        QVERIFY(std::equal(other[0].ids.begin(), other[0].ids.begin() + 8, other[i].ids.begin())); // shared as before
        QVERIFY(std::ranges::all_of(other[i].ids, [](int id) { return id >= 0 && id < 1000; }));
    }
}

// Table values: NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2; the last digits by R's qt().
void LoadGeneratorTest::studentsQuantiles_data()
{
    QTest::addColumn<double>("p");
    QTest::addColumn<int>("degrees");
    QTest::addColumn<double>("t");
    QTest::newRow("1") << 0.975 << 1 << 12.7062047;
    QTest::newRow("2") << 0.975 << 2 << 4.30265273;
    QTest::newRow("3") << 0.975 << 3 << 3.18244631;
    QTest::newRow("4") << 0.975 << 4 << 2.77644511;
    QTest::newRow("5, 90 %") << 0.95 << 5 << 2.01504837;
    QTest::newRow("9") << 0.975 << 9 << 2.26215716;
    QTest::newRow("10, 99 %") << 0.995 << 10 << 3.16927267;
    QTest::newRow("30") << 0.975 << 30 << 2.04227246;
    QTest::newRow("99") << 0.975 << 99 << 1.98421695;
    QTest::newRow("median") << 0.5 << 7 << 0.0;
}

void LoadGeneratorTest::studentsQuantiles()
{
    QFETCH(double, p);
    QFETCH(int, degrees);
    QFETCH(double, t);
    QVERIFY2(std::abs(studentQuantile(p, degrees) - t) < 1e-6,
             qPrintable(QString::number(studentQuantile(p, degrees))));
}

void LoadGeneratorTest::differencesOfPairs()
{
    // Changes 2, 2, 1, 2, 3: mean 2, standard error sqrt(0.5 / 5), t(4) = 2.776445.
    const Difference d =
        differenceOf(std::array{10.0, 12.0, 9.0, 11.0, 13.0}, std::array{12.0, 14.0, 10.0, 13.0, 16.0});
    QCOMPARE(d.pairs, 5);
    QCOMPARE(d.before, 11.0);
    QCOMPARE(d.after, 13.0);
    QCOMPARE(d.change, 2.0);
    QVERIFY(std::abs(d.interval->low - 1.1220110) < 1e-6 && std::abs(d.interval->high - 2.8779890) < 1e-6);
    QVERIFY(d.seen());
    const Difference noise = differenceOf(std::array{10.0, 12.0, 9.0}, std::array{11.0, 10.0, 10.0});
    QVERIFY(noise.interval && noise.interval->holdsZero() && !noise.seen());
    const Difference one = differenceOf(std::array{10.0}, std::array{20.0});
    QVERIFY(!one.interval && !one.seen() && one.change == 10);
    QVERIFY(!meanInterval(std::array{1.0}));
    const auto same = meanInterval(std::array{4.0, 4.0, 4.0});
    QVERIFY(same && same->low == 4 && same->high == 4);
}

void LoadGeneratorTest::figuresReadTheReport()
{
    LoadReport report = summarize(std::array{sample(0, {0.25, 0.5}), sample(0, {0.75, 1.0})}, {}, {});
    report.serving.kvWaste = 0.25;
    const auto valueOf = [&report](std::string_view key) {
        const auto figure = std::ranges::find(loadFigures(), key, &LoadFigure::key);
        return figure != loadFigures().end() ? figure->of(report) : std::nullopt;
    };
    QCOMPARE(*valueOf("output_throughput"), report.outputThroughput);
    QCOMPARE(*valueOf("ttft_p50"), 500.0);
    QCOMPARE(*valueOf("e2e_p99"), report.e2eMs->p99);
    QCOMPARE(*valueOf("tpot_p95"), report.tpotMs->p95);
    QCOMPARE(*valueOf("kv_waste"), 0.25);
    QVERIFY(!valueOf("prefix_hit_rate"));
    std::set<std::string_view> keys;
    for (const LoadFigure &figure : loadFigures())
        QVERIFY(keys.insert(figure.key).second);
}

namespace {

/// The owner of an engine that answers every request in one step, beside a request of somebody else.
class RelayOwner {
public:
    RelayLoadTarget::Owner owner()
    {
        return {[this](std::size_t index, Request request) { m_wishes.push({index, std::move(request)}); },
                [this] { cancelled = true; }};
    }

    void serve(RelayLoadTarget &target)
    {
        for (const auto &[index, request] : m_wishes.takeAll()) {
            const RequestId id = 100 + index;
            target.submitted(index, id);
            StepStats step;
            step.running = 2;
            step.rows = {{id, 4, 0, 4, 4}, {7, 0, 1, 20, 10}};
            step.itlMs = {5, 77};
            step.itlRequests = {id, 7};
            step.duration = 0.1;
            step.blocksTotal = 10;
            step.blocksUsed = 3;
            step.kvSlots = 24;
            step.kvSlotsEmpty = 6;
            target.stepped(std::array{step});
            RequestFinished end;
            end.id = 7; // somebody else's
            target.finished(end);
            end.id = id;
            end.reason = FinishReason::Length;
            end.usage.promptTokens = 4;
            end.usage.completionTokens = request.sampling.maxTokens;
            end.usage.cachedTokens = 1;
            end.usage.preemptions = 2;
            target.finished(end);
        }
    }

    std::atomic<bool> cancelled = false;

private:
    Mailbox<std::pair<std::size_t, Request>> m_wishes;
};

} // namespace

void LoadGeneratorTest::relayedLoad()
{
    RelayOwner owner;
    RelayLoadTarget target(owner.owner());
    const std::vector<LoadRequest> requests = makeRandomRequests({6, {4, 4}, {3, 3}, 0, 100, 1});
    LoadReport report;
    std::atomic<bool> done = false;
    std::jthread run([&] {
        report = runLoad(target, requests, {2, 0, {}, 0}, {});
        done = true;
    });
    while (!done) {
        owner.serve(target);
        std::this_thread::yield();
    }
    run.join();
    QCOMPARE(report.completed, 6);
    QCOMPARE(report.outputTokens, 18);
    QCOMPARE(report.serving.itlMs, std::vector<double>(6, 5.0)); // not those of the other request
    QCOMPARE(*report.serving.preemptions, 12U);
    QCOMPARE(*report.serving.prefixHitRate, 0.25);
    QCOMPARE(*report.serving.kvPeakUsage, 0.3);
    QCOMPARE(target.others(), 1);
}

void LoadGeneratorTest::abandonedLoadEndsAtOnce()
{
    RelayOwner owner;
    RelayLoadTarget target(owner.owner());
    const std::vector<LoadRequest> requests = makeRandomRequests({6, {4, 4}, {3, 3}, 0, 100, 1});
    LoadReport report;
    std::jthread run([&](const std::stop_token &stop) { report = runLoad(target, requests, {2, 0, {}, 0}, stop); });
    run.request_stop();
    target.abandon();
    QElapsedTimer elapsed;
    elapsed.start();
    run.join();
    QVERIFY(elapsed.elapsed() < 900); // the grace for cancelled requests was not waited for
    QCOMPARE(report.completed, 0);
}

QTEST_GUILESS_MAIN(LoadGeneratorTest)
#include "tst_load_generator.moc"
