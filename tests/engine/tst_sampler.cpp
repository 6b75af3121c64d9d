// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/sampler.h"

#include "engine/runtime/bucket_draw.h"
#include "engine/runtime/random.h"
#include "kernels/cpu/isa.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>

using namespace engine;

namespace {

constexpr int goldenVocab = 1000;
constexpr double tolerance = 1e-9;
const float infinity = std::numeric_limits<float>::infinity();

SamplingParams off()
{
    SamplingParams params;
    params.temperature = 1.0;
    params.topK = 0;
    params.topP = 1.0;
    params.minP = 0.0;
    return params;
}

SamplingParams stage(const QString &name)
{
    SamplingParams params = off();
    if (name == "temperature_0.7" || name == "combined")
        params.temperature = 0.7;
    if (name == "top_k_40" || name == "combined")
        params.topK = 40;
    if (name == "top_p_0.9" || name == "combined")
        params.topP = 0.9;
    if (name == "min_p_0.05" || name == "combined")
        params.minP = 0.05;
    if (name == "repetition_1.3" || name == "combined")
        params.repetitionPenalty = 1.3;
    if (name == "frequency_presence_0.5" || name == "combined")
        params.frequencyPenalty = params.presencePenalty = 0.5;
    return params;
}

std::vector<int> ints(const QJsonValue &value)
{
    std::vector<int> list;
    for (const QJsonValue item : value.toArray())
        list.push_back(item.toInt());
    return list;
}

std::vector<float> gaussian(int size, unsigned seed)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> values(static_cast<std::size_t>(size));
    for (float &value : values)
        value = normal(random);
    return values;
}

/// (token, exp(logit - largest)) of all that can be drawn, best first, after the repetition penalty.
std::vector<std::pair<int, double>> sortedProbabilities(const std::vector<float> &values,
                                                        const std::vector<int> &history, double repetition)
{
    std::vector<double> logits(values.begin(), values.end());
    for (const int token : history) {
        double &logit = logits[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / repetition : logit * repetition;
    }
    const double peak = *std::ranges::max_element(logits);
    std::vector<std::pair<int, double>> sorted;
    for (std::size_t i = 0; i < logits.size(); ++i)
        if (std::isfinite(logits[i]))
            sorted.emplace_back(static_cast<int>(i), logits[i]);
    std::ranges::sort(sorted, [](const auto &a, const auto &b) {
        return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    for (auto &[token, logit] : sorted)
        logit = std::exp(logit - peak);
    return sorted;
}

/// The tokens that the cuts leave, as their definitions read.
std::vector<int> cut(std::vector<std::pair<int, double>> sorted, int topK, double topP, double minP)
{
    if (topK > 0 && static_cast<std::size_t>(topK) < sorted.size())
        sorted.resize(static_cast<std::size_t>(topK));
    double total = 0;
    for (const auto &[token, weight] : sorted)
        total += weight;
    std::vector<int> kept;
    double sum = 0;
    for (const auto &[token, weight] : sorted) {
        if (weight < minP || (topP < 1.0 && sum >= topP))
            break;
        kept.push_back(token);
        sum += weight / total;
    }
    return kept;
}

} // namespace

class TestSampler : public QObject {
    Q_OBJECT

private slots:
    void biasMovesTheChoice()
    {
        const std::vector<float> row{1.0F, 3.0F, 2.0F};
        SamplingParams params;
        params.temperature = 0;
        params.logprobs = 0;
        Sampler sampler;
        const double plain = sampler.sample(row, params, {}, 1).logprob;
        params.logitBias = {{1, -100}};
        QCOMPARE(sampler.sample(row, params, {}, 1).token, 2);
        params.logitBias = {{0, 100}, {7, 100}}; // the second is no token of this row
        QCOMPARE(sampler.sample(row, params, {}, 1).token, 0);
        const std::vector<std::uint64_t> allowed{0b110};
        QCOMPARE(sampler.sample(row, params, {}, 1, allowed).token, 1);
        QCOMPARE(sampler.sample(row, params, {}, 1, allowed).logprob, plain); // of the raw logits
    }
    void initTestCase()
    {
        QFile file(shared_data::data("sampling/logits.f32"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray bytes = file.readAll();
        m_logits.resize(static_cast<std::size_t>(bytes.size()) / sizeof(float));
        std::memcpy(m_logits.data(), bytes.constData(), m_logits.size() * sizeof(float));
        for (const QByteArray &line : shared_data::read(shared_data::data("sampling/sampling.jsonl.xz")).split('\n'))
            if (!line.isEmpty())
                m_records.push_back(QJsonDocument::fromJson(line).object());
        QCOMPARE(m_records.size(), 20U);
        QCOMPARE(m_logits.size(), 20U * goldenVocab);
    }

    void goldenStages_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"temperature_0.7", "top_k_40", "top_p_0.9", "min_p_0.05", "repetition_1.3",
                                 "frequency_presence_0.5", "combined"})
            QTest::newRow(name) << QString(name);
    }
    void goldenStages()
    {
        QFETCH(QString, name);
        Sampler sampler;
        for (std::size_t i = 0; i < m_records.size(); ++i) {
            const std::vector<Candidate> got =
                sampler.distribution(logits(i), stage(name), ints(m_records[i]["history"]));
            const QJsonObject expected = m_records[i][name].toObject();
            const std::vector<int> tokens = ints(expected["tokens"]);
            const QJsonArray probabilities = expected["probs"].toArray();
            QCOMPARE(got.size(), tokens.size());
            for (std::size_t k = 0; k < tokens.size(); ++k) {
                QCOMPARE(got[k].token, tokens[k]);
                const double want = probabilities[static_cast<qsizetype>(k)].toDouble();
                QVERIFY2(std::abs(got[k].probability - want) <= tolerance,
                         qPrintable(QString("vector %1, entry %2").arg(i).arg(k)));
            }
        }
    }

    void goldenDraws()
    {
        Sampler sampler;
        for (std::size_t i = 0; i < m_records.size(); ++i) {
            const auto candidates = sampler.distribution(logits(i), stage("combined"), ints(m_records[i]["history"]));
            for (const QJsonValue draw : m_records[i]["draws"].toArray())
                QCOMPARE(Sampler::draw(candidates, draw[0].toDouble()), draw[1].toInt());
        }
    }

    void zeroTemperatureIsArgmaxWithTheLowestId()
    {
        Sampler sampler;
        SamplingParams params;
        params.temperature = 0;
        const std::vector<float> ties{1, 5, 2, 5, 5};
        QCOMPARE(sampler.sample(ties, params, {}, 1).token, 1);
        const std::vector<float> banned{-infinity, -3, -infinity, -3};
        QCOMPARE(sampler.sample(banned, params, {}, 1).token, 1);
        params.repetitionPenalty = 2.0; // token 1 had its turn
        const std::vector<int> history{1};
        QCOMPARE(sampler.sample(ties, params, history, 1).token, 3);
        for (std::size_t i = 0; i < m_records.size(); ++i) { // cuts never remove the best
            SamplingParams all = stage("combined");
            all.temperature = 0;
            const auto past = ints(m_records[i]["history"]);
            QCOMPARE(sampler.sample(logits(i), all, past, 1).token,
                     ints(m_records[i]["combined"].toObject()["tokens"])[0]);
        }
    }

    void aTinyTemperatureIsNearlyArgmax()
    {
        Sampler sampler;
        SamplingParams params = off();
        params.temperature = 1e-300;
        const std::vector<float> values = gaussian(500, 3);
        const int best = static_cast<int>(std::ranges::max_element(values) - values.begin());
        for (std::uint64_t seed = 0; seed < 20; ++seed)
            QCOMPARE(sampler.sample(values, params, {}, seed).token, best);
    }

    void everyCutKeepsAtLeastOne()
    {
        Sampler sampler;
        const std::vector<float> values = gaussian(300, 4);
        SamplingParams params = off();
        params.topP = 0.0;
        QCOMPARE(sampler.distribution(values, params, {}).size(), 1U);
        params = off();
        params.minP = 1.0;
        QCOMPARE(sampler.distribution(values, params, {}).size(), 1U);
        params = off();
        params.topK = 1;
        QCOMPARE(sampler.distribution(values, params, {}).size(), 1U);
        params.topK = 100000;
        QCOMPARE(sampler.distribution(values, params, {}).size(), 300U);
    }

    void bannedTokensAreNeverDrawn()
    {
        Sampler sampler;
        std::vector<float> values(100, -infinity);
        values[70] = 1;
        values[71] = 1;
        for (std::uint64_t seed = 0; seed < 200; ++seed) {
            const int token = sampler.sample(values, off(), {}, seed).token;
            QVERIFY(token == 70 || token == 71);
        }
    }

    void unusableLogitsAreNamed()
    {
        Sampler sampler;
        std::vector<float> values = gaussian(100, 5);
        values[42] = std::numeric_limits<float>::quiet_NaN();
        const Sampled nan = sampler.sample(values, SamplingParams(), {}, 1);
        QVERIFY(nan.error.find("not-a-number") != std::string::npos && nan.error.find("token 42") != std::string::npos);
        values[42] = infinity;
        QVERIFY(sampler.sample(values, SamplingParams(), {}, 1).error.find("+infinity") != std::string::npos);
        values[42] = -infinity;
        QVERIFY(sampler.sample(values, SamplingParams(), {}, 1).error.empty());
        const std::vector<float> nothing(100, -infinity);
        QVERIFY(sampler.sample(nothing, SamplingParams(), {}, 1).error.find("-infinity") != std::string::npos);
    }

    void philoxEqualsItsPublishedVectors()
    {
        using R = CounterRandom;
        QVERIFY((R::philox({0, 0, 0, 0}, {0, 0}) == R::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
        QVERIFY((R::philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff})
                 == R::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
        QVERIFY((R::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0})
                 == R::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
    }

    void uniformNumbersAreUniform()
    {
        std::vector<int> bins(16, 0);
        for (std::uint64_t seed = 0; seed < 100; ++seed)
            for (std::uint64_t position = 0; position < 160; ++position) {
                const double u = CounterRandom::uniform(seed, position);
                QVERIFY(u >= 0.0 && u < 1.0);
                ++bins[static_cast<std::size_t>(u * 16)];
            }
        double chi = 0;
        for (const int bin : bins)
            chi += (bin - 1000.0) * (bin - 1000.0) / 1000.0;
        QVERIFY2(chi < 40.0, qPrintable(QString::number(chi))); // 15 degrees of freedom: 1 in 2,000
    }

    void drawsFollowTheDistribution()
    {
        Sampler sampler;
        const std::vector<float> values = gaussian(30, 6);
        SamplingParams params = off();
        params.temperature = 0.9;
        std::map<int, int> counts;
        constexpr int draws = 20000;
        for (std::uint64_t seed = 0; seed < draws; ++seed)
            ++counts[sampler.sample(values, params, {}, seed).token];
        for (const Candidate &candidate : sampler.distribution(values, params, {})) {
            const double expected = candidate.probability * draws;
            const double deviation = std::sqrt(expected * (1 - candidate.probability)) + 1;
            QVERIFY(std::abs(counts[candidate.token] - expected) < 5 * deviation);
        }
    }

    void theDrawDependsOnSeedAndPositionAlone()
    {
        Sampler used;
        const std::vector<float> values = gaussian(2000, 8);
        SamplingParams other = stage("combined");
        const std::vector<int> past{1, 2, 3, 4};
        std::vector<int> first;
        for (std::uint64_t seed = 0; seed < 50; ++seed)
            first.push_back(used.sample(values, off(), past, seed).token);
        for (std::uint64_t seed = 50; seed-- > 0;) {
            Sampler fresh;
            (void)used.sample(gaussian(500, static_cast<unsigned>(seed)), other, past, 9);
            QCOMPARE(used.sample(values, off(), past, seed).token, first[seed]);
            QCOMPARE(fresh.sample(values, off(), past, seed).token, first[seed]);
        }
        QVERIFY(std::ranges::count(first, first[0]) < 50);
    }

    void withoutCutsTheDrawEqualsTheWholeList()
    {
        Sampler sampler;
        const std::vector<float> values = gaussian(5000, 9);
        SamplingParams params = off();
        params.temperature = 1.7;
        for (std::uint64_t seed = 0; seed < 300; ++seed) {
            const int token = sampler.sample(values, params, {}, seed).token;
            const auto list = sampler.distribution(values, params, {});
            QCOMPARE(token, Sampler::draw(list, CounterRandom::uniform(seed, 0)));
        }
    }

    /// Lists are found without sorting the vocabulary: beside a plain sort, with many equal and many impossible tokens.
    void listsAreThoseOfAFullSort_data()
    {
        QTest::addColumn<float>("spread");
        QTest::addColumn<float>("step"); // of which logits are multiples; 0: none
        QTest::addColumn<double>("repetition");
        const float spreads[] = {1e-4F, 1.0F, 6.0F};
        for (const float spread : spreads) {
            for (const float step : {0.0F, spread / 4}) {
                for (const double repetition : {1.0, 1.3})
                    QTest::addRow("spread %g, steps of %g, repetition %g", static_cast<double>(spread),
                                  static_cast<double>(step), repetition)
                        << spread << step << repetition;
            }
        }
    }
    void listsAreThoseOfAFullSort()
    {
        QFETCH(float, spread);
        QFETCH(float, step);
        QFETCH(double, repetition);
        std::vector<float> values = gaussian(6000, 17);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = step > 0 ? std::round(values[i] * spread / step) * step : values[i] * spread;
            if (i % 7 == 3)
                values[i] = -std::numeric_limits<float>::infinity();
        }
        std::vector<int> history;
        for (int i = 0; i < 200; ++i)
            history.push_back(i * 37 % 6000);
        const std::vector<std::pair<int, double>> sorted = sortedProbabilities(values, history, repetition);
        Sampler sampler;
        for (const double topP : {0.3, 0.9, 0.999, 1.0}) {
            for (const int topK : {0, 3, 1500}) {
                for (const double minP : {0.0, 0.2}) {
                    SamplingParams params = off();
                    params.topP = topP;
                    params.topK = topK;
                    params.minP = minP;
                    params.repetitionPenalty = repetition;
                    const auto found = sampler.distribution(values, params, history);
                    const std::vector<int> wanted = cut(sorted, topK, topP, minP);
                    QVERIFY(found.size() >= wanted.size());
                    for (std::size_t i = 0; i < wanted.size(); ++i)
                        QCOMPARE(found[i].token, wanted[i]);
                    for (std::size_t i = wanted.size(); i < found.size(); ++i)
                        QCOMPARE(found[i].probability, 0.0); // tokens that cannot be drawn may follow
                }
            }
        }
    }

    /// At every level the token is that of the definition, a draw from the whole sorted list, also where lists are so
    /// long that they are not sorted.
    void tokensAreThoseOfTheDefinition_data()
    {
        QTest::addColumn<QString>("level");
        QTest::addColumn<float>("spread");
        QTest::addColumn<float>("step"); // of which logits are multiples; 0: none
        QTest::addColumn<double>("repetition");
        for (const kernels::Isa isa : {kernels::Isa::Scalar, kernels::Isa::Avx2, kernels::Isa::Avx512}) {
            const QString level = QString::fromStdString(std::string(kernels::isaName(isa)));
            for (const float spread : {1e-4F, 0.5F, 1.0F, 3.0F}) {
                for (const double repetition : {1.0, 1.3})
                    QTest::addRow("%s, spread %g, repetition %g", qPrintable(level), static_cast<double>(spread * 3),
                                  repetition)
                        << level << spread << 0.0F << repetition;
            }
            QTest::addRow("%s, equal logits", qPrintable(level)) << level << 1.0F << 0.5F << 1.0;
        }
    }
    void tokensAreThoseOfTheDefinition()
    {
        QFETCH(QString, level);
        QFETCH(float, spread);
        QFETCH(float, step);
        QFETCH(double, repetition);
        const std::vector<kernels::Isa> granted = kernels::detectIsa();
        if (std::ranges::none_of(granted,
                                 [&](kernels::Isa isa) { return kernels::isaName(isa) == level.toStdString(); }))
            QSKIP(qPrintable("needs a processor with " + level));
        std::vector<float> values = gaussian(shared_data::sanitized ? 6000 : 20000, 23);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] *= spread;
            if (step > 0)
                values[i] = std::round(values[i] / step) * step;
            if (i % 11 == 3)
                values[i] = -infinity;
        }
        std::vector<int> history;
        for (int i = 0; i < 300; ++i)
            history.push_back(i * 7 % 4000);
        Sampler sampler(level.toStdString());
        Sampler scalar("scalar");
        for (const double topP : {0.9, 0.999, 1.0}) {
            for (const double minP : {0.0, 0.01}) {
                for (const double temperature : {0.6, 1.0}) {
                    SamplingParams params = off();
                    params.topP = topP;
                    params.minP = minP;
                    params.temperature = temperature;
                    params.repetitionPenalty = repetition;
                    const std::vector<Candidate> list = scalar.distribution(values, params, history);
                    for (std::uint64_t seed = 0; seed < 6; ++seed)
                        QCOMPARE(sampler.sample(values, params, history, seed).token,
                                 Sampler::draw(list, CounterRandom::uniform(seed, history.size())));
                }
            }
        }
    }

    /// Long lists are seldom sorted after all: the doubt that rounding leaves is that small.
    void longListsAreDrawnFromInBuckets()
    {
        const std::vector<float> values = gaussian(30000, 31);
        RankedLogits logits;
        QVERIFY(logits.set(values));
        const RankedLogits::Gathered list = logits.gather(-100);
        QCOMPARE(list.tokens.size(), values.size());
        BucketDraw buckets;
        Sampler sampler;
        int undecided = 0;
        for (const double topP : {0.5, 0.95, 1.0}) {
            SamplingParams params = off();
            params.topP = topP;
            params.temperature = 1.3;
            std::vector<double> known(list.tokens.size());
            logits.scans().exponentials(list.logits.data(), known.size(), logits.peak(),
                                        topP < 1.0 ? 1.0 : 1.0 / params.temperature, known.data());
            const std::vector<Candidate> right = sampler.distribution(values, params, {});
            for (int i = 0; i < 100; ++i) {
                const double u = (i + 0.37) / 100;
                const std::optional<int> token = buckets.draw(logits, list, known, params, u);
                undecided += token ? 0 : 1;
                QCOMPARE(token.value_or(Sampler::draw(right, u)), Sampler::draw(right, u));
            }
            // Where the sums meet exactly, nothing is decided.
            double sum = 0;
            for (std::size_t i = 0; i < 50; ++i)
                sum += right[i].probability;
            QVERIFY(!buckets.draw(logits, list, known, params, sum));
        }
        QVERIFY2(undecided <= 2, qPrintable(QString::number(undecided)));
    }

    void logprobsAreThoseOfTheRawLogits()
    {
        Sampler sampler;
        SamplingParams params = stage("combined");
        params.logprobs = 3;
        const std::vector<float> values{0, 1, 2, 3, 3};
        const std::vector<int> past{4, 4};
        const Sampled sampled = sampler.sample(values, params, past, 3);
        double sum = 0;
        for (const float value : values)
            sum += std::exp(static_cast<double>(value));
        QCOMPARE(sampled.top.size(), 3U);
        const std::vector<int> order{3, 4, 2};
        for (std::size_t i = 0; i < 3; ++i) {
            QCOMPARE(sampled.top[i].first, order[i]);
            QVERIFY(std::abs(sampled.top[i].second
                             - (static_cast<double>(values[static_cast<std::size_t>(order[i])]) - std::log(sum)))
                    < 1e-12);
        }
        QVERIFY(std::abs(sampled.logprob
                         - (static_cast<double>(values[static_cast<std::size_t>(sampled.token)]) - std::log(sum)))
                < 1e-12);
        params.logprobs = 0;
        QVERIFY(sampler.sample(values, params, past, 3).top.empty());
        QVERIFY(sampler.sample(values, params, past, 3).logprob < 0);
    }

    void largeVocabulariesAreFast()
    {
        Sampler sampler;
        const std::vector<float> values = gaussian(256000, 10);
        SamplingParams greedy;
        greedy.temperature = 0;
        SamplingParams usual; // top_k 40, top_p 0.95
        SamplingParams nucleus = off();
        nucleus.topP = 0.9;
        const auto perRow = [&](const SamplingParams &params) {
            double best = std::numeric_limits<double>::infinity(); // others may take the processor meanwhile
            for (std::uint64_t seed = 0; seed < 8; ++seed) {
                QElapsedTimer timer;
                timer.start();
                (void)sampler.sample(values, params, {}, seed);
                best = std::min(best, static_cast<double>(timer.nsecsElapsed()) / 1e6);
            }
            return best;
        };
        const double greedyMs = perRow(greedy);
        const double usualMs = perRow(usual);
        const double nucleusMs = perRow(nucleus);
        const double allMs = perRow(off());
        qInfo("ms per row of 256,000: argmax %.3f, top_k 40 %.3f, top_p 0.9 %.3f, no cut %.3f", greedyMs, usualMs,
              nucleusMs, allMs);
        QVERIFY(greedyMs < 20 && usualMs < 40 && nucleusMs < 400 && allMs < 400); // an order above the real figures
    }

    /// Only allowed tokens are drawn, as if the others were impossible; log-probabilities stay those of the model.
    void drawsAmongAllowedTokens()
    {
        Sampler sampler;
        std::vector<float> values(130);
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<float>(i % 17) * 0.3F;
        std::vector<std::uint64_t> allowed(3);
        std::vector<float> masked(values.size(), -std::numeric_limits<float>::infinity());
        for (const std::size_t token : {3U, 40U, 64U, 129U}) {
            allowed[token / 64] |= std::uint64_t{1} << (token % 64);
            masked[token] = values[token];
        }
        SamplingParams greedy = off();
        greedy.temperature = 0;
        greedy.logprobs = 1;
        const Sampled best = sampler.sample(values, greedy, {}, 1, allowed);
        QCOMPARE(best.token, 64); // 64 % 17 is 13, the largest of the four
        QCOMPARE(best.top.front().first, 16);
        const double unmasked = sampler.sample(values, greedy, {}, 1).logprob;
        QVERIFY(std::abs(best.logprob - (unmasked - (16 - 13) * 0.3)) < 1e-5);
        for (SamplingParams params : {off(), greedy}) {
            for (const int topK : {0, 2, 100}) {
                params.topK = topK;
                params.repetitionPenalty = 1.3;
                for (std::uint64_t seed = 0; seed < 50; ++seed) {
                    const std::vector<int> history{64, 3};
                    const int token = sampler.sample(values, params, history, seed, allowed).token;
                    QVERIFY((allowed[std::size_t(token) / 64] >> (std::size_t(token) % 64) & 1U) != 0);
                    QCOMPARE(token, sampler.sample(masked, params, history, seed).token);
                }
            }
        }
        const std::vector<std::uint64_t> none(3);
        QVERIFY(!sampler.sample(values, greedy, {}, 1, none).error.empty());
    }

private:
    [[nodiscard]] std::span<const float> logits(std::size_t i) const
    {
        return std::span(m_logits).subspan(i * goldenVocab, goldenVocab);
    }

    std::vector<float> m_logits;
    std::vector<QJsonObject> m_records;
};

QTEST_GUILESS_MAIN(TestSampler)
#include "tst_sampler.moc"
