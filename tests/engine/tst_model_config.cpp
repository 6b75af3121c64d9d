// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/config_reader.h"
#include "engine/models/model_registry.h"
#include "tests/support/tiny_model.h"

#include <QtTest>

#include <array>
#include <cmath>
#include <limits>

using engine::MetadataValue;
using tiny_model::MemoryCheckpoint;

namespace {

using Change = std::function<void(MemoryCheckpoint &)>;

Change set(const char *key, MetadataValue value)
{
    return [key, value](MemoryCheckpoint &checkpoint) { checkpoint.set(std::string("llama.") + key, value); };
}

Change erase(const char *key)
{
    return [key](MemoryCheckpoint &checkpoint) { checkpoint.erase(std::string("llama.") + key); };
}

Change reshape(const char *name, std::vector<std::int64_t> shape)
{
    return [name, shape](MemoryCheckpoint &checkpoint) {
        std::size_t elements = 1;
        for (const std::int64_t size : shape)
            elements *= static_cast<std::size_t>(size);
        checkpoint.setTensor(name, shape, std::vector<float>(elements));
    };
}

/// Reads and checks as loading does; the error's text, or empty.
QString faultOf(const MemoryCheckpoint &checkpoint)
{
    try {
        const engine::ModelFamily &family = engine::familyOf(checkpoint);
        const engine::ModelConfig config = family.readConfig(checkpoint);
        engine::checkTensors(checkpoint, family.tensors(config), config.layers,
                             [](kernels::DType type) { return type != kernels::DType::I32; });
    } catch (const engine::Error &error) {
        return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what())
                                                          : QStringLiteral("wrong code: ") + error.what();
    }
    return {};
}

std::int64_t whole(std::int64_t value)
{
    return value;
}

} // namespace

Q_DECLARE_METATYPE(Change)

class ModelConfigTest : public QObject {
    Q_OBJECT
private slots:
    void readsValues();
    void defaults();
    void perLayerArrays();
    void refuses_data();
    void refuses();
    void unknownArchitecture();
    void everyFamilyHasDistinctNames();
    void unusedTensorsAreNamed();
    void plainAndLinearRope();
    void llama3Rope();
    void yarnRope();
    void yarnRopeWithoutTruncation();
    void llama3RopeByKeys();
    void dynamicRope();
    void longRopeByKeysAndByTensors();
    void windowsAndTheirRope();
    void severalWindowsAreKeptAsOne();
    void zerosAndOldKeys();
    void layersWithoutRotation();
    void biasesOfOneLayerAreWantedOfAll();
};

void ModelConfigTest::readsValues()
{
    tiny_model::Sizes sizes;
    sizes.biases = true;
    sizes.tied = false;
    MemoryCheckpoint checkpoint = tiny_model::makeLlama(sizes);
    QCOMPARE(faultOf(checkpoint), QString());
    const engine::ModelConfig config = engine::familyOf(checkpoint).readConfig(checkpoint);
    QCOMPARE(config.architecture, std::string("llama"));
    QCOMPARE(config.name, std::string("tiny"));
    QCOMPARE(config.layers, 2);
    QCOMPARE(config.hidden, 32);
    QCOMPARE(config.headDim, 8);
    QCOMPARE(config.vocab, 40);
    QCOMPARE(config.contextLength, 256);
    QCOMPARE(config.layer.size(), std::size_t{2});
    QCOMPARE(config.layer[1].heads, 4);
    QCOMPARE(config.layer[1].kvHeads, 2);
    QCOMPARE(config.layer[1].intermediate, 48);
    QCOMPARE(config.normEpsilon, 1e-5F);
    QVERIFY(config.attentionBias && config.outputBias && !config.tiedHead);
    const engine::KvShape shape = config.kvShape(32, {kernels::DType::BF16, kernels::DType::BF16});
    QCOMPARE(shape.bytesPerBlock(), std::size_t{2 * 2 * 2 * 32 * 8 * 2});
}

void ModelConfigTest::defaults()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.erase("llama.attention.key_length");
    checkpoint.erase("llama.rope.freq_base");
    const engine::ModelConfig config = engine::familyOf(checkpoint).readConfig(checkpoint);
    QCOMPARE(config.headDim, 8);
    QCOMPARE(config.rope.base, 10000.0);
    QCOMPARE(config.rope.dimensions, 8);
    QVERIFY(config.tiedHead && config.rope.interleaved);
    QCOMPARE(config.attentionScale, static_cast<float>(1.0 / std::sqrt(8.0)));

    tiny_model::Sizes sizes;
    sizes.kvHeads = 4;
    MemoryCheckpoint plain = tiny_model::makeLlama(sizes);
    plain.erase("llama.attention.head_count_kv"); // then every head has its own keys
    QCOMPARE(engine::familyOf(plain).readConfig(plain).maxKvHeads(), 4);
}

void ModelConfigTest::perLayerArrays()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.set("llama.attention.head_count_kv", std::vector<std::int64_t>{2, 2});
    checkpoint.set("llama.feed_forward_length", std::vector<std::uint64_t>{48, 48});
    QCOMPARE(faultOf(checkpoint), QString());
    checkpoint.set("llama.attention.head_count_kv", std::vector<std::int64_t>{2, 2, 2});
    QVERIFY(faultOf(checkpoint).contains(QStringLiteral("array of 3")));
}

void ModelConfigTest::refuses_data()
{
    QTest::addColumn<Change>("change");
    QTest::addColumn<QStringList>("words");
    const auto row = [](const char *name, Change change, QStringList words) {
        QTest::newRow(name) << std::move(change) << std::move(words);
    };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    row("no layers", set("block_count", whole(0)), {"llama.block_count", "is 0"});
    row("negative layers", set("block_count", whole(-1)), {"llama.block_count", "-1"});
    row("huge layers", set("block_count", whole(2'000'000'000)), {"llama.block_count", "2000000000"});
    row("more layers than tensors", set("block_count", whole(50)), {"llama.block_count", "tensors"});
    row("layer without tensors", set("block_count", whole(3)), {"blk.2.attn_norm.weight", "missing"});
    row("tensors without layer", set("block_count", whole(1)), {"blk.1.", "block_count"});
    row("text layers", set("block_count", std::string("2")), {"block_count", "integer"});
    row("layers missing", erase("block_count"), {"llama.block_count", "missing"});
    row("hidden missing", erase("embedding_length"), {"llama.embedding_length", "missing"});
    row("hidden differs", set("embedding_length", whole(4096)), {"token_embd.weight", "[32, 40]", "[4096, 40]"});
    row("context 0", set("context_length", whole(0)), {"context_length"});
    row("context missing", erase("context_length"), {"context_length", "missing"});
    row("heads 0", set("attention.head_count", whole(0)), {"attention.head_count", "is 0"});
    row("kv heads 0", set("attention.head_count_kv", whole(0)), {"head_count_kv", "is 0"});
    row("kv heads 3", set("attention.head_count_kv", whole(3)), {"head_count_kv", "is 3", "divides the 4 heads"});
    row("kv heads above heads", set("attention.head_count_kv", whole(8)), {"head_count_kv", "is 8"});
    row("heads do not divide",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.erase("llama.attention.key_length");
            checkpoint.set("llama.embedding_length", whole(33));
        },
        {"embedding_length", "33", "4 heads"});
    row("value length", set("attention.value_length", whole(4)), {"attention.value_length", "is 4", "8"});
    row("key length 0", set("attention.key_length", whole(0)), {"attention.key_length"});
    row("inner 0", set("feed_forward_length", whole(0)), {"feed_forward_length"});
    row("epsilon NaN", set("attention.layer_norm_rms_epsilon", nan), {"epsilon", "nan", "finite"});
    row("epsilon negative", set("attention.layer_norm_rms_epsilon", -1.0), {"epsilon", "-1"});
    row("epsilon missing", erase("attention.layer_norm_rms_epsilon"), {"epsilon", "missing"});
    row("epsilon vanishes in float", set("attention.layer_norm_rms_epsilon", 1e-60), {"epsilon"});
    row("base NaN", set("rope.freq_base", nan), {"rope.freq_base", "finite"});
    row("base infinite", set("rope.freq_base", 1e300), {"rope.freq_base", "finite"});
    row("rope odd", set("rope.dimension_count", whole(7)), {"rope.dimension_count", "7", "even"});
    row("rope wide", set("rope.dimension_count", whole(16)), {"rope.dimension_count", "16"});
    row("scaling unknown", set("rope.scaling.type", std::string("su")), {"rope.scaling.type", "su", "longrope"});
    row("scaling factor 0",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("linear"));
            checkpoint.set("llama.rope.scaling.factor", 0.0);
        },
        {"rope.scaling.factor", "positive"});
    row("scaling factors of other number",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("longrope"));
            checkpoint.set("llama.rope.scaling.short_factors", std::vector<double>{1.0, 2.0});
        },
        {"short_factors", "array of 2", "4 numbers"});
    row("scaling factors below 0",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("longrope"));
            checkpoint.set("llama.rope.scaling.long_factors", std::vector<double>{1.0, 2.0, -1.0, 4.0});
        },
        {"long_factors", "-1"});
    row("scaling factors of one kind",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("longrope"));
            checkpoint.set("llama.rope.scaling.long_factors", std::vector<double>{1.0, 2.0, 3.0, 4.0});
        },
        {"short_factors", "absent"});
    row("scaling borders",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("llama3"));
            checkpoint.set("llama.rope.scaling.high_freq_factor", 0.5);
        },
        {"high_freq_factor", "0.5"});
    row("scaling shrinks",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.rope.scaling.type", std::string("dynamic"));
            checkpoint.set("llama.rope.scaling.factor", 0.5);
        },
        {"rope.scaling.factor", "0.5", "dynamic"});
    row("clamped below zero", set("attention.clamp_kqv", -8.0), {"attention.clamp_kqv", "-8"});
    row("positions of images", set("rope.dimension_sections", std::vector<std::int64_t>{8, 12, 12, 0}),
        {"rope.dimension_sections", "not supported"});
    row("not causal", set("attention.causal", false), {"attention.causal", "false"});
    row("soft cap negative", set("attn_logit_softcapping", -1.0), {"attn_logit_softcapping", "-1"});
    row("heads differ", set("attention.head_count", std::vector<std::int64_t>{4, 2}), {"attention.head_count"});
    row("experts", set("expert_used_count", whole(8)), {"expert_used_count", "8"});
    row("a mixture",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.expert_count", whole(8));
            checkpoint.set("llama.expert_used_count", whole(2));
        },
        {"blk.0.ffn_gate_inp.weight", "missing"});
    const auto mixture = [](const char *key, std::int64_t value) {
        return [key, value](MemoryCheckpoint &checkpoint) {
            checkpoint.set("llama.expert_count", whole(8));
            checkpoint.set("llama.expert_used_count", whole(2));
            checkpoint.set("llama." + std::string(key), value);
        };
    };
    row("mixture of unknown scores", mixture("expert_gating_func", 4), {"expert_gating_func", "4", "sigmoid"});
    row("mixture of uneven groups", mixture("expert_group_count", 3), {"expert_group_count", "3", "8 experts"});
    row("mixture with too many groups", mixture("expert_group_used_count", 2), {"expert_group_used_count", "2"});
    row("mixture of layers beyond", mixture("leading_dense_block_count", 9), {"leading_dense_block_count", "9"});
    row("multiplier", set("logit_scale", 2.0), {"logit_scale", "not supported"});
    row("head without table", [](MemoryCheckpoint &checkpoint) { checkpoint.eraseTensor("token_embd.weight"); },
        {"token_embd.weight", "missing"});
    row("tensor missing", [](MemoryCheckpoint &checkpoint) { checkpoint.eraseTensor("blk.0.attn_v.weight"); },
        {"blk.0.attn_v.weight", "missing"});
    row("tensor transposed", reshape("blk.1.ffn_down.weight", {48, 32}),
        {"blk.1.ffn_down.weight", "[32, 48]", "expected [48, 32]"});
    row("tensor of other rank", reshape("blk.1.attn_norm.weight", {1, 32}),
        {"blk.1.attn_norm.weight", "[32, 1]", "expected [32]"});
    row("head of other size", reshape("output.weight", {41, 32}), {"output.weight", "[32, 41]"});
    row("factors of other size", reshape("rope_freqs.weight", {8}), {"rope_freqs.weight", "[8]", "[4]"});
    row("table of rank 1", reshape("token_embd.weight", {64}), {"token_embd.weight", "[64]"});
    row("matrix type",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.setTensorType("blk.0.attn_q.weight", kernels::DType::I32, "I32");
        },
        {"blk.0.attn_q.weight", "I32", "not supported"});
    row("unknown type",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.setTensorType("blk.0.attn_q.weight", kernels::DType::F32, "Q8_K");
        },
        {"blk.0.attn_q.weight", "Q8_K", "not supported"});
    row("factor of a matrix",
        [](MemoryCheckpoint &checkpoint) { checkpoint.setTensor("blk.0.attn_q.scale", {1}, {0.5F}); },
        {"blk.0.attn_q.scale", "blk.0.attn_q.weight", "not supported"});
    row("norm type",
        [](MemoryCheckpoint &checkpoint) {
            checkpoint.setTensorType("blk.0.attn_norm.weight", kernels::DType::Q8_0, "Q8_0");
        },
        {"blk.0.attn_norm.weight", "Q8_0"});
}

void ModelConfigTest::refuses()
{
    QFETCH(Change, change);
    QFETCH(QStringList, words);
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    QCOMPARE(faultOf(checkpoint), QString());
    change(checkpoint);
    const QString fault = faultOf(checkpoint);
    for (const QString &word : words)
        QVERIFY2(fault.contains(word), qPrintable(fault + QStringLiteral(" lacks ") + word));
}

void ModelConfigTest::unknownArchitecture()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.set("general.architecture", std::string("%s%n\nx"));
    const QString fault = faultOf(checkpoint);
    QVERIFY2(fault.contains(QStringLiteral("%s%n")) && !fault.contains(QLatin1Char('\n')), qPrintable(fault));
    QVERIFY2(fault.contains(QStringLiteral("known architectures are chatglm")), qPrintable(fault));
    checkpoint.erase("general.architecture");
    QVERIFY(faultOf(checkpoint).contains(QStringLiteral("general.architecture is missing")));
    checkpoint.set("general.architecture", std::int64_t{5});
    QVERIFY(faultOf(checkpoint).contains(QStringLiteral("general.architecture")));
}

void ModelConfigTest::everyFamilyHasDistinctNames()
{
    engine::ModelConfig config;
    config.layers = 2;
    config.hidden = 64;
    config.headDim = 16;
    config.vocab = 100;
    config.rope.dimensions = 16;
    config.layer.assign(2, {.heads = 4, .kvHeads = 2, .intermediate = 96});
    for (const engine::ModelFamily &family : engine::modelFamilies()) {
        QSet<QString> names;
        for (const engine::ExpectedTensor &tensor : family.tensors(config)) {
            QVERIFY2(!names.contains(QString::fromStdString(tensor.name)), tensor.name.c_str());
            names.insert(QString::fromStdString(tensor.name));
            QCOMPARE(tensor.shape.size(), tensor.use == engine::TensorUse::Matrix ? std::size_t{2} : std::size_t{1});
        }
        QVERIFY(names.contains(QStringLiteral("token_embd.weight")));
    }
}

void ModelConfigTest::unusedTensorsAreNamed()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.setTensor("extra.weight", {1}, {0.0F});
    const engine::ModelFamily &family = engine::familyOf(checkpoint);
    const auto unused = engine::unusedTensors(checkpoint, family.tensors(family.readConfig(checkpoint)));
    QCOMPARE(unused, std::vector<std::string>{"extra.weight"});
}

void ModelConfigTest::plainAndLinearRope()
{
    engine::RopeConfig rope;
    rope.dimensions = 8;
    const kernels::RopeTable plain = engine::makeRopeTable(rope, {});
    QCOMPARE(plain.inverseFrequencies.size(), std::size_t{4});
    QCOMPARE(plain.inverseFrequencies[0], 1.0);
    QCOMPARE(plain.inverseFrequencies[1], 0.1);
    QCOMPARE(plain.attentionFactor, 1.0F);
    rope.scaling = engine::RopeScaling::Linear;
    rope.factor = 4.0;
    QCOMPARE(engine::makeRopeTable(rope, {}).inverseFrequencies[1], 0.025);
}

void ModelConfigTest::llama3Rope()
{
    engine::RopeConfig rope;
    rope.dimensions = 4;
    const std::vector<float> factors{1.0F, 8.0F};
    const kernels::RopeTable table = engine::makeRopeTable(rope, factors);
    QCOMPARE(table.inverseFrequencies[0], 1.0);
    QCOMPARE(table.inverseFrequencies[1], 0.01 / 8.0);
}

/// Values of transformers 5.24.0, _compute_yarn_parameters, for dim 32, base 10000, factor 4, original length 128.
void ModelConfigTest::yarnRope()
{
    engine::RopeConfig rope;
    rope.dimensions = 32;
    rope.scaling = engine::RopeScaling::Yarn;
    rope.factor = 4.0;
    rope.originalContext = 128;
    const kernels::RopeTable table = engine::makeRopeTable(rope, {});
    QVERIFY(std::abs(table.attentionFactor - 1.1386294361119891) < 1e-6);
    // Pairs turn 32 times at -0.78 and once at 5.23: the ramp runs from 0 to 6.
    QCOMPARE(table.inverseFrequencies[0], 1.0);
    const double third = std::pow(10000.0, -6.0 / 32.0);
    QVERIFY(std::abs(table.inverseFrequencies[3] - (third / 4.0 * 0.5 + third * 0.5)) < 1e-12);
    const double ninth = std::pow(10000.0, -18.0 / 32.0);
    QVERIFY(std::abs(table.inverseFrequencies[9] - ninth / 4.0) < 1e-12);
}

namespace {

/// The values of transformers, modeling_rope_utils, to nine digits.
void compareFrequencies(const kernels::RopeTable &table, const std::vector<double> &wanted)
{
    QVERIFY(table.inverseFrequencies.size() >= wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
        QVERIFY2(std::abs(table.inverseFrequencies[i] - wanted[i]) <= 1e-9 * wanted[i],
                 qPrintable(QString::number(table.inverseFrequencies[i], 'g', 12)));
}

engine::ModelConfig configWith(std::initializer_list<std::pair<const char *, MetadataValue>> keys, int layers = 2)
{
    tiny_model::Sizes sizes;
    sizes.layers = layers;
    MemoryCheckpoint checkpoint = tiny_model::makeLlama(sizes);
    for (const auto &[key, value] : keys)
        checkpoint.set(std::string("llama.") + key, value);
    return engine::familyOf(checkpoint).readConfig(checkpoint);
}

} // namespace

void ModelConfigTest::yarnRopeWithoutTruncation()
{
    engine::RopeConfig rope;
    rope.base = 150000.0;
    rope.dimensions = 32;
    rope.scaling = engine::RopeScaling::Yarn;
    rope.factor = 8.0;
    rope.originalContext = 64;
    rope.truncate = false;
    compareFrequencies(engine::makeRopeTable(rope, {}),
                       {1.0, 0.34145333424243396, 0.0988138315592572, 0.016860340346972834});
    rope.truncate = true;
    QVERIFY(std::abs(engine::makeRopeTable(rope, {}).inverseFrequencies[1] - 0.34145333424243396) > 1e-3);
}

void ModelConfigTest::llama3RopeByKeys()
{
    const engine::ModelConfig config = configWith({{"rope.freq_base", 500.0},
                                                   {"attention.key_length", std::int64_t{16}},
                                                   {"rope.scaling.type", std::string("llama3")},
                                                   {"rope.scaling.factor", 8.0},
                                                   {"rope.scaling.low_freq_factor", 1.0},
                                                   {"rope.scaling.high_freq_factor", 4.0},
                                                   {"rope.scaling.original_context_length", std::int64_t{64}}});
    compareFrequencies(engine::makeRopeTable(config.rope, {}),
                       {1.0, 0.45986329782677027, 0.09761663265652092, 0.012156155905825913, 0.005590169943749474,
                        0.002570713985744724, 0.0011821770112539697, 0.0005436398190102454});
}

void ModelConfigTest::dynamicRope()
{
    const engine::ModelConfig config = configWith({{"rope.scaling.type", std::string("dynamic")},
                                                   {"rope.scaling.factor", 2.0},
                                                   {"rope.scaling.original_context_length", std::int64_t{64}}});
    compareFrequencies(engine::makeRopeTable(config.rope, {}), {1.0, 0.1, 0.01, 0.001});
    const int variant = config.ropeVariants().of(100);
    compareFrequencies(engine::makeRopeTable(config.rope, {}, variant),
                       {1.0, 0.07778222374656406, 0.006050074330960554, 0.00047058823529411766});
}

void ModelConfigTest::longRopeByKeysAndByTensors()
{
    const std::vector<double> factors{1.0, 2.0, 4.0, 8.0};
    const engine::ModelConfig byKeys = configWith({{"context_length", std::int64_t{512}},
                                                   {"rope.scaling.type", std::string("longrope")},
                                                   {"rope.scaling.short_factors", factors},
                                                   {"rope.scaling.long_factors", factors},
                                                   {"rope.scaling.original_context_length", std::int64_t{64}}});
    QVERIFY(byKeys.rope.scaling == engine::RopeScaling::LongRope);
    QVERIFY(std::abs(byKeys.rope.attentionFactor - 1.224744871391589) < 1e-12);
    compareFrequencies(engine::makeRopeTable(byKeys.rope, byKeys.rope.longFactors), {1.0, 0.05, 0.0025, 0.000125});

    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.setTensor("rope_factors_short.weight", {4}, {1.0F, 1.0F, 1.0F, 1.0F});
    QCOMPARE(engine::familyOf(checkpoint).readConfig(checkpoint).ropeVariants().switchLength, 0);
    checkpoint.setTensor("rope_factors_long.weight", {4}, {1.0F, 2.0F, 4.0F, 8.0F});
    checkpoint.set("llama.rope.scaling.original_context_length", std::int64_t{64});
    checkpoint.set("llama.rope.scaling.attn_factor", 1.25);
    const engine::ModelConfig byTensors = engine::familyOf(checkpoint).readConfig(checkpoint);
    QCOMPARE(byTensors.ropeVariants().switchLength, 64);
    QCOMPARE(byTensors.rope.attentionFactor, 1.25);
    QCOMPARE(faultOf(checkpoint), QString());
    checkpoint.setTensor("rope_factors_long.weight", {3}, {1.0F, 2.0F, 4.0F});
    QVERIFY(faultOf(checkpoint).contains(QStringLiteral("rope_factors_long.weight")));
}

void ModelConfigTest::windowsAndTheirRope()
{
    const auto windows = [](const engine::ModelConfig &config) {
        std::vector<int> all;
        for (const engine::LayerConfig &layer : config.layer)
            all.push_back(layer.window);
        return all;
    };
    const std::int64_t window = 16;
    QCOMPARE(windows(configWith({{"attention.sliding_window", window}})), (std::vector<int>{16, 16}));
    QCOMPARE(windows(configWith(
                 {{"attention.sliding_window", window}, {"attention.sliding_window_pattern", std::int64_t{3}}}, 4)),
             (std::vector<int>{16, 16, 0, 16}));
    const engine::ModelConfig listed = configWith({{"attention.sliding_window", window},
                                                   {"attention.sliding_window_pattern", std::vector<bool>{false, true}},
                                                   {"rope.freq_base_swa", 500.0},
                                                   {"rope.scaling.type", std::string("linear")},
                                                   {"rope.scaling.factor", 8.0}});
    QCOMPARE(windows(listed), (std::vector<int>{0, 16}));
    QVERIFY(!listed.layer[0].localRope && listed.layer[1].localRope);
    QCOMPARE(listed.localRope.base, 500.0);
    QVERIFY(listed.localRope.scaling == engine::RopeScaling::None);
    QVERIFY_THROWS_EXCEPTION(engine::Error,
                             configWith({{"attention.sliding_window", window},
                                         {"attention.sliding_window_pattern", std::vector<bool>{true}}}));
}

/// Layers with windows of several sizes keep the largest of those that are shorter than the longest request.
void ModelConfigTest::severalWindowsAreKeptAsOne()
{
    engine::ModelConfig config = configWith({}, 4);
    const std::array windows{0, 9, 33, 200};
    for (std::size_t i = 0; i < windows.size(); ++i)
        config.layer[i].window = windows[i];
    QCOMPARE(config.keptWindow(20), 9);
    QCOMPARE(config.keptWindow(100), 33);
    QCOMPARE(config.keptWindow(9), 0);
    const engine::KvShape shape = config.kvShape(8, {}, config.keptWindow(100));
    QCOMPARE(shape.windowLayers(), 2); // the last one's window is no shorter than a request: it keeps everything
    const engine::KvSizes sizes{64, 8, 33, 10};
    QCOMPARE(shape.bytes(sizes), shape.bytesPerBlock() / 4 * (2 * 64 + 2 * 10));
}

/// Files of llama.cpp's own making may say 0 where they mean "none", and give a factor without a type.
void ModelConfigTest::zerosAndOldKeys()
{
    const engine::ModelConfig zeros = configWith(
        {{"attention.scale", 0.0}, {"embedding_scale", 0.0}, {"residual_scale", 0.0}, {"rope.scaling.factor", 0.0}});
    QCOMPARE(zeros.attentionScale, static_cast<float>(1.0 / std::sqrt(8.0)));
    QVERIFY(zeros.embeddingScale == 1.0F && zeros.residualScale == 1.0F);
    QVERIFY(zeros.rope.scaling == engine::RopeScaling::None);
    for (const char *key : {"rope.scaling.factor", "rope.scale_linear"}) {
        const engine::ModelConfig old = configWith({{key, 4.0}});
        QVERIFY(old.rope.scaling == engine::RopeScaling::Linear);
        QCOMPARE(old.rope.factor, 4.0);
    }
}

void ModelConfigTest::layersWithoutRotation()
{
    const engine::ModelConfig config = configWith({{"rope.layers", std::vector<bool>{true, false}}});
    QVERIFY(config.layer[0].rotates && !config.layer[1].rotates);
    QVERIFY_THROWS_EXCEPTION(engine::Error, configWith({{"rope.layers", std::vector<bool>{true}}}));
}

void ModelConfigTest::biasesOfOneLayerAreWantedOfAll()
{
    MemoryCheckpoint checkpoint = tiny_model::makeLlama({});
    checkpoint.setTensor("blk.1.attn_v.bias", {16}, std::vector<float>(16));
    QVERIFY(faultOf(checkpoint).contains(QStringLiteral("blk.0.attn_q.bias")));
}

QTEST_GUILESS_MAIN(ModelConfigTest)
#include "tst_model_config.moc"
