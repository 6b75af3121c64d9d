// SPDX-License-Identifier: GPL-3.0-or-later
// Decode steps that are captured: the same launches in every step of a shape, and the same bits as without.
#include "engine/api/engine.h"
#include "kernels/cuda/runtime_simt.h"
#include "tests/cuda/simt_models.h"
#include "tests/cuda/watched_runtime.h"
#include "tests/support/engine_driver.h"

#include <QtTest>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

using namespace simt_models;

namespace {

using Call = WatchedRuntime::Call;

/// A device whose calls are counted, and its graphs kept in the words of the emulator.
struct Watched {
    std::unique_ptr<kernels::Ops> ops()
    {
        WatchedRuntime::Watch watch;
        watch.before = [this](Call call) { ++calls[call]; };
        watch.made = [this](const kernels::cuda::Graph &graph) {
            graphs.push_back(dynamic_cast<const kernels::cuda::SimtGraph &>(graph).nodes());
        };
        return kernels::cuda::makeCudaOps(
            std::make_unique<WatchedRuntime>(kernels::cuda::makeSimtRuntime({}), std::move(watch)));
    }

    std::map<Call, int> calls;
    std::vector<std::vector<kernels::cuda::SimtGraph::Node>> graphs;
};

/// What is different in the launches of two captured steps, or nothing.
std::string difference(const std::vector<kernels::cuda::SimtGraph::Node> &one,
                       const std::vector<kernels::cuda::SimtGraph::Node> &other)
{
    if (one.size() != other.size())
        return std::to_string(one.size()) + " launches, then " + std::to_string(other.size());
    const auto same = [](const dim3 &a, const dim3 &b) { return a.x == b.x && a.y == b.y && a.z == b.z; };
    for (std::size_t i = 0; i < one.size(); ++i) {
        const std::string name = "launch " + std::to_string(i) + " of " + std::to_string(one.size());
        if (one[i].launches.size() != 1 || other[i].launches.size() != 1)
            return name + " is a copy";
        const simt::Launch &a = one[i].launches[0];
        const simt::Launch &b = other[i].launches[0];
        if (a.kernel != b.kernel || !same(a.grid, b.grid) || !same(a.block, b.block) || a.sharedBytes != b.sharedBytes)
            return name + " has another kernel or shape";
        const auto [x, y] = std::ranges::mismatch(a.arguments, b.arguments);
        if (x != a.arguments.end() || y != b.arguments.end())
            return name + " has another argument at byte " + std::to_string(x - a.arguments.begin());
    }
    return {};
}

constexpr int firstPosition = 254; // steps go over the border of a block and of a split
constexpr int decodeSteps = 4;
constexpr int sequenceBlocks = 17;
constexpr engine::KvSizes pool{6 * sequenceBlocks, blockTokens};

/// Logits of decode steps of some sequences, whose keys before the first step are those of a new pool.
Logits decode(Rig &rig, int sequences, const std::function<void()> &afterStep = {})
{
    std::vector<tiny_model::Piece> pieces(static_cast<std::size_t>(sequences));
    for (int s = 0; s < sequences; ++s)
        for (int i = 0; i < sequenceBlocks; ++i)
            pieces[static_cast<std::size_t>(s)].blocks.push_back((s + 1) * sequenceBlocks - 1 - i);
    Logits all;
    for (int step = 0; step < decodeSteps; ++step) {
        for (int s = 0; s < sequences; ++s) {
            tiny_model::Piece &piece = pieces[static_cast<std::size_t>(s)];
            piece.ids = {5 + (7 * step + 11 * s) % 80};
            piece.first = firstPosition + step;
        }
        const kernels::TensorView logits = rig.runner->run(tiny_model::makeBatch(pieces, blockTokens));
        all.insert(all.end(), logits.as<float>(), logits.as<float>() + logits.elements());
        if (afterStep)
            afterStep();
    }
    return all;
}

/// A model without graphs, whose steps nothing fills up.
std::unique_ptr<Rig> plainRig(const QString &folder)
{
    auto rig = std::make_unique<Rig>(folder);
    (void)rig->runner->setGraphs(false);
    rig->runner->resizeKv(pool);
    return rig;
}

} // namespace

class SimtGraphsTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void stepsOfOneShapeAreTheSameLaunches_data() { addModels(); }
    void stepsOfOneShapeAreTheSameLaunches();
    void graphsChangeNoBit_data() { addModels(); }
    void graphsChangeNoBit();
    void answersAreTheSameWithoutGraphs_data() { addServedModels(); }
    void answersAreTheSameWithoutGraphs();
    void fillingRowsAreStoredNowhere();
    void graphsEndWithTheirMemory();
    void stepsAllocateNothing();
    void variantsAllocateNothing();
};

void SimtGraphsTest::initTestCase()
{
#if defined(__SANITIZE_THREAD__)
    QSKIP("whole models take minutes under TSan; each kernel has a test of its own there");
#endif
}

/// Through the whole engine, with windows and draws: requests that come and go, so that steps change their shape.
void SimtGraphsTest::answersAreTheSameWithoutGraphs()
{
    QFETCH(QString, folder);
    std::vector<std::vector<int>> answers[2];
    for (const bool graphs : {false, true}) {
        const std::unique_ptr<engine::Engine> simt = engine::makeEngine();
        EngineDriver driver(*simt);
        engine::EngineConfig config;
        config.device = "simt";
        config.cudaGraphs = graphs;
        config.maxModelLen = 64;
        config.kv.numBlocks = 32;
        config.kv.blockTokens = 8;
        config.limits = {4, 16};
        QVERIFY(driver.load(modelOf(folder), config));
        QCOMPARE(driver.applied.empty() || driver.applied.back().effective.cudaGraphs == graphs, true);
        std::vector<engine::Request> requests(3);
        for (std::size_t i = 0; i < requests.size(); ++i) {
            requests[i].ids = std::vector<int>{5, static_cast<int>(i) + 7, 9, 11, 13, 4, 6};
            requests[i].sampling.seed = i;
            requests[i].sampling.maxTokens = 3 + 2 * static_cast<int>(i);
            requests[i].sampling.temperature = i == 0 ? 0.0 : 1.0;
            requests[i].sampling.repetitionPenalty = i == 1 ? 1.3 : 1.0;
            requests[i].sampling.ignoreEos = true;
        }
        const std::vector<engine::RequestId> ids = simt->submitAll(requests);
        QVERIFY(driver.finish(ids));
        for (const engine::RequestId id : ids) {
            const EngineDriver::Answer &answer = driver.answers.at(id);
            QCOMPARE(answer.finished->error, std::string());
            answers[graphs ? 1 : 0].push_back(answer.ids);
        }
        QVERIFY(driver.notices.empty());
    }
    QCOMPARE(answers[1], answers[0]);
    QCOMPARE(answers[0][2].size(), std::size_t{7});
}

void SimtGraphsTest::stepsAllocateNothing()
{
    Watched watched;
    Rig rig(shared_data::data(QStringLiteral("tiny-llama")), watched.ops());
    const int before = watched.calls[Call::Allocate];
    QVERIFY(before > 0);
    const std::vector<int> &ids = rig.golden.prompts[1];
    const Logits first = rig.logitsOf(ids);
    QCOMPARE(rig.logitsOf(ids, 5), first);
    QCOMPARE(rig.logitsOf(ids, 1), first); // captured
    QVERIFY(!watched.graphs.empty());
    engine::SamplingParams params;
    params.repetitionPenalty = 1.2;
    params.logprobs = 20;
    engine::SamplingRequests requests;
    requests.clear(static_cast<int>(rig.golden.vocab()));
    const std::vector<std::uint64_t> allowed((rig.golden.vocab() + 63) / 64, ~std::uint64_t{0});
    for (int row = 0; row < 3; ++row)
        requests.add(row, params, ids, 1, allowed);
    QCOMPARE(rig.runner->runAndSample(tiny_model::makeBatch({{ids, 0, {9, 8}}}, blockTokens), requests).size(),
             std::size_t{3});
    QCOMPARE(watched.calls[Call::Allocate], before);
}

/// Steps whose sequences have tables of positions of their own, as many as fit.
void SimtGraphsTest::variantsAllocateNothing()
{
    for (const char *scaling : {"dynamic", "longrope"}) {
        tiny_model::MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
        checkpoint.set("llama.rope.scaling.type", std::string(scaling));
        checkpoint.set("llama.rope.scaling.factor", 2.0);
        checkpoint.set("llama.rope.scaling.original_context_length", std::int64_t{8});
        if (scaling == std::string("longrope")) {
            checkpoint.setTensor("rope_factors_short.weight", {4}, {1.0F, 1.1F, 1.2F, 1.3F});
            checkpoint.setTensor("rope_factors_long.weight", {4}, {2.0F, 2.1F, 2.2F, 2.3F});
        }
        Watched watched;
        constexpr int sequences = 6;
        const auto runner = tiny_model::makeRunner(checkpoint, watched.ops(), kernels::DType::F16, sequences);
        runner->resizeKv({16, blockTokens});
        const engine::RopeVariants variants = runner->ropeVariants();
        QCOMPARE(variants.switchLength, 8);
        const int before = watched.calls[Call::Allocate];
        std::vector<tiny_model::Piece> pieces;
        std::vector<int> ofSequences;
        for (int s = 0; s < sequences; ++s) {
            pieces.push_back({{3 + s}, 0, {s}});
            ofSequences.push_back(variants.of(8 + (variants.perLength ? s : s % 2)));
        }
        engine::Batch batch = tiny_model::makeBatch(pieces, blockTokens);
        batch.forward.ropeVariants = ofSequences;
        (void)runner->run(batch);
        QCOMPARE(watched.calls[Call::Allocate], before);
    }
}

/// A step of one shape is the same launches with the same arguments as the one before: only memory differs.
void SimtGraphsTest::stepsOfOneShapeAreTheSameLaunches()
{
    QFETCH(QString, folder);
    Watched watched;
    Rig rig(folder, watched.ops());
    rig.runner->resizeKv(pool);
    (void)decode(rig, 3, [&] {
        (void)rig.runner->setGraphs(true); // captured anew
    });
    QCOMPARE(watched.graphs.size(), std::size_t{decodeSteps});
    QCOMPARE(watched.calls[Call::LaunchGraph], 0);
    QVERIFY(watched.graphs[0].size() > 20);
    for (const auto &graph : watched.graphs)
        QCOMPARE(difference(watched.graphs[0], graph), std::string());
#if defined(__GNUC__) && !defined(__clang__)
    QVERIFY(!watched.graphs[0][0].launches[0].arguments.empty());
#endif
}

/// Launches of the first step, run again with what is in memory by then, give the bits of steps without graphs.
void SimtGraphsTest::graphsChangeNoBit()
{
    QFETCH(QString, folder);
    Watched watched;
    Rig rig(folder, watched.ops());
    const std::vector<int> counts = shared_data::fullTier() ? std::vector{3, 1, 4, 6} : std::vector{3};
    for (const int sequences : counts) {
        const int replayed = watched.calls[Call::LaunchGraph];
        const std::size_t captured = watched.graphs.size();
        rig.runner->resizeKv(pool);
        const Logits found = decode(rig, sequences);
        QCOMPARE(watched.graphs.size(), captured + 1);
        QCOMPARE(watched.calls[Call::LaunchGraph], replayed + decodeSteps - 1);
        QCOMPARE(found, decode(*plainRig(folder), sequences));
    }
}

/// Rows that fill a step up leave the pool alone.
void SimtGraphsTest::fillingRowsAreStoredNowhere()
{
    const QString folder = shared_data::data(QStringLiteral("tiny-llama"));
    const auto poolAfter = [](Rig &rig) {
        (void)decode(rig, 3);
        std::vector<std::byte> bytes;
        auto kv = rig.runner->makeKv(rig.runner->kvTypes());
        rig.runner->exchangeKv(kv);
        for (int layer = 0; layer < rig.runner->model().config().layers; ++layer) {
            const kernels::KvLayer view = kv->layer(layer);
            for (int block = 0; block < view.blocks; ++block)
                bytes.insert(bytes.end(), view.keys(block, 0), view.keys(block, 0) + view.blockBytes());
        }
        return bytes;
    };
    Rig rig(folder);
    rig.runner->resizeKv(pool);
    QVERIFY(poolAfter(rig) == poolAfter(*plainRig(folder)));
}

/// What was captured knows the pool and the buffers of steps: with others steps are captured anew.
void SimtGraphsTest::graphsEndWithTheirMemory()
{
    const QString folder = shared_data::data(QStringLiteral("tiny-llama"));
    Watched watched;
    Rig rig(folder, watched.ops());
    rig.runner->resizeKv(pool);
    const Logits wanted = decode(rig, 2);
    const auto again = [&] {
        const std::size_t before = watched.graphs.size();
        const bool same = decode(rig, 2) == wanted;
        return same && watched.graphs.size() == before + 1;
    };
    QVERIFY(!again()); // nothing was changed
    rig.runner->resizeKv({pool.blocks + 4, blockTokens});
    QVERIFY(again());
    rig.runner->repageKv({pool.blocks + 8, blockTokens}, std::array{engine::SlotMove{0, 0, 16}});
    QVERIFY(again());
    rig.runner->reserve(maxTokens + 8, maxTokens + 8);
    QVERIFY(again());
    auto other = rig.runner->makeKv(rig.runner->kvTypes());
    rig.runner->exchangeKv(other);
    QVERIFY(again());
    rig.runner->exchangeKv(other);
    QVERIFY(again());
    rig.runner->setRouterCallback([](const engine::RouterChoice &) { });
    const int replayed = watched.calls[Call::LaunchGraph];
    QCOMPARE(decode(rig, 2), wanted);
    QCOMPARE(watched.calls[Call::LaunchGraph], replayed);
}

QTEST_GUILESS_MAIN(SimtGraphsTest)
#include "tst_simt_graphs.moc"
