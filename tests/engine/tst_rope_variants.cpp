// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/scheduler.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <algorithm>
#include <map>

using tiny_model::MemoryCheckpoint;

namespace {

constexpr int blockTokens = 8;
constexpr int original = 20; ///< longer sequences rotate in another way

MemoryCheckpoint longRopeModel()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({}, 11);
    checkpoint.set("llama.rope.scaling.type", std::string("longrope"));
    checkpoint.set("llama.rope.scaling.original_context_length", std::int64_t{original});
    checkpoint.set("llama.rope.scaling.short_factors", std::vector<double>{1.0, 1.1, 1.3, 1.5});
    checkpoint.set("llama.rope.scaling.long_factors", std::vector<double>{1.0, 3.0, 5.0, 9.0});
    return checkpoint;
}

MemoryCheckpoint dynamicModel()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({}, 12);
    checkpoint.set("llama.rope.scaling.type", std::string("dynamic"));
    checkpoint.set("llama.rope.scaling.factor", 4.0);
    checkpoint.set("llama.rope.scaling.original_context_length", std::int64_t{original});
    return checkpoint;
}

int best(std::span<const float> row)
{
    return static_cast<int>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// Greedy tokens by computing the whole sequence anew for each, as the definition has it.
std::vector<int> byFullRecomputation(engine::ModelRunner &runner, std::vector<int> ids, int count)
{
    const auto vocab = static_cast<std::size_t>(runner.vocabSize());
    std::vector<int> output;
    for (int i = 0; i < count; ++i) {
        const std::vector<float> logits = tiny_model::allLogits(runner, ids, 0, blockTokens);
        output.push_back(best(std::span(logits).last(vocab)));
        ids.push_back(output.back());
    }
    return output;
}

/// The same through the scheduler, all prompts at once.
std::map<int, std::vector<int>> served(engine::ModelRunner &runner, const std::vector<std::vector<int>> &prompts,
                                       int count, int maxBatchedTokens)
{
    engine::Scheduler::Config config;
    config.limits = {8, maxBatchedTokens};
    config.maxModelLen = 200;
    config.kv.numBlocks = 64;
    config.kv.blockTokens = blockTokens;
    config.variants = runner.ropeVariants();
    engine::Scheduler scheduler(config);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        engine::Sequence sequence;
        sequence.id = i + 1;
        sequence.tokens = prompts[i];
        sequence.promptTokens = static_cast<int>(prompts[i].size());
        sequence.maxTokens = count;
        scheduler.add(std::move(sequence));
    }
    std::map<int, std::vector<int>> outputs;
    for (double now = 0; !scheduler.idle(); now += 1) {
        const engine::Batch batch = scheduler.schedule(now);
        if (batch.empty())
            qFatal("nothing runs although requests wait");
        const kernels::TensorView logits = runner.run(batch);
        std::vector<engine::RowResult> results;
        for (std::int64_t row = 0; row < logits.shape[0]; ++row)
            results.push_back({best({logits.as<const float>() + row * logits.strides[0],
                                     static_cast<std::size_t>(runner.vocabSize())}),
                               false,
                               {},
                               {}});
        for (const auto &output : scheduler.commit(batch, results, now).outputs)
            outputs[static_cast<int>(output.id)].push_back(output.token);
    }
    return outputs;
}

} // namespace

/// Sequences that grow beyond the length up to which their rotary table holds.
class RopeVariantsTest : public QObject {
    Q_OBJECT
private slots:
    void variantsByLength();
    void servingEqualsFullRecomputation_data();
    void servingEqualsFullRecomputation();
};

void RopeVariantsTest::variantsByLength()
{
    engine::RopeConfig rope;
    QCOMPARE(engine::ropeVariants(rope).of(1 << 20), 0);
    rope.originalContext = 64;
    rope.scaling = engine::RopeScaling::LongRope;
    QCOMPARE(engine::ropeVariants(rope).of(64), 0);
    QCOMPARE(engine::ropeVariants(rope).of(65), 1);
    QCOMPARE(engine::ropeVariants(rope).of(1000), 1);
    rope.scaling = engine::RopeScaling::Dynamic;
    QCOMPARE(engine::ropeVariants(rope).of(64), 0);
    QCOMPARE(engine::ropeVariants(rope).of(65), 1);
    QCOMPARE(engine::ropeVariants(rope).of(100), 36);
}

void RopeVariantsTest::servingEqualsFullRecomputation_data()
{
    QTest::addColumn<bool>("dynamic");
    QTest::addColumn<int>("maxBatchedTokens");
    QTest::newRow("longrope") << false << 512;
    QTest::newRow("longrope, chunks") << false << 9;
    QTest::newRow("dynamic") << true << 512;
    QTest::newRow("dynamic, chunks") << true << 9;
}

void RopeVariantsTest::servingEqualsFullRecomputation()
{
    QFETCH(bool, dynamic);
    QFETCH(int, maxBatchedTokens);
    const MemoryCheckpoint checkpoint = dynamic ? dynamicModel() : longRopeModel();
    auto runner = tiny_model::makeRunner(checkpoint, {.reference = true, .threads = 1});
    constexpr int count = 14;
    std::vector<std::vector<int>> prompts(4);
    for (int i = 0; i < 33; ++i) {
        const int id = (i * 13 + 5) % 40;
        prompts[0].push_back(id); // long from the beginning
        if (i < 16)
            prompts[1].push_back(id); // crosses
        if (i < 3)
            prompts[2].push_back(id); // stays short
        if (i < 20)
            prompts[3].push_back(39 - id); // crosses with the first token
    }
    std::vector<std::vector<int>> wanted;
    runner->resizeKv({64, blockTokens});
    for (const std::vector<int> &prompt : prompts)
        wanted.push_back(byFullRecomputation(*runner, prompt, count));
    runner->resizeKv({64, blockTokens});
    const auto outputs = served(*runner, prompts, count, maxBatchedTokens);
    for (std::size_t i = 0; i < prompts.size(); ++i)
        QCOMPARE(outputs.at(static_cast<int>(i) + 1), wanted[i]);
    // The table matters here: without variants the answers are others.
    engine::Batch plain = tiny_model::makeBatch({{prompts[0], 0, {0, 1, 2, 3, 4}}}, blockTokens);
    const kernels::TensorView first = runner->run(plain);
    const std::vector<float> shortTable(first.as<float>(), first.as<float>() + first.elements());
    QVERIFY(tiny_model::compare(tiny_model::allLogits(*runner, prompts[0], 0, blockTokens), shortTable).maxAbs > 1e-3);
}

QTEST_GUILESS_MAIN(RopeVariantsTest)
#include "tst_rope_variants.moc"
