// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_checkpoint.h"
#include "engine/models/hf_keys.h"
#include "tests/support/safetensors_builder.h"

#include <QTemporaryDir>
#include <QTest>

#include <cmath>

namespace {

/// Members of a small configuration; `more` may replace them.
QByteArray configOf(const QByteArray &modelType, const QByteArray &more = {})
{
    return "{\"model_type\": \"" + modelType + "\", " + more + (more.isEmpty() ? "" : ", ")
        + R"("hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6, "num_attention_heads": 4,
            "num_key_value_heads": 2, "vocab_size": 320, "max_position_embeddings": 512, "rms_norm_eps": 1e-6})";
}

std::vector<bool> flagsOf(const engine::Metadata &metadata, const char *key)
{
    const engine::MetadataValue *value = metadata.find(key);
    const auto *flags = value != nullptr ? std::get_if<std::vector<bool>>(value) : nullptr;
    return flags != nullptr ? *flags : std::vector<bool>{};
}

QByteArray patternOf(const engine::Metadata &metadata, const char *key)
{
    QByteArray text;
    for (const bool flag : flagsOf(metadata, key))
        text += flag ? '1' : '0';
    return text;
}

} // namespace

/// config.json and generation_config.json in, GGUF's keys out.
class HfTranslateTest : public QObject {
    Q_OBJECT

private slots:
    void init() { m_dir = std::make_unique<QTemporaryDir>(); }
    void sizes();
    void ropeOfBothForms_data();
    void ropeOfBothForms();
    void yarnTemperature_data();
    void yarnTemperature();
    void latentTemperature_data();
    void latentTemperature();
    void dynamicGoesOn();
    void longFactors();
    void partOfAHead();
    void windows_data();
    void windows();
    void silentWindows();
    void silentNumbers_data();
    void silentNumbers();
    void silentSizes_data();
    void silentSizes();
    void activations();
    void deepseek();
    void attentionBiases();
    void refusals_data();
    void refusals();
    void layersWithoutRotation();
    void scales();
    void gemma();
    void textConfig();
    void sparseLayers();
    void generation();
    void classNames();
    void namesOfKeys();

private:
    [[nodiscard]] engine::Metadata translate(const QByteArray &config) const;

    std::unique_ptr<QTemporaryDir> m_dir;
};

engine::Metadata HfTranslateTest::translate(const QByteArray &config) const
{
    const QString path = m_dir->filePath("config.json");
    if (!writeText(path, config))
        qFatal("cannot write the configuration");
    return engine::translateHfConfig(engine::readHfModelConfig(path.toStdString()));
}

void HfTranslateTest::sizes()
{
    const engine::Metadata m = translate(configOf("llama", R"("head_dim": 24, "rope_theta": 5e5)"));
    QCOMPARE(m.integer("llama.block_count").value(), 6);
    QCOMPARE(m.integer("llama.embedding_length").value(), 64);
    QCOMPARE(m.integer("llama.feed_forward_length").value(), 96);
    QCOMPARE(m.integer("llama.attention.head_count").value(), 4);
    QCOMPARE(m.integer("llama.attention.head_count_kv").value(), 2);
    QCOMPARE(m.integer("llama.attention.key_length").value(), 24);
    QCOMPARE(m.integer("llama.attention.value_length").value(), 24);
    QCOMPARE(m.integer("llama.context_length").value(), 512);
    QCOMPARE(m.integer("llama.vocab_size").value(), 320);
    QCOMPARE(m.number("llama.attention.layer_norm_rms_epsilon").value(), 1e-6);
    QCOMPARE(m.number("llama.rope.freq_base").value(), 5e5);
    QVERIFY(m.find("llama.rope.scaling.type") == nullptr);
    QCOMPARE(translate(configOf("llama")).integer("llama.attention.key_length").value(), 16);
}

void HfTranslateTest::ropeOfBothForms_data()
{
    QTest::addColumn<QByteArray>("more");
    QTest::newRow("rope_scaling") << QByteArray(R"("rope_theta": 1000.0, "rope_scaling": {"rope_type": "llama3",
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})");
    QTest::newRow("old name of the type") << QByteArray(R"("rope_theta": 1000.0, "rope_scaling": {"type": "llama3",
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})");
    QTest::newRow("rope_parameters") << QByteArray(R"("rope_parameters": {"rope_theta": 1000.0, "rope_type": "llama3",
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64})");
    QTest::newRow("by kind of layer") << QByteArray(R"("rope_parameters": {"full_attention": {"rope_theta": 1000.0,
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}})");
}

void HfTranslateTest::ropeOfBothForms()
{
    QFETCH(QByteArray, more);
    const engine::Metadata m = translate(configOf("llama", more));
    QCOMPARE(*m.text("llama.rope.scaling.type"), std::string("llama3"));
    QCOMPARE(m.number("llama.rope.freq_base").value(), 1000.0);
    QCOMPARE(m.number("llama.rope.scaling.factor").value(), 8.0);
    QCOMPARE(m.number("llama.rope.scaling.high_freq_factor").value(), 4.0);
    QCOMPARE(m.integer("llama.rope.scaling.original_context_length").value(), 64);
}

void HfTranslateTest::yarnTemperature_data()
{
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<double>("temperature");
    const double usual = 0.1 * std::log(4.0) + 1.0;
    QTest::newRow("of the paper") << QByteArray() << usual;
    QTest::newRow("given") << QByteArray(R"(, "attention_factor": 1.5)") << 1.5;
    QTest::newRow("two scales") << QByteArray(R"(, "mscale": 0.5, "mscale_all_dim": 1.0)")
                                << (0.05 * std::log(4.0) + 1.0) / usual;
    QTest::newRow("equal scales") << QByteArray(R"(, "mscale": 0.7, "mscale_all_dim": 0.7)") << 1.0;
}

/// attn_factor times 1 + 0.1 ln(factor) is what cosines and sines are multiplied by.
void HfTranslateTest::yarnTemperature()
{
    QFETCH(QByteArray, more);
    QFETCH(double, temperature);
    const engine::Metadata m = translate(configOf(
        "llama", R"("rope_scaling": {"type": "yarn", "factor": 4.0, "truncate": false, "beta_fast": 20)" + more + "}"));
    QVERIFY(std::abs(m.number("llama.rope.scaling.attn_factor").value() * (0.1 * std::log(4.0) + 1.0) - temperature)
            < 1e-12);
    QCOMPARE(m.number("llama.rope.scaling.yarn_beta_fast").value(), 20.0);
    QCOMPARE(m.boolean("llama.rope.scaling.yarn_truncate").value(), false);
    QCOMPARE(m.integer("llama.rope.scaling.original_context_length").value(), 512);
}

void HfTranslateTest::latentTemperature_data()
{
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<double>("temperature");
    QTest::addColumn<double>("scale");
    const double usual = 0.1 * std::log(4.0) + 1.0;
    QTest::newRow("equal scales") << QByteArray(R"(, "mscale": 0.7, "mscale_all_dim": 0.7)") << 1.0
                                  << 0.07 * std::log(4.0) + 1.0;
    QTest::newRow("two scales") << QByteArray(R"(, "mscale": 0.5, "mscale_all_dim": 1.0)")
                                << (0.05 * std::log(4.0) + 1.0) / usual << usual;
    QTest::newRow("none") << QByteArray() << usual << 1.0;
    QTest::newRow("scores alone") << QByteArray(R"(, "attention_factor": 1.0, "mscale_all_dim": 1.0)") << 1.0 << usual;
    QTest::newRow("both alike") << QByteArray(R"(, "mscale_all_dim": 1.0)") << usual << usual;
}

/// attn_factor is what cosines and sines are multiplied by unless the multiplier is 0; with the multiplier it gives the
/// scale, which scores are multiplied by twice.
void HfTranslateTest::latentTemperature()
{
    QFETCH(QByteArray, more);
    QFETCH(double, temperature);
    QFETCH(double, scale);
    const engine::Metadata m =
        translate(configOf("deepseek_v3",
                           R"("q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8,
            "v_head_dim": 8, "rope_scaling": {"type": "yarn", "factor": 4.0)"
                               + more + "}"));
    const double multiplier = m.number("deepseek2.rope.scaling.yarn_log_multiplier").value();
    double found = m.number("deepseek2.rope.scaling.attn_factor").value();
    if (multiplier == 0.0)
        found *= 0.1 * std::log(4.0) + 1.0;
    QVERIFY2(std::abs(found - temperature) < 1e-12, std::to_string(found).c_str());
    QVERIFY(std::abs(found * (1.0 + multiplier * std::log(4.0)) - scale) < 1e-12);
}

void HfTranslateTest::dynamicGoesOn()
{
    const engine::Metadata m = translate(configOf("llama", R"("rope_scaling": {"type": "dynamic", "factor": 2.5})"));
    QCOMPARE(m.integer("llama.rope.scaling.original_context_length").value(), 512);
    QCOMPARE(m.integer("llama.context_length").value(), 1280);
}

void HfTranslateTest::longFactors()
{
    const engine::Metadata m = translate(configOf("phi3", R"("original_max_position_embeddings": 64,
        "rope_scaling": {"type": "su", "short_factor": [1, 2.5], "long_factor": [3, 4]})"));
    QCOMPARE(*m.text("phi3.rope.scaling.type"), std::string("longrope"));
    QCOMPARE(m.numbers("phi3.rope.scaling.short_factors").value(), (std::vector<double>{1, 2.5}));
    QCOMPARE(m.numbers("phi3.rope.scaling.long_factors").value(), (std::vector<double>{3, 4}));
    QCOMPARE(m.integer("phi3.rope.scaling.original_context_length").value(), 64);
    QVERIFY(m.find("phi3.rope.scaling.attn_factor") == nullptr); // from the growth of the context
    const engine::Metadata stated = translate(configOf("llama", R"("original_max_position_embeddings": 64,
        "rope_scaling": {"type": "longrope", "factor": 16.0, "short_factor": [1, 2.5], "long_factor": [3, 4]})"));
    QCOMPARE(stated.number("llama.rope.scaling.attn_factor").value(), std::sqrt(1.0 + std::log(16.0) / std::log(64.0)));
}

void HfTranslateTest::partOfAHead()
{
    const engine::Metadata m = translate(configOf("glm4", R"("head_dim": 32, "partial_rotary_factor": 0.25)"));
    QCOMPARE(m.integer("glm4.rope.dimension_count").value(), 8);
    QCOMPARE(m.boolean("glm4.rope.interleaved").value(), true);
    QCOMPARE(translate(configOf("glm4")).integer("glm4.rope.dimension_count").value(), 64); // half of the class's 128
}

void HfTranslateTest::windows_data()
{
    QTest::addColumn<QByteArray>("type");
    QTest::addColumn<QByteArray>("prefix");
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<QByteArray>("pattern");
    QTest::newRow("all layers") << QByteArray("mistral") << QByteArray("llama") << QByteArray(R"("sliding_window": 16)")
                                << QByteArray("111111");
    QTest::newRow("null") << QByteArray("mistral") << QByteArray("llama") << QByteArray(R"("sliding_window": null)")
                          << QByteArray();
    QTest::newRow("not used") << QByteArray("qwen2") << QByteArray("qwen2") << QByteArray(R"("sliding_window": 16)")
                              << QByteArray();
    QTest::newRow("later layers") << QByteArray("qwen2") << QByteArray("qwen2")
                                  << QByteArray(R"("sliding_window": 16, "use_sliding_window": true,
                                                   "max_window_layers": 4)")
                                  << QByteArray("000011");
    QTest::newRow("later than all") << QByteArray("qwen2") << QByteArray("qwen2")
                                    << QByteArray(R"("sliding_window": 16, "use_sliding_window": true)")
                                    << QByteArray(); // from layer 28 on
    QTest::newRow("every other one")
        << QByteArray("qwen2_moe") << QByteArray("qwen2moe")
        << QByteArray(R"("sliding_window": 16, "use_sliding_window": true, "max_window_layers": 4)")
        << QByteArray("101000");
    QTest::newRow("whatever max_window_layers says")
        << QByteArray("qwen3_moe") << QByteArray("qwen3moe")
        << QByteArray(R"("sliding_window": 16, "use_sliding_window": true, "max_window_layers": 4)")
        << QByteArray("111111");
    QTest::newRow("qwen3_moe, not used") << QByteArray("qwen3_moe") << QByteArray("qwen3moe")
                                         << QByteArray(R"("sliding_window": 16, "use_sliding_window": false)")
                                         << QByteArray();
    QTest::newRow("layers without rotation")
        << QByteArray("smollm3") << QByteArray("smollm3")
        << QByteArray(R"("sliding_window": 16, "use_sliding_window": true, "no_rope_layers": [1, 1, 0, 1, 0, 0])")
        << QByteArray("001011");
    QTest::newRow("smollm3, not used") << QByteArray("smollm3") << QByteArray("smollm3")
                                       << QByteArray(R"("sliding_window": 16)") << QByteArray();
    QTest::newRow("gemma2") << QByteArray("gemma2") << QByteArray("gemma2") << QByteArray(R"("sliding_window": 16)")
                            << QByteArray("101010");
    QTest::newRow("gemma3") << QByteArray("gemma3_text") << QByteArray("gemma3")
                            << QByteArray(R"("sliding_window": 16)") << QByteArray("111110");
    QTest::newRow("listed") << QByteArray("gemma3_text") << QByteArray("gemma3")
                            << QByteArray(R"("sliding_window": 16, "layer_types": ["full_attention",
                                             "sliding_attention", "full_attention", "full_attention",
                                             "full_attention", "sliding_attention"])")
                            << QByteArray("010001");
}

void HfTranslateTest::windows()
{
    QFETCH(QByteArray, type);
    QFETCH(QByteArray, prefix);
    QFETCH(QByteArray, more);
    QFETCH(QByteArray, pattern);
    const engine::Metadata m = translate(configOf(type, more));
    QCOMPARE(patternOf(m, (prefix + ".attention.sliding_window_pattern").constData()), pattern);
    QCOMPARE(m.integer((prefix + ".attention.sliding_window").toStdString()).value_or(0), pattern.isEmpty() ? 0 : 16);
}

/// What a silent configuration means is what the library's class says.
void HfTranslateTest::silentWindows()
{
    const engine::Metadata mistral = translate(configOf("mistral"));
    QCOMPARE(mistral.integer("llama.attention.sliding_window").value(), 4096);
    QCOMPARE(patternOf(mistral, "llama.attention.sliding_window_pattern"), QByteArray("111111"));
    QVERIFY(translate(configOf("llama")).find("llama.attention.sliding_window") == nullptr);
    const engine::Metadata oss = translate(configOf("gpt_oss"));
    QCOMPARE(oss.integer("gpt-oss.attention.sliding_window").value(), 128);
    QCOMPARE(patternOf(oss, "gpt-oss.attention.sliding_window_pattern"), QByteArray("101010"));
    QCOMPARE(oss.integer("gpt-oss.expert_feed_forward_length").value(), 96);
    const engine::Metadata exaone = translate(configOf("exaone4"));
    QCOMPARE(exaone.integer("exaone4.attention.sliding_window").value(), 4096);
    QCOMPARE(patternOf(exaone, "exaone4.attention.sliding_window_pattern"), QByteArray("111011"));
    QVERIFY(translate(configOf("olmo2")).find("olmo2.attention.sliding_window") == nullptr);
    const engine::Metadata olmo3 = translate(configOf("olmo3"));
    QCOMPARE(olmo3.integer("olmo2.attention.sliding_window").value(), 4096);
    QCOMPARE(patternOf(olmo3, "olmo2.attention.sliding_window_pattern"), QByteArray("111011"));
}

void HfTranslateTest::silentNumbers_data()
{
    QTest::addColumn<QByteArray>("type");
    QTest::addColumn<QByteArray>("architecture");
    QTest::addColumn<double>("epsilon");
    QTest::addColumn<double>("base"); ///< 0: none is stated
    const auto row = [](const char *type, const char *architecture, double epsilon, double base) {
        QTest::newRow(type) << QByteArray(type) << QByteArray(architecture) << epsilon << base;
    };
    row("llama", "llama", 1e-6, 0.0);
    row("mixtral", "llama", 1e-5, 1e6);
    row("gpt_oss", "gpt-oss", 1e-5, 150000.0);
    row("olmo2", "olmo2", 1e-5, 0.0);
    row("olmo3", "olmo2", 1e-5, 500000.0);
    row("olmoe", "olmoe", 1e-5, 0.0);
    row("smollm3", "smollm3", 1e-6, 2000000.0);
    row("exaone4", "exaone4", 1e-5, 0.0);
    row("phi3", "phi3", 1e-5, 0.0);
    row("glm", "chatglm", 1.5625e-7, 0.0);
    row("glm4", "glm4", 1.5625e-7, 0.0);
}

void HfTranslateTest::silentNumbers()
{
    QFETCH(QByteArray, type);
    QFETCH(QByteArray, architecture);
    QFETCH(double, epsilon);
    QFETCH(double, base);
    const engine::Metadata m = translate(configOf(type).replace(", \"rms_norm_eps\": 1e-6", ""));
    QCOMPARE(m.number((architecture + ".attention.layer_norm_rms_epsilon").toStdString()).value(), epsilon);
    QCOMPARE(m.number((architecture + ".rope.freq_base").toStdString()).value_or(0.0), base);
}

/// What the class of each type has where config.json says nothing.
void HfTranslateTest::silentSizes_data()
{
    QTest::addColumn<QByteArray>("type");
    QTest::addColumn<QByteArray>("architecture");
    QTest::addColumn<int>("context");
    QTest::addColumn<int>("kvHeads"); ///< of 16
    const auto row = [](const char *type, const char *architecture, int context, int kvHeads) {
        QTest::newRow(type) << QByteArray(type) << QByteArray(architecture) << context << kvHeads;
    };
    row("llama", "llama", 2048, 16);
    row("mistral", "llama", 131072, 8);
    row("mixtral", "llama", 131072, 8);
    row("qwen2", "qwen2", 32768, 16);
    row("qwen3_moe", "qwen3moe", 32768, 4);
    row("gemma", "gemma", 8192, 16);
    row("gemma2", "gemma2", 8192, 4);
    row("gemma3_text", "gemma3", 131072, 4);
    row("phi", "phi2", 2048, 16);
    row("phi3", "phi3", 4096, 16);
    row("starcoder2", "starcoder2", 4096, 2);
    row("stablelm", "stablelm", 4096, 16);
    row("olmoe", "olmoe", 4096, 16);
    row("smollm3", "smollm3", 32768, 4);
    row("glm4", "glm4", 131072, 2);
    row("cohere2", "cohere2", 8192, 16);
    row("seed_oss", "seed_oss", 524288, 8);
}

void HfTranslateTest::silentSizes()
{
    QFETCH(QByteArray, type);
    QFETCH(QByteArray, architecture);
    QFETCH(int, context);
    QFETCH(int, kvHeads);
    const engine::Metadata m = translate(R"({"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 6,
        "num_attention_heads": 16, "vocab_size": 320, "model_type": ")"
                                         + type + "\"}");
    QCOMPARE(m.integer((architecture + ".context_length").toStdString()).value(), context);
    QCOMPARE(m.integer((architecture + ".attention.head_count_kv").toStdString()).value(), kvHeads);
}

void HfTranslateTest::activations()
{
    const engine::Metadata m = translate(configOf("phi", R"("hidden_act": "gelu")"));
    QCOMPARE(*m.text("phi2.hidden_activation"), std::string("gelu"));
    const engine::Metadata early = translate(configOf("gemma", R"("hidden_act": "gelu")"));
    QVERIFY(early.find("gemma.hidden_activation") == nullptr); // the family's own, tanh's
    QVERIFY(translate(configOf("llama")).find("llama.hidden_activation") == nullptr);
}

void HfTranslateTest::attentionBiases()
{
    QVERIFY(translate(configOf("qwen2_moe")).boolean("qwen2moe.attention.bias").value());
    QVERIFY(!translate(configOf("qwen2_moe", R"("qkv_bias": false)")).boolean("qwen2moe.attention.bias").value());
    QVERIFY(translate(configOf("gpt_oss")).boolean("gpt-oss.attention.bias").value());
    QVERIFY(!translate(configOf("gpt_oss", R"("attention_bias": false)")).boolean("gpt-oss.attention.bias").value());
}

void HfTranslateTest::deepseek()
{
    const QByteArray sizes = R"("qk_rope_head_dim": 8, "kv_lora_rank": 32, "qk_nope_head_dim": 16, "v_head_dim": 16,
        "n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32)";
    const engine::Metadata three = translate(configOf("deepseek_v3", sizes).replace("1e-6}", "1e-4}"));
    QCOMPARE(three.number("deepseek2.attention.layer_norm_rms_epsilon").value(), 1e-4);
    QCOMPARE(three.number("deepseek2.attention.latent_norm_epsilon").value(), 1e-6); // the class gives it none
    QCOMPARE(three.integer("deepseek2.leading_dense_block_count").value(), 3);
    QCOMPARE(three.integer("deepseek2.expert_group_count").value(), 8);
    QCOMPARE(three.integer("deepseek2.expert_group_used_count").value(), 4);
    const engine::Metadata two = translate(configOf("deepseek_v2", sizes));
    QCOMPARE(two.integer("deepseek2.leading_dense_block_count").value(), 0);
    const engine::Metadata dense = translate(configOf("deepseek_v3", sizes + ", \"first_k_dense_replace\": 99"));
    QCOMPARE(dense.integer("deepseek2.leading_dense_block_count").value(), 6);
}

/// Refused by the name that config.json has for it.
void HfTranslateTest::refusals_data()
{
    QTest::addColumn<QByteArray>("type");
    QTest::addColumn<QByteArray>("member");
    QTest::newRow("epsilon") << QByteArray("llama") << QByteArray(R"("rms_norm_eps": -1.0)");
    QTest::newRow("heads") << QByteArray("llama") << QByteArray(R"("num_key_value_heads": 3)");
    QTest::newRow("experts") << QByteArray("mixtral")
                             << QByteArray(R"("num_experts_per_tok": 9, "num_local_experts": 8)");
    QTest::newRow("activation") << QByteArray("llama") << QByteArray(R"("hidden_act": "mish")");
    QTest::newRow("own activation") << QByteArray("gpt_oss") << QByteArray(R"("hidden_act": "gelu")");
    QTest::newRow("limit") << QByteArray("olmoe") << QByteArray(R"("clip_qkv": -1.0)");
    QTest::newRow("gemma") << QByteArray("gemma") << QByteArray(R"("use_bidirectional_attention": true)");
    QTest::newRow("gemma2") << QByteArray("gemma2") << QByteArray(R"("use_bidirectional_attention": true)");
    QTest::newRow("gemma3 scores") << QByteArray("gemma3_text") << QByteArray(R"("attn_logit_softcapping": 9.0)");
    QTest::newRow("gemma3") << QByteArray("gemma3_text") << QByteArray(R"("use_bidirectional_attention": true)");
}

void HfTranslateTest::refusals()
{
    QFETCH(QByteArray, type);
    QFETCH(QByteArray, member);
    const QByteArray key = member.mid(1, member.indexOf('"', 1) - 1);
    QByteArray config = configOf(type);
    for (const char *given : {"\"num_key_value_heads\": 2, ", ", \"rms_norm_eps\": 1e-6"}) {
        if (QByteArray(given).contains(key))
            config.replace(given, "");
    }
    QString message;
    try {
        (void)translate(config.chopped(1) + ", " + member + "}");
    } catch (const engine::Error &error) {
        message = QString::fromStdString(error.what());
    }
    QVERIFY2(message.contains("config.json: key \"" + key + "\" is "), qPrintable(message));
}

void HfTranslateTest::layersWithoutRotation()
{
    QCOMPARE(patternOf(translate(configOf("smollm3")), "smollm3.rope.layers"), QByteArray("111011"));
    QCOMPARE(
        patternOf(translate(configOf("smollm3", R"("no_rope_layers": [1, 0, 1, 0, 1, 1])")), "smollm3.rope.layers"),
        QByteArray("101011"));
    QVERIFY_EXCEPTION_THROWN((void)translate(configOf("smollm3", R"("no_rope_layers": [1, 0])")), engine::Error);
    const QByteArray full = R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention",
        "full_attention", "full_attention"])";
    QCOMPARE(patternOf(translate(configOf("cohere2", full)), "cohere2.rope.layers"), QByteArray("000000"));
    QCOMPARE(patternOf(translate(configOf("exaone4", full)), "exaone4.rope.layers"), QByteArray("000000"));
    QVERIFY(translate(configOf("exaone4", "\"sliding_window\": null, " + full)).find("exaone4.rope.layers") == nullptr);
}

void HfTranslateTest::scales()
{
    const engine::Metadata m = translate(configOf("granite", R"("embedding_multiplier": 6.0, "logits_scaling": 4.0,
        "attention_multiplier": 0.1, "residual_multiplier": 0.4)"));
    QCOMPARE(m.number("granite.embedding_scale").value(), 6.0);
    QCOMPARE(m.number("granite.logit_scale").value(), 4.0);
    QCOMPARE(m.number("granite.attention.scale").value(), 0.1);
    QCOMPARE(m.number("granite.residual_scale").value(), 0.4);
}

void HfTranslateTest::gemma()
{
    const engine::Metadata none =
        translate(configOf("gemma2", R"("attn_logit_softcapping": null, "query_pre_attn_scalar": 64)"));
    QCOMPARE(none.number("gemma2.attn_logit_softcapping").value(), 0.0);
    QCOMPARE(none.number("gemma2.final_logit_softcapping").value(), 30.0); // of the class
    QCOMPARE(none.number("gemma2.attention.scale").value(), 0.125);
    QCOMPARE(none.number("gemma2.norm_weight_offset").value(), 1.0);
    const engine::Metadata two = translate(configOf("gemma3_text", R"("rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0}})"));
    QCOMPARE(two.number("gemma3.rope.freq_base").value(), 2e6);
    QCOMPARE(two.number("gemma3.rope.freq_base_swa").value(), 5000.0);
    QCOMPARE(two.number("gemma3.rope.scaling.factor").value(), 8.0);
    QVERIFY(two.find("gemma3.rope.scaling_swa.type") == nullptr);
}

/// A model with pictures: its text part states only what differs from the class.
void HfTranslateTest::textConfig()
{
    const engine::Metadata m = translate(R"({"model_type": "gemma3", "architectures":
        ["Gemma3ForConditionalGeneration"], "eos_token_id": [1, 106], "text_config": {"model_type": "gemma3_text",
        "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}}})");
    QCOMPARE(*m.text("general.architecture"), std::string("gemma3"));
    QCOMPARE(m.integer("gemma3.embedding_length").value(), 2560);
    QCOMPARE(m.integer("gemma3.attention.head_count").value(), 8);
    QCOMPARE(m.integer("gemma3.attention.key_length").value(), 256);
    QCOMPARE(m.number("gemma3.rope.freq_base").value(), 1e6);
    QCOMPARE(m.integers("tokenizer.ggml.eos_token_ids").value(), (std::vector<std::int64_t>{1, 106}));
    QCOMPARE(flagsOf(m, "gemma3.attention.sliding_window_pattern").size(), std::size_t{34});
}

void HfTranslateTest::sparseLayers()
{
    const engine::Metadata m =
        translate(configOf("mixtral", R"("num_local_experts": 8, "num_experts_per_tok": 2, "decoder_sparse_step": 2,
                                         "mlp_only_layers": [3])"));
    QCOMPARE(m.integer("llama.expert_count").value(), 8);
    QCOMPARE(m.integer("llama.expert_used_count").value(), 2);
    QCOMPARE(patternOf(m, "llama.moe_layers"), QByteArray("010001"));
}

void HfTranslateTest::generation()
{
    QVERIFY(writeText(m_dir->filePath("generation_config.json"),
                      R"({"eos_token_id": [7, 2], "temperature": 0.6, "top_k": 20, "top_p": 0.9, "do_sample": true})"));
    const engine::Metadata m = translate(configOf("llama", R"("eos_token_id": 2)"));
    QCOMPARE(m.integers("tokenizer.ggml.eos_token_ids").value(), (std::vector<std::int64_t>{7, 2}));
    QCOMPARE(m.number("general.sampling.temp").value(), 0.6);
    QCOMPARE(m.number("general.sampling.top_k").value(), 20.0);
    QCOMPARE(m.number("general.sampling.top_p").value(), 0.9);
    QVERIFY(m.find("general.sampling.min_p") == nullptr);
    QVERIFY(writeText(m_dir->filePath("generation_config.json"), R"({"do_sample": false})"));
    QCOMPARE(translate(configOf("llama")).number("general.sampling.temp").value(), 0.0);
}

void HfTranslateTest::classNames()
{
    QByteArray config = configOf("llama");
    config.replace("\"model_type\": \"llama\"", "\"architectures\": [\"MistralForCausalLM\"]");
    QCOMPARE(*translate(config).text("general.architecture"), std::string("llama"));
}

/// Errors about a folder name the keys that its configuration has.
void HfTranslateTest::namesOfKeys()
{
    const engine::HfConfig config(R"({"n_head": 2, "num_experts": 4, "rope_parameters": {"rope_type": "yarn"}})", "c");
    QCOMPARE(engine::configKeyOf(config, "attention.head_count"), std::string("n_head"));
    QCOMPARE(engine::configKeyOf(config, "expert_count"), std::string("num_experts"));
    QCOMPARE(engine::configKeyOf(config, "attention.head_count_kv"), std::string("num_key_value_heads"));
    QCOMPARE(engine::configKeyOf(config, "rope.scaling.factor"), std::string("rope_parameters.factor"));
    QCOMPARE(engine::configKeyOf(config, "no.such_key"), std::string("no.such_key"));
}

QTEST_GUILESS_MAIN(HfTranslateTest)
#include "tst_hf_translate.moc"
