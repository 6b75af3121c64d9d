// SPDX-License-Identifier: GPL-3.0-or-later
// Sampling in the emulator gives the tokens, log-probabilities and complaints of engine::Sampler.
#include "engine/runtime/random.h"
#include "engine/runtime/sampler.h"
#include "kernels/cuda/launch_sampling.h"
#include "tests/cuda/device_rig.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <cmath>
#include <limits>
#include <random>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::DeviceArray;
using device_rig::Rows;
using engine::SamplingParams;

namespace {

constexpr int mostAlternatives = 25;
constexpr float inf = std::numeric_limits<float>::infinity();

struct Case {
    std::vector<float> logits;
    SamplingParams params;
    std::vector<int> history;
    std::uint64_t seed = 1;
    std::vector<std::uint64_t> allowed;
    std::uint64_t skipped = 0; ///< positions before the history
};

/// Rows of one step on the device.
class Step {
public:
    explicit Step(const std::vector<Case> &cases)
        : m_vocab(static_cast<int>(cases[0].logits.size()))
    {
        for (const Case &one : cases) {
            SamplingRow row;
            row.logitRow = static_cast<int>(m_rows.size());
            row.temperature = one.params.temperature;
            row.topP = one.params.topP;
            row.minP = one.params.minP;
            row.repetitionPenalty = one.params.repetitionPenalty;
            row.presencePenalty = one.params.presencePenalty;
            row.frequencyPenalty = one.params.frequencyPenalty;
            row.seed = one.seed;
            row.position = one.skipped + one.history.size();
            row.topK = one.params.topK;
            row.firstHistory = static_cast<int>(m_history.size());
            row.historyCount = static_cast<int>(one.history.size());
            row.firstBias = static_cast<int>(m_biases.size());
            row.biasCount = static_cast<int>(one.params.logitBias.size());
            row.alternatives = one.params.logprobs;
            if (!one.allowed.empty()) {
                const std::size_t words = (static_cast<std::size_t>(m_vocab) + 63) / 64;
                row.allowedRow = static_cast<int>(m_allowed.size() / words);
                m_allowed.insert(m_allowed.end(), one.allowed.begin(), one.allowed.end());
            }
            for (const engine::LogitBias &bias : one.params.logitBias)
                m_biases.push_back({bias.token, static_cast<float>(bias.bias)});
            m_history.insert(m_history.end(), one.history.begin(), one.history.end());
            m_logits.insert(m_logits.end(), one.logits.begin(), one.logits.end());
            m_rows.push_back(row);
        }
    }

    /// What is wrong, or nothing; then `sampled` and `alternatives` hold the results.
    std::string run(int scratchRows, StreamHandle stream)
    {
        const Rows logits(static_cast<int>(m_rows.size()), m_vocab, m_logits);
        const DeviceArray<SamplingRow> rows(m_rows);
        const DeviceArray<int> history(m_history);
        const DeviceArray<SamplingBias> biases(m_biases);
        const DeviceArray<std::uint64_t> allowed(m_allowed);
        const DeviceArray<std::byte> memory(samplingScratchBytes(scratchRows, m_vocab));
        const DeviceArray<SampledRow> out(m_rows.size());
        const DeviceArray<Alternative> best(m_rows.size() * mostAlternatives);
        launchSample({logits.span(), rows.data(), static_cast<int>(m_rows.size()), history.data(), biases.data(),
                      allowed.data()},
                     {memory.data(), scratchRows}, out.data(), best.data(), mostAlternatives, stream);
        sampled.assign(out.data(), out.data() + out.size());
        alternatives.assign(best.data(), best.data() + best.size());
        const bool intact = logits.restIntact() && logits.values().size() == m_logits.size() && rows.bordersIntact()
            && history.equals(m_history) && allowed.equals(m_allowed) && memory.bordersIntact() && out.bordersIntact()
            && best.bordersIntact();
        return intact ? "" : "something was written outside of the results";
    }

    std::vector<SampledRow> sampled;
    std::vector<Alternative> alternatives;

private:
    int m_vocab;
    std::vector<SamplingRow> m_rows;
    std::vector<int> m_history;
    std::vector<SamplingBias> m_biases;
    std::vector<std::uint64_t> m_allowed;
    std::vector<float> m_logits;
};

SamplingFault faultOf(const std::string &error)
{
    const auto says = [&](const char *what) { return error.find(what) != std::string::npos; };
    if (error.empty())
        return SamplingFault::None;
    if (says("not-a-number"))
        return SamplingFault::NotANumber;
    if (says("+infinity"))
        return SamplingFault::Infinity;
    return says("-infinity") ? SamplingFault::NothingFinite : SamplingFault::NothingAllowed;
}

/// Log-probabilities differ in the order of one sum.
bool close(double a, double b)
{
    return a == b || std::abs(a - b) <= 1e-12 * std::max(1.0, std::abs(b));
}

std::string compare(const Case &one, const engine::Sampled &wanted, const SampledRow &found,
                    const Alternative *alternatives)
{
    if (found.fault != faultOf(wanted.error))
        return "fault " + std::to_string(static_cast<int>(found.fault)) + ", the host says: " + wanted.error;
    if (found.fault != SamplingFault::None)
        return {};
    if (found.token != wanted.token)
        return "token " + std::to_string(found.token) + ", wanted " + std::to_string(wanted.token);
    if (one.params.logprobs >= 0 && !close(found.logprob, wanted.logprob))
        return "log-probability " + std::to_string(found.logprob) + ", wanted " + std::to_string(wanted.logprob);
    for (std::size_t i = 0; i < wanted.top.size(); ++i)
        if (alternatives[i].token != wanted.top[i].first || !close(alternatives[i].logprob, wanted.top[i].second))
            return "alternative " + std::to_string(i) + " is token " + std::to_string(alternatives[i].token)
                + ", wanted " + std::to_string(wanted.top[i].first);
    return {};
}

std::string check(const std::vector<Case> &cases, int scratchRows = 3)
{
    engine::Sampler sampler;
    std::vector<engine::Sampled> wanted;
    for (const Case &one : cases)
        wanted.push_back(sampler.sample(one.logits, one.params, one.history, one.seed, one.allowed));
    return device_rig::underSchedules([&](StreamHandle stream) {
        Step step(cases);
        std::string wrong = step.run(scratchRows, stream);
        for (std::size_t i = 0; i < cases.size() && wrong.empty(); ++i) {
            wrong = compare(cases[i], wanted[i], step.sampled[i], step.alternatives.data() + i * mostAlternatives);
            if (!wrong.empty())
                wrong = "row " + std::to_string(i) + ": " + wrong;
        }
        return wrong;
    });
}

/// Logits as models have them: a bulk, and a few far above it.
std::vector<float> logitsOf(int vocab, std::uint32_t seed, float spread)
{
    std::mt19937 random(seed);
    std::normal_distribution<float> bulk(0.0F, spread);
    std::vector<float> logits(static_cast<std::size_t>(vocab));
    for (float &logit : logits)
        logit = bulk(random) + (random() % 50 == 0 ? 4.0F * spread : 0.0F);
    return logits;
}

int seeds()
{
    return device_rig::smallOnly() ? 2 : shared_data::fullTier() && !device_rig::thinned() ? 100 : 8;
}

std::vector<Case> casesOf(int vocab, float spread, const SamplingParams &params)
{
    std::vector<Case> cases;
    for (int seed = 0; seed < seeds(); ++seed) {
        Case one;
        one.logits = logitsOf(vocab, static_cast<std::uint32_t>(seed), spread);
        one.params = params;
        one.seed = 0x123456789abcdefULL * static_cast<std::uint64_t>(seed + 1);
        for (int i = 0; i < seed % 7 * 5; ++i)
            one.history.push_back((i * 31 + seed) % 13 % vocab);
        cases.push_back(std::move(one));
    }
    return cases;
}

} // namespace

class TestCudaSampling : public QObject {
    Q_OBJECT

private slots:
    void tokens_data();
    void tokens();
    void penalties();
    void ties();
    void extremes();
    void masksAndBiases();
    void latePositions();
    void faults();
    void logprobs();
    void rowsDoNotDependOnNeighbours();
};

void TestCudaSampling::tokens_data()
{
    QTest::addColumn<int>("vocab");
    QTest::addColumn<float>("spread");
    QTest::addColumn<int>("topK");
    QTest::addColumn<double>("topP");
    QTest::addColumn<double>("minP");
    QTest::addColumn<double>("temperature");
    const auto add = [](int vocab, float spread, int topK, double topP, double minP, double temperature) {
        QTest::addRow("%d of spread %g, k %d, p %g, min %g, t %g", vocab, static_cast<double>(spread), topK, topP, minP,
                      temperature)
            << vocab << spread << topK << topP << minP << temperature;
    };
    add(300, 2.0F, 40, 0.95, 0.0, 0.8);
    if (device_rig::smallOnly())
        return;
    add(300, 2.0F, 0, 1.0, 0.0, 0.0);
    add(1, 2.0F, 40, 0.95, 0.05, 0.8);
    add(7, 1.0F, 40, 0.95, 0.05, 1.5);
    add(3000, 3.0F, 0, 1.0, 0.0, 1.0);
    add(3000, 0.3F, 0, 1.0, 0.0, 2.0);  // almost flat: the last round is the whole vocabulary
    add(3000, 0.5F, 0, 0.99, 0.0, 1.0); // more than a round
    add(3000, 2.0F, 0, 0.9, 0.1, 0.7);
    add(3000, 2.0F, 0, 1.0, 0.02, 1.3);
    add(3000, 0.2F, 0, 1.0, 0.001, 1.0); // all of them are likely enough
    add(3000, 2.0F, 1500, 0.999, 0.0001, 1.0);
    add(3000, 2.0F, 3000, 1.0, 0.0, 1.0);
    add(2049, 2.0F, 1, 1.0, 0.0, 1.0);
    add(2049, 2.0F, 2, 0.5, 0.5, 1.0);
    add(2049, 30.0F, 100, 0.95, 0.0, 50.0); // most of it far below the peak
    add(257, 2.0F, 20, 0.9, 0.0, 1e-6);
    add(257, 2.0F, 20, 1e-9, 0.0, 1.0);
    add(257, 2.0F, 20, 0.9, 1.0, 1.0);
}

void TestCudaSampling::tokens()
{
    QFETCH(int, vocab);
    QFETCH(float, spread);
    QFETCH(int, topK);
    QFETCH(double, topP);
    QFETCH(double, minP);
    QFETCH(double, temperature);
    SamplingParams params;
    params.topK = topK;
    params.topP = topP;
    params.minP = minP;
    params.temperature = temperature;
    const std::string wrong = check(casesOf(vocab, spread, params));
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// In half of the cases all logits are negative, so that what a penalty does to those decides.
void TestCudaSampling::penalties()
{
    const auto cases = [](const SamplingParams &params) {
        std::vector<Case> all = casesOf(30, 1.0F, params);
        for (std::size_t i = 1; i < all.size(); i += 2)
            for (float &logit : all[i].logits)
                logit -= 12.0F;
        return all;
    };
    for (const double temperature : {0.0, 0.9}) {
        SamplingParams params;
        params.temperature = temperature;
        params.repetitionPenalty = 1.3;
        params.presencePenalty = 0.4;
        params.frequencyPenalty = -0.9;
        params.topK = 12;
        std::string wrong = check(cases(params));
        if (device_rig::smallOnly() && wrong.empty())
            return; // one way through penalties
        params.topP = 1.0;
        params.topK = 0;
        if (wrong.empty())
            wrong = check(cases(params));
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

/// Equal logits go by id, in every list and for the largest.
void TestCudaSampling::ties()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    SamplingParams params;
    std::vector<Case> cases;
    for (const auto &[topK, topP, minP, temperature] : {std::tuple{5, 1.0, 0.0, 1.0},
                                                        {0, 0.5, 0.0, 1.0},
                                                        {0, 1.0, 1.0, 1.0},
                                                        {0, 1.0, 0.0, 1.0},
                                                        {0, 1.0, 0.0, 0.0},
                                                        {7, 0.5, 0.5, 1.0}}) {
        for (std::uint64_t seed = 0; seed < 4U; ++seed) {
            Case one;
            one.logits.assign(600, 1.0F);
            for (std::size_t i = 0; i < 600; i += 1 + seed)
                one.logits[i] = i % 7 < 3 ? 3.0F : -0.0F;
            one.params.topK = topK;
            one.params.topP = topP;
            one.params.minP = minP;
            one.params.temperature = temperature;
            one.seed = seed + 77;
            cases.push_back(one);
        }
    }
    const std::string wrong = check(cases);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Logits at the ends of float, temperatures at the ends of what is allowed.
void TestCudaSampling::extremes()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    std::vector<Case> cases;
    for (const double temperature : {1e-300, 1e-3, 1.0, 1e6}) {
        for (const int topK : {0, 3}) {
            Case one;
            one.logits = {3e38F, -3e38F, 1.0F, -inf, 2.9e38F, 0.0F, -inf, 1e-38F};
            one.params.temperature = temperature;
            one.params.topK = topK;
            one.params.topP = 1.0;
            cases.push_back(one);
            one.logits = {-3e38F, -inf, -3e38F, -inf, -inf, -inf, -inf, -inf};
            cases.push_back(one);
            one.logits = {5.0F, -1e30F, 4.0F, 3.0F, -inf, 2.0F, 1.0F, 0.0F};
            one.params.minP = 0.01;
            cases.push_back(one);
        }
    }
    const std::string wrong = check(cases);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaSampling::masksAndBiases()
{
    std::vector<Case> cases;
    for (std::uint64_t seed = 0; seed < (device_rig::smallOnly() ? 2U : 10U); ++seed) {
        Case one;
        one.logits = logitsOf(200, static_cast<std::uint32_t>(seed), 2.0F);
        one.seed = seed;
        one.params.temperature = seed % 3 == 0 ? 0.0 : 1.0;
        one.params.topK = seed % 2 == 0 ? 40 : 0;
        one.params.repetitionPenalty = 1.1;
        one.history = {3, 3, 199, 64};
        one.params.logitBias = {{3, 6.5}, {3, -1.25}, {70, -100.0}, {-1, 5.0}, {200, 5.0}};
        if (seed % 4 != 1) {
            one.allowed.assign(4, 0);
            one.allowed[0] = seed % 4 == 2 ? 0x8000000000000000ULL : 0x8000000000000008ULL; // with or without the best
            one.allowed[3] = seed % 4 == 2 ? 0x80U : 0x1U;
        }
        cases.push_back(one);
    }
    const std::string wrong = check(cases);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// With equal logits and nothing cut, the token is the place of the random number among all.
void TestCudaSampling::latePositions()
{
    std::vector<Case> cases;
    for (const std::uint64_t position : {0ULL, 1ULL << 32, (1ULL << 40) + 3, ~0ULL}) {
        Case one;
        one.logits.assign(64, 1.0F);
        one.params.topP = 1.0;
        one.params.topK = 0;
        one.seed = 9;
        one.skipped = position;
        cases.push_back(one);
    }
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        Step step(cases);
        std::string error = step.run(3, stream);
        for (std::size_t i = 0; i < cases.size() && error.empty(); ++i) {
            const double u = engine::CounterRandom::uniform(9, cases[i].skipped);
            if (step.sampled[i].token != static_cast<int>(u * 64))
                error = "position " + std::to_string(cases[i].skipped) + ": token "
                    + std::to_string(step.sampled[i].token) + ", wanted " + std::to_string(u * 64);
        }
        return error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaSampling::faults()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    const float nan = std::nanf("");
    std::vector<Case> cases;
    for (const double temperature : {0.0, 1.0}) {
        Case one;
        one.params.temperature = temperature;
        one.params.logprobs = 2;
        for (const std::vector<float> &logits : {std::vector<float>{1, 2, nan, 3, inf},
                                                 {1, inf, 2, nan, 3},
                                                 {-inf, -inf, -inf, -inf, -inf},
                                                 {1, 2, 3, 4, 5},
                                                 {nan, nan, nan, nan, nan}}) {
            one.logits = logits;
            cases.push_back(one);
        }
        one.logits = {1, -inf, 2, 3, 4};
        one.allowed = {0x2U};
        cases.push_back(one);
    }
    const std::string wrong = check(cases);
    QVERIFY2(wrong.empty(), wrong.c_str());
    const std::string places = device_rig::underSchedules([&](StreamHandle stream) {
        Step step(cases);
        const std::string error = step.run(2, stream);
        return step.sampled[0].at == 2 && step.sampled[1].at == 1 ? error : "the first logit at fault is another";
    });
    QVERIFY2(places.empty(), places.c_str());
}

void TestCudaSampling::logprobs()
{
    for (const int alternatives : {20, 1, 0}) {
        if (device_rig::smallOnly() && alternatives < 20)
            return;
        SamplingParams params;
        params.logprobs = alternatives;
        params.repetitionPenalty = 1.5;
        const std::string wrong = check(casesOf(device_rig::smallOnly() ? 40 : 1500, 1.0F, params));
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

void TestCudaSampling::rowsDoNotDependOnNeighbours()
{
    if (device_rig::smallOnly())
        return; // other values on the same ways
    SamplingParams params;
    params.logprobs = 3;
    std::vector<Case> cases = casesOf(100, 1.0F, params);
    cases.resize(2);
    cases[1].params.topK = 0;
    cases[1].params.topP = 1.0;
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        Step both(cases);
        std::string error = both.run(2, stream);
        for (std::size_t i = 0; i < 2 && error.empty(); ++i) {
            Step alone({cases[i]});
            error = alone.run(1, stream);
            if (alone.sampled[0].token != both.sampled[i].token || alone.sampled[0].logprob != both.sampled[i].logprob)
                error = "row " + std::to_string(i) + " differs when it is alone";
        }
        return error;
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

QTEST_GUILESS_MAIN(TestCudaSampling)
#include "tst_cuda_sampling.moc"
