// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/inspect.h"
#include "engine/io/checkpoint.h"
#include "engine/models/hf_names.h"
#include "engine/models/hf_tensors.h"
#include "engine/models/model_files.h"
#include "tests/support/safetensors_builder.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <cstring>
#include <functional>
#include <memory>

using engine::HfForm;

namespace {

const QByteArray llamaConfig = R"({"model_type": "llama", "hidden_size": 8, "intermediate_size": 12,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 10,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5})";

SafetensorsBuilder layerZero()
{
    SafetensorsBuilder builder;
    builder.counting("model.layers.0.input_layernorm.weight", {8})
        .counting("model.layers.0.self_attn.q_proj.weight", {8, 8})
        .counting("model.layers.0.self_attn.k_proj.weight", {4, 8})
        .counting("model.layers.0.self_attn.v_proj.weight", {4, 8})
        .counting("model.layers.0.self_attn.o_proj.weight", {8, 8})
        .counting("model.layers.0.post_attention_layernorm.weight", {8})
        .counting("model.layers.0.mlp.gate_proj.weight", {12, 8})
        .counting("model.layers.0.mlp.up_proj.weight", {12, 8})
        .counting("model.layers.0.mlp.down_proj.weight", {8, 12});
    return builder;
}

SafetensorsBuilder wholeLlama()
{
    SafetensorsBuilder builder = layerZero();
    builder.counting("model.embed_tokens.weight", {10, 8}).counting("model.norm.weight", {8});
    return builder;
}

std::vector<float> floatsOf(const engine::Checkpoint &checkpoint, const char *name)
{
    const engine::TensorInfo *tensor = checkpoint.find(name);
    if (tensor == nullptr || tensor->type != kernels::DType::F32)
        return {};
    const std::span<const std::byte> bytes = checkpoint.bytes(*tensor);
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

QString errorOf(const std::function<void()> &action)
{
    try {
        action();
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
    return {};
}

} // namespace

/// Folders as checkpoints: which files they are made of, what their tensors become, what is refused.
class HfFolderTest : public QObject {
    Q_OBJECT

private slots:
    void init();
    void tensorsCarryOurNames();
    void dataThatIsNotAligned();
    void tiedHead_data();
    void tiedHead();
    void brokenPromises_data();
    void brokenPromises();
    void fusedBias();
    void shards();
    void shardFaults_data();
    void shardFaults();
    void filesWithoutAnIndex();
    void changedShard();
    void namesOfModelsThatHoldATextModel();
    void layersForSpeculationAreLeftOut();
    void duplicateMeaning();
    void refusals_data();
    void refusals();
    void names_data();
    void names();
    void namesInErrors();
    void expertForms();
    void mxfp4Blocks();
    void description();

private:
    [[nodiscard]] QString at(const QString &name) const { return m_dir->filePath(name); }
    [[nodiscard]] std::unique_ptr<engine::Checkpoint> open() const
    {
        return engine::openModelFiles(m_dir->path().toStdString());
    }
    [[nodiscard]] bool writeShards(const QByteArray &map) const;

    std::unique_ptr<QTemporaryDir> m_dir;
};

void HfFolderTest::init()
{
    m_dir = std::make_unique<QTemporaryDir>();
    QVERIFY(writeText(at("config.json"), llamaConfig));
}

void HfFolderTest::tensorsCarryOurNames()
{
    QVERIFY(wholeLlama().counting("model.layers.0.self_attn.rotary_emb.inv_freq", {2}).write(at("model.safetensors")));
    const auto checkpoint = open();
    QCOMPARE(*checkpoint->metadata().text("general.architecture"), std::string("llama"));
    QCOMPARE(checkpoint->metadata().integer("llama.block_count"), std::optional<std::int64_t>(1));
    QCOMPARE(checkpoint->metadata().boolean("llama.rope.interleaved"), std::optional<bool>(false));
    QCOMPARE(checkpoint->tensors().size(), std::size_t{11}); // all but the derived one
    const engine::TensorInfo *down = checkpoint->find("blk.0.ffn_down.weight");
    QVERIFY(down != nullptr);
    QCOMPARE(down->shape, (std::vector<std::int64_t>{8, 12}));
    const std::vector<float> values = floatsOf(*checkpoint, "blk.0.ffn_down.weight");
    QCOMPARE(values.size(), std::size_t{96});
    QCOMPARE(values.back(), 95.0F);
    QVERIFY(checkpoint->checkUnchanged().empty());
    for (const char *name : {"config.json", "model.safetensors"}) // what a dialog may give instead of the folder
        QCOMPARE(engine::openModelFiles(at(name).toStdString())->tensors().size(), std::size_t{11});
}

/// Headers of any length are allowed, so data may stand at any byte.
void HfFolderTest::dataThatIsNotAligned()
{
    for (int spaces = 0; spaces < 8; ++spaces) {
        QVERIFY(wholeLlama().pad(spaces).write(at("model.safetensors")));
        const auto checkpoint = open();
        for (const engine::TensorInfo &tensor : checkpoint->tensors())
            QCOMPARE(reinterpret_cast<std::uintptr_t>(checkpoint->bytes(tensor).data()) % 4, std::uintptr_t{0});
        QCOMPARE(floatsOf(*checkpoint, "output_norm.weight").at(7), 7.0F);
        checkpoint->releasePages(*checkpoint->find("output_norm.weight"));
        QCOMPARE(floatsOf(*checkpoint, "output_norm.weight").at(7), 7.0F);
    }
}

void HfFolderTest::tiedHead_data()
{
    QTest::addColumn<QByteArray>("flag");
    QTest::addColumn<bool>("hasHead");
    QTest::addColumn<int>("warnings");
    QTest::newRow("true, absent") << QByteArray("true") << false << 0;
    QTest::newRow("true, present") << QByteArray("true") << true << 1;
    QTest::newRow("false, absent") << QByteArray("false") << false << 1;
    QTest::newRow("false, present") << QByteArray("false") << true << 0;
    QTest::newRow("missing, absent") << QByteArray() << false << 0;
    QTest::newRow("missing, present") << QByteArray() << true << 0;
}

/// The tensors decide; a flag that disagrees is reported.
void HfFolderTest::tiedHead()
{
    QFETCH(QByteArray, flag);
    QFETCH(bool, hasHead);
    QFETCH(int, warnings);
    if (!flag.isEmpty())
        QVERIFY(writeText(at("config.json"), llamaConfig.chopped(1) + ", \"tie_word_embeddings\": " + flag + "}"));
    SafetensorsBuilder builder = wholeLlama();
    if (hasHead)
        builder.counting("lm_head.weight", {10, 8}, 100);
    QVERIFY(builder.write(at("model.safetensors")));
    const auto checkpoint = open();
    QCOMPARE(checkpoint->find("output.weight") != nullptr, hasHead);
    QCOMPARE(static_cast<int>(checkpoint->warnings().size()), warnings);
}

/// What config.json promises and the weights lack is never made up or left out.
void HfFolderTest::brokenPromises_data()
{
    QTest::addColumn<QByteArray>("more");
    QTest::addColumn<QByteArray>("wanted");
    QTest::newRow("biases of attention") << QByteArray("\"attention_bias\": true")
                                         << QByteArray("model.layers.0.self_attn.q_proj.bias");
    QTest::newRow("biases of the rest") << QByteArray("\"mlp_bias\": true")
                                        << QByteArray("model.layers.0.mlp.up_proj.bias");
    QTest::newRow("rows") << QByteArray("\"vocab_size\": 11") << QByteArray("model.embed_tokens.weight");
}

void HfFolderTest::brokenPromises()
{
    QFETCH(QByteArray, more);
    QFETCH(QByteArray, wanted);
    QVERIFY(wholeLlama().write(at("model.safetensors")));
    QVERIFY(open() != nullptr);
    const QByteArray key = more.mid(1, more.indexOf('"', 1) - 1);
    QByteArray config = llamaConfig;
    config.replace("\"vocab_size\": 10,", key == "vocab_size" ? "" : "\"vocab_size\": 10,");
    QVERIFY(writeText(at("config.json"), config.chopped(1) + ", " + more + "}"));
    const QString message = errorOf([this] { (void)open(); });
    QVERIFY2(message.contains("config.json") && message.contains("key \"" + key + "\"") && message.contains(wanted),
             qPrintable(message));
}

/// One bias for queries, keys and values together keeps the promise too.
void HfFolderTest::fusedBias()
{
    SafetensorsBuilder builder = wholeLlama();
    builder.counting("model.layers.0.self_attn.qkv_proj.bias", {16});
    QVERIFY(builder.write(at("model.safetensors")));
    QVERIFY(writeText(at("config.json"), llamaConfig.chopped(1) + ", \"attention_bias\": true}"));
    QVERIFY(open()->find("blk.0.attn_qkv.bias") != nullptr);
}

bool HfFolderTest::writeShards(const QByteArray &map) const
{
    SafetensorsBuilder second;
    second.counting("model.embed_tokens.weight", {10, 8}).counting("model.norm.weight", {8});
    return layerZero().write(at("model-00001-of-00002.safetensors"))
        && second.write(at("model-00002-of-00002.safetensors"))
        && writeText(at("model.safetensors.index.json"),
                     "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {" + map + "}}");
}

namespace {

QByteArray soundMap()
{
    QByteArray map = R"("model.embed_tokens.weight": "model-00002-of-00002.safetensors",
        "model.norm.weight": "model-00002-of-00002.safetensors")";
    for (const char *part :
         {"input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
          "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
        map += QByteArray(", \"model.layers.0.") + part + ".weight\": \"model-00001-of-00002.safetensors\"";
    return map;
}

} // namespace

void HfFolderTest::shards()
{
    QVERIFY(writeShards(soundMap()));
    const auto checkpoint = open();
    QCOMPARE(checkpoint->tensors().size(), std::size_t{11});
    QCOMPARE(checkpoint->find("output_norm.weight")->file, 1);
    QCOMPARE(floatsOf(*checkpoint, "output_norm.weight").at(3), 3.0F);
}

void HfFolderTest::shardFaults_data()
{
    QTest::addColumn<QByteArray>("map");
    QTest::addColumn<QString>("removed");
    QTest::addColumn<QString>("added");
    QTest::addColumn<QStringList>("words");
    const QByteArray map = soundMap();
    QTest::newRow("missing shard") << map << "model-00002-of-00002.safetensors" << QString()
                                   << QStringList{"missing", "model-00002-of-00002.safetensors"};
    QTest::newRow("extra shard") << map << QString() << "model-00003-of-00002.safetensors"
                                 << QStringList{"extra", "model-00003-of-00002.safetensors"};
    QTest::newRow("a second model") << map << QString() << "model.safetensors"
                                    << QStringList{"extra", "model.safetensors"};
    QTest::newRow("tensor that no shard has")
        << map + R"(, "model.absent.weight": "model-00001-of-00002.safetensors")" << QString() << QString()
        << QStringList{"missing", "model.absent.weight", "model-00001-of-00002.safetensors"};
    QByteArray lacking = map;
    lacking.replace(", \"model.layers.0.mlp.up_proj.weight\": \"model-00001-of-00002.safetensors\"", "");
    QTest::newRow("tensor that the index does not name")
        << lacking << QString() << QString() << QStringList{"extra", "model.layers.0.mlp.up_proj.weight"};
    QByteArray swapped = map;
    swapped.replace("\"model.norm.weight\": \"model-00002", "\"model.norm.weight\": \"model-00001");
    QTest::newRow("tensor in another shard")
        << swapped << QString() << QString() << QStringList{"missing", "model.norm.weight"};
    for (const char *name : {"../x.safetensors", "/etc/x.safetensors", "a\\\\b.safetensors", "https://x/y.safetensors",
                             "x.bin", ".safetensors"}) {
        QByteArray outside = map;
        outside.replace("\"model.norm.weight\": \"model-00002-of-00002.safetensors\"",
                        QByteArray("\"model.norm.weight\": \"") + name + "\"");
        QTest::newRow(name) << outside << QString() << QString() << QStringList{"shard name", "model.norm.weight"};
    }
}

void HfFolderTest::shardFaults()
{
    QFETCH(QByteArray, map);
    QFETCH(QString, removed);
    QFETCH(QString, added);
    QFETCH(QStringList, words);
    QVERIFY(writeShards(map));
    if (!removed.isEmpty())
        QVERIFY(QFile::remove(at(removed)));
    if (!added.isEmpty())
        QVERIFY(wholeLlama().write(at(added)));
    const QString error = errorOf([this] { (void)open(); });
    for (const QString &word : words)
        QVERIFY2(error.contains(word), qPrintable(word + " is not in: " + error));
}

void HfFolderTest::filesWithoutAnIndex()
{
    QVERIFY(writeShards(soundMap()));
    QVERIFY(QFile::remove(at("model.safetensors.index.json")));
    QCOMPARE(open()->warnings().size(), std::size_t{1});
    QVERIFY(QFile::remove(at("model-00001-of-00002.safetensors")));
    QVERIFY(errorOf([this] { (void)open(); }).contains("model-00001-of-00002.safetensors"));
    QVERIFY(QFile::remove(at("model-00002-of-00002.safetensors")));
    QVERIFY(errorOf([this] { (void)open(); }).contains("no .safetensors"));
    QVERIFY(wholeLlama().write(at("weights.safetensors")));
    QCOMPARE(open()->tensors().size(), std::size_t{11});
    QVERIFY(wholeLlama().write(at("other.safetensors")));
    QVERIFY(errorOf([this] { (void)open(); }).contains("2 safetensors files"));
}

void HfFolderTest::changedShard()
{
    QVERIFY(writeShards(soundMap()));
    const auto checkpoint = open();
    QVERIFY(checkpoint->checkUnchanged().empty());
    QVERIFY(QFile::resize(at("model-00002-of-00002.safetensors"), 20));
    QVERIFY(QString::fromStdString(checkpoint->checkUnchanged()).contains("model-00002-of-00002.safetensors"));
    (void)floatsOf(*checkpoint, "output_norm.weight"); // no signal kills us
}

void HfFolderTest::namesOfModelsThatHoldATextModel()
{
    QCOMPARE(engine::plainHfName("language_model.model.norm.weight"), std::string("model.norm.weight"));
    QCOMPARE(engine::plainHfName("model.language_model.norm.weight"), std::string("model.norm.weight"));
    QCOMPARE(engine::plainHfName("language_model.lm_head.weight"), std::string("lm_head.weight"));
    QCOMPARE(engine::plainHfName("layers.3.mlp.up_proj.weight"), std::string("model.layers.3.mlp.up_proj.weight"));
    QVERIFY(!engine::matchHfName("vision_tower.layers.0.mlp.up_proj.weight", {}));
}

void HfFolderTest::layersForSpeculationAreLeftOut()
{
    QVERIFY(wholeLlama().counting("model.layers.1.mlp.up_proj.weight", {12, 8}).write(at("model.safetensors")));
    QVERIFY(open()->find("blk.1.ffn_up.weight") != nullptr); // for the loader to refuse
    QVERIFY(writeText(at("config.json"), llamaConfig.chopped(1) + ", \"num_nextn_predict_layers\": 1}"));
    const auto checkpoint = open();
    QVERIFY(checkpoint->find("blk.1.ffn_up.weight") == nullptr);
    QCOMPARE(checkpoint->warnings().size(), std::size_t{1});
}

void HfFolderTest::duplicateMeaning()
{
    QVERIFY(wholeLlama().counting("norm.weight", {8}).write(at("model.safetensors")));
    const QString error = errorOf([this] { (void)open(); });
    QVERIFY2(error.contains("\"norm.weight\"") && error.contains("\"model.norm.weight\""), qPrintable(error));
}

void HfFolderTest::refusals_data()
{
    QTest::addColumn<QByteArray>("config");
    QTest::addColumn<QStringList>("words");
    const auto with = [](const char *more) { return llamaConfig.chopped(1) + ", " + more + "}"; };
    QByteArray other = llamaConfig;
    QTest::newRow("unknown type") << other.replace("\"llama\"", "\"mamba\"")
                                  << QStringList{"model_type", "mamba", "llama", "mistral"};
    QTest::newRow("no type") << QByteArray(R"({"hidden_size": 8})") << QStringList{"model_type", "missing"};
    QTest::newRow("quantised") << with(R"("quantization_config": {"quant_method": "hqq"})")
                               << QStringList{"quantization_config.quant_method", "hqq"};
    QTest::newRow("activation") << with(R"("hidden_act": "tanh")") << QStringList{"hidden_act", "tanh", "silu"};
    QTest::newRow("scaling") << with(R"("rope_scaling": {"rope_type": "mrope"})")
                             << QStringList{"rope_scaling.rope_type", "mrope", "yarn"};
    QTest::newRow("scaling without factor")
        << with(R"("rope_scaling": {"rope_type": "linear"})") << QStringList{"rope_scaling.factor", "missing"};
    QTest::newRow("kind of layer") << with(R"("layer_types": ["linear_attention"])")
                                   << QStringList{"layer_types", "linear_attention"};
    QTest::newRow("number of kinds") << with(R"("layer_types": ["full_attention", "full_attention"])")
                                     << QStringList{"layer_types", "1 entries"};
    QTest::newRow("window of no size") << with(R"("layer_types": ["sliding_attention"])")
                                       << QStringList{"sliding_window", "missing"};
    QTest::newRow("broken JSON") << QByteArray("{\"a\": ") << QStringList{"config.json", "JSON"};
    QTest::newRow("no object") << QByteArray("[1]") << QStringList{"config.json", "object"};
    QTest::newRow("heads do not divide")
        << QByteArray(llamaConfig).replace("attention_heads\": 2", "attention_heads\": 3")
        << QStringList{"hidden_size", "num_attention_heads"};
}

void HfFolderTest::refusals()
{
    QFETCH(QByteArray, config);
    QFETCH(QStringList, words);
    QVERIFY(writeText(at("config.json"), config));
    QVERIFY(wholeLlama().write(at("model.safetensors")));
    const QString error = errorOf([this] { (void)open(); });
    for (const QString &word : words)
        QVERIFY2(error.contains(word), qPrintable(word + " is not in: " + error));
}

void HfFolderTest::names_data()
{
    QTest::addColumn<QString>("hf");
    QTest::addColumn<QString>("gguf");
    QTest::newRow("weight") << "model.layers.12.self_attn.q_proj.weight" << "blk.12.attn_q.weight";
    QTest::newRow("bias") << "model.layers.12.self_attn.q_proj.bias" << "blk.12.attn_q.bias";
    QTest::newRow("expert") << "model.layers.1.mlp.experts.30.up_proj.weight" << "blk.1.ffn_up.30.weight";
    QTest::newRow("router") << "model.layers.1.mlp.gate.weight" << "blk.1.ffn_gate_inp.weight";
    QTest::newRow("no number") << "model.layers.x.mlp.gate.weight" << "";
    QTest::newRow("more behind") << "model.layers.1.mlp.gate.weight.more" << "";
    QTest::newRow("huge number") << "model.layers.99999999999999.mlp.gate.weight" << "";
    QTest::newRow("own row") << "model.layers.1.self_attn.sinks" << "blk.1.attn_sinks.weight";
}

void HfFolderTest::names()
{
    QFETCH(QString, hf);
    QFETCH(QString, gguf);
    const std::array own = {engine::HfName{"model.layers.{}.self_attn.sinks", "blk.{}.attn_sinks"}};
    const auto match = engine::matchHfName(hf.toStdString(), own);
    QCOMPARE(match ? QString::fromStdString(match->gguf) : QString(), gguf);
}

namespace {

std::vector<float> made(const engine::SafetensorsSet &set, const engine::HfTensor &tensor)
{
    std::vector<std::byte> bytes;
    if (tensor.make) {
        bytes = tensor.make();
    } else {
        const auto part = set.bytes(*tensor.source).subspan(tensor.offset, tensor.info.bytes);
        bytes.assign(part.begin(), part.end());
    }
    std::vector<float> values(bytes.size() / 4);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

} // namespace

/// Errors name tensors as the folder does.
void HfFolderTest::namesInErrors()
{
    QVERIFY(wholeLlama().write(at("model.safetensors")));
    const auto checkpoint = open();
    for (const char *name : {"model.layers.0.mlp.up_proj.weight", "model.layers.7.self_attn.k_proj.bias",
                             "model.norm.weight", "lm_head.weight"}) {
        const auto match = engine::matchHfName(name, {});
        QVERIFY(match.has_value());
        QCOMPARE(checkpoint->nameInFiles(match->gguf), std::string(name));
    }
    QCOMPARE(checkpoint->nameInFiles("blk.1.ffn_down.3.weight"),
             std::string("model.layers.1.block_sparse_moe.experts.3.w2.weight"));
    QCOMPARE(checkpoint->nameInFiles("rope_freqs.weight"), std::string("rope_freqs.weight"));
}

/// Two experts; every form gives the rows of gate and up, or of down.
void HfFolderTest::expertForms()
{
    SafetensorsBuilder builder;
    builder.counting("fused", {2, 4, 3}).counting("transposed", {2, 3, 4}).counting("bias", {2, 4});
    QVERIFY(builder.write(at("model.safetensors")));
    const auto set = engine::SafetensorsSet::openFile(at("model.safetensors").toStdString());
    const auto run = [&](const char *name, HfForm form, const char *gguf) {
        std::vector<engine::HfTensor> out;
        engine::addHfTensors(*set, *set->find(name), {gguf, form, 0}, out);
        return out;
    };
    const auto fused = run("fused", HfForm::ExpertsGateUp, "blk.0.ffn_gate.weight");
    QCOMPARE(fused.size(), std::size_t{4});
    QCOMPARE(fused[3].info.name, std::string("blk.0.ffn_up.1.weight"));
    QCOMPARE(fused[3].info.shape, (std::vector<std::int64_t>{2, 3}));
    QCOMPARE(made(*set, fused[3]), (std::vector<float>{18, 19, 20, 21, 22, 23}));
    const auto down = run("fused", HfForm::Experts, "blk.0.ffn_down.weight");
    QCOMPARE(down[1].info.name, std::string("blk.0.ffn_down.1.weight"));
    QCOMPARE(made(*set, down[1]).front(), 12.0F);
    const auto turned = run("transposed", HfForm::TransposedGateUp, "blk.0.ffn_gate.weight");
    QCOMPARE(turned[1].info.name, std::string("blk.0.ffn_up.0.weight"));
    QCOMPARE(turned[1].info.shape, (std::vector<std::int64_t>{2, 3}));
    QCOMPARE(made(*set, turned[1]), (std::vector<float>{1, 5, 9, 3, 7, 11}));
    QCOMPARE(made(*set, turned[2]), (std::vector<float>{12, 16, 20, 14, 18, 22}));
    const auto turnedDown = run("transposed", HfForm::TransposedExperts, "blk.0.ffn_down.weight");
    QCOMPARE(turnedDown[0].info.shape, (std::vector<std::int64_t>{4, 3}));
    QCOMPARE(made(*set, turnedDown[0]), (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
    const auto bias = run("bias", HfForm::GateUpBias, "blk.0.ffn_gate_exps.bias");
    QCOMPARE(bias[1].info.name, std::string("blk.0.ffn_up_exps.bias"));
    QCOMPARE(made(*set, bias[1]), (std::vector<float>{1, 3, 5, 7}));
    QVERIFY(errorOf([&] { (void)run("bias", HfForm::Experts, "x.weight"); }).contains("\"bias\""));
}

/// One expert, rows of one block each; elements 2j and 2j + 1 share a byte there, j and j + 16 here.
void HfFolderTest::mxfp4Blocks()
{
    QByteArray blocks;
    for (int i = 0; i < 2 * 16; ++i)
        blocks += static_cast<char>((2 * i % 16) | ((2 * i + 1) % 16) << 4);
    SafetensorsBuilder builder;
    builder.tensor("x_blocks", "U8", {1, 2, 1, 16}, blocks)
        .tensor("x_scales", "U8", {1, 2, 1}, QByteArray("\x7f\x80", 2));
    QVERIFY(builder.write(at("model.safetensors")));
    const auto set = engine::SafetensorsSet::openFile(at("model.safetensors").toStdString());
    std::vector<engine::HfTensor> out;
    engine::addHfTensors(*set, *set->find("x_blocks"), {"blk.0.ffn_gate.weight", HfForm::Mxfp4GateUp, 0}, out);
    QCOMPARE(out.size(), std::size_t{2});
    QCOMPARE(out[1].info.name, std::string("blk.0.ffn_up.0.weight"));
    QCOMPARE(out[1].info.shape, (std::vector<std::int64_t>{1, 32}));
    QVERIFY(out[1].info.type == kernels::DType::MXFP4);
    const std::vector<std::byte> up = out[1].make();
    QCOMPARE(up.size(), std::size_t{17});
    QCOMPARE(std::to_integer<int>(up[0]), 0x80);
    for (int j = 0; j < 16; ++j)
        QCOMPARE(std::to_integer<int>(up[std::size_t(1 + j)]), (j % 16) | ((j + 16) % 16) << 4);
}

void HfFolderTest::description()
{
    QVERIFY(writeShards(soundMap()));
    QVERIFY(writeText(at("tokenizer_config.json"), R"({"chat_template": "{{ messages }}"})"));
    const engine::ModelDescription whole = engine::inspectModel(m_dir->path().toStdString(), true, true);
    QCOMPARE(whole.format, std::string("safetensors"));
    QCOMPARE(whole.architecture, std::string("llama"));
    QCOMPARE(whole.parameters, std::int64_t{8 * 8 * 2 + 4 * 8 * 2 + 12 * 8 * 3 + 8 * 3 + 80});
    QCOMPARE(whole.tensorTypes.at("F32"), 11);
    QVERIFY(whole.hasChatTemplate);
    QCOMPARE(whole.layers, std::int64_t{1});
    QCOMPARE(whole.tensors.size(), std::size_t{11});
    QCOMPARE(whole.tensors.front().name, std::string("model.layers.0.input_layernorm.weight"));
    const auto one = engine::inspectModel(at("model-00002-of-00002.safetensors").toStdString());
    QCOMPARE(one.tensorTypes.at("F32"), 2);
    QCOMPARE(engine::inspectModel(at("model.safetensors.index.json").toStdString()).tensorTypes.at("F32"), 11);
    QVERIFY(writeText(at("config.json"), R"({"model_type": "mamba"})"));
    const auto unknown = engine::inspectModel(m_dir->path().toStdString());
    QCOMPARE(unknown.architecture, std::string("mamba"));
    QVERIFY(!unknown.warnings.empty());
}

QTEST_GUILESS_MAIN(HfFolderTest)
#include "tst_hf_folder.moc"
