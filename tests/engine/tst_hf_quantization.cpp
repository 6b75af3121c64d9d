// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_quantization.h"

#include "engine/api/error.h"

#include <QFile>
#include <QTemporaryDir>
#include <QtTest>

using engine::HfConfig;
using engine::HfQuantization;
using engine::QuantizedScheme;
using Layout = QuantizedScheme::Layout;
using Zeros = QuantizedScheme::Zeros;

namespace {

const std::string query = "model.layers.1.self_attn.q_proj";

HfQuantization quantization(const std::string &json)
{
    const auto read = HfQuantization::read(HfConfig(R"({"quantization_config": )" + json + "}", "config.json"), "");
    if (!read)
        throw std::runtime_error("no quantization");
    return *read;
}

} // namespace

class HfQuantizationTest : public QObject {
    Q_OBJECT
private slots:
    void refusals_data();
    void refusals();
    void gptqZeroRules();
    void promisedParts();
    void gptqDynamic();
    void awqNames();
    void float8();
    void compressedGroups();
    void skipLists_data();
    void skipLists();
    void separateFile();
};

void HfQuantizationTest::refusals_data()
{
    QTest::addColumn<QString>("json");
    QTest::addColumn<QString>("key");
    QTest::addColumn<QString>("found");
    const auto add = [](const char *name, const char *json, const char *key, const char *found) {
        QTest::newRow(name) << QString::fromLatin1(json) << QString::fromLatin1(key) << QString::fromLatin1(found);
    };
    add("method", R"({"quant_method": "quark"})", "quant_method", "quark");
    add("no method", R"({"some": 1})", "quant_method", "missing");
    add("transforms", R"({"quant_method": "compressed-tensors", "config_groups": {}, "transform_config":
        {"config_groups": {"u": {"type": "hadamard"}}}})",
        "transform_config", "hadamard");
    add("sparse", R"({"quant_method": "compressed-tensors", "config_groups": {}, "sparsity_config":
        {"format": "sparse-24-bitmask"}})",
        "sparsity_config.format", "sparse-24-bitmask");
    add("bits", R"({"quant_method": "gptq", "bits": 5, "group_size": 128})", "bits", "5");
    add("group", R"({"quant_method": "gptq", "bits": 4, "group_size": 48})", "group_size", "48");
    add("marlin", R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "marlin"})",
        "checkpoint_format", "marlin");
    add("packing", R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "pack_dtype": "int16"})", "pack_dtype",
        "int16");
    add("expression", R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {"+:(": {"bits": 8}}})", "(",
        "(");
    add("gemv_fast", R"({"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemv_fast"})", "version",
        "gemv_fast");
    add("awq bits", R"({"quant_method": "awq", "bits": 8, "group_size": 128})", "bits", "8");
    add("fp8 format", R"({"quant_method": "fp8", "fmt": "e3m4"})", "fmt", "e3m4");
    add("fp8 block", R"({"quant_method": "fp8", "weight_block_size": [128, 100]})", "weight_block_size", "100");
    add("fp8 sense", R"({"quant_method": "fp8", "weight_scale_semantics": "logarithm"})", "weight_scale_semantics",
        "logarithm");
    add("nvfp4",
        R"({"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"g": {}}})",
        "format", "nvfp4-pack-quantized");
    add("fp4 groups",
        R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float"}}}})",
        "type", "float");
    add("strategy",
        R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"g": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int", "strategy": "tensor_group"}}}})",
        "strategy", "tensor_group");
    add("bnb levels", R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "int4"})",
        "bnb_4bit_quant_type", "int4");
    add("bnb without bits", R"({"quant_method": "bitsandbytes"})", "load_in_4bit", "false");
    add("bnb of both", R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": true})",
        "load_in_4bit", "true");
}

void HfQuantizationTest::refusals()
{
    QFETCH(QString, json);
    QFETCH(QString, key);
    QFETCH(QString, found);
    try {
        (void)quantization(json.toStdString());
    } catch (const engine::Error &error) {
        QCOMPARE(error.code(), engine::ErrorCode::Refused);
        const QString message = QString::fromUtf8(error.what());
        QVERIFY2(message.contains(key) && message.contains(found), qPrintable(message));
        return;
    }
    QFAIL("was not refused");
}

void HfQuantizationTest::gptqZeroRules()
{
    const auto zerosOf = [](const std::string &more) {
        return quantization(R"({"quant_method": "gptq", "bits": 4, "group_size": -1, "sym": false)" + more + "}")
            .schemeOf(query)
            .zeros;
    };
    QCOMPARE(zerosOf(""), Zeros::LessOne);
    QCOMPARE(zerosOf(R"(, "checkpoint_format": "gptq", "meta": {"quantizer": ["gptqmodel:5.0"]})"),
             Zeros::LessOneByWords);
    QCOMPARE(zerosOf(R"(, "checkpoint_format": "gptq", "meta": {"quantizer": "optimum:1.2"})"), Zeros::LessOne);
    QCOMPARE(zerosOf(R"(, "checkpoint_format": "gptq_v2", "meta": {"quantizer": ["gptqmodel:5.0"]})"), Zeros::AsStored);
    QCOMPARE(zerosOf(R"(, "format": "gptq_v2")"), Zeros::AsStored);
    QCOMPARE(quantization(R"({"bits": 8, "group_size": -1})").schemeOf(query).groupSize, 0); // older files
}

void HfQuantizationTest::promisedParts()
{
    const auto needs = [](const std::string &json) {
        const auto scheme = quantization(json).schemeOf(query);
        return std::string(scheme.needsZeros ? "zeros " : "") + (scheme.needsOrder ? "order" : "");
    };
    QCOMPARE(needs(R"({"quant_method": "awq", "bits": 4, "group_size": 32})"), std::string("zeros "));
    QCOMPARE(needs(R"({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": false})"), std::string());
    QCOMPARE(needs(R"({"quant_method": "gptq", "bits": 4, "group_size": 32})"), std::string());
    QCOMPARE(needs(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})"), std::string("order"));
    QCOMPARE(needs(R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
        "weights": {"num_bits": 4, "group_size": 32, "symmetric": false, "actorder": "group"}}}})"),
             std::string("zeros order"));
    QCOMPARE(needs(R"({"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["Linear"],
        "weights": {"num_bits": 4, "group_size": 32, "actorder": "weight"}}}})"),
             std::string());
}

void HfQuantizationTest::gptqDynamic()
{
    const HfQuantization found = quantization(R"({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": true,
        "dynamic": {"+:model\\.layers\\.1\\..*q_proj": {"bits": 8, "group_size": 64}, "-:.*lm_head": {},
                    "layers.2": {"bits": 2}}})");
    QCOMPARE(found.schemeOf(query).bits, 8);
    QCOMPARE(found.schemeOf(query).groupSize, 64);
    QVERIFY(found.schemeOf(query).symmetric);
    QCOMPARE(found.schemeOf("model.layers.11.self_attn.q_proj").bits, 4);
    QCOMPARE(found.schemeOf("model.layers.2.mlp.up_proj").bits, 4); // expressions begin at the name's start
    QVERIFY(found.skips("lm_head"));
    QVERIFY(!found.skips(query));
}

void HfQuantizationTest::awqNames()
{
    const HfQuantization older = quantization(R"({"w_bit": 4, "q_group_size": 64, "zero_point": true,
        "version": "GEMV"})");
    QCOMPARE(older.schemeOf(query).layout, Layout::AwqGemv);
    QCOMPARE(older.schemeOf(query).groupSize, 64);
    QCOMPARE(quantization(R"({"quant_method": "awq", "bits": 4, "group_size": 128})").schemeOf(query).layout,
             Layout::AwqGemm);
}

void HfQuantizationTest::float8()
{
    const QuantizedScheme plain = quantization(R"({"quant_method": "fp8"})").schemeOf(query);
    QCOMPARE(plain.layout, Layout::Float8);
    QCOMPARE(plain.blockRows, 0);
    QVERIFY(!plain.inverseScales);
    const QuantizedScheme blocks =
        quantization(R"({"quant_method": "fp8", "weight_block_size": [64, 128], "weight_scale_semantics": "inverse"})")
            .schemeOf(query);
    QCOMPARE(blocks.blockRows, 64);
    QCOMPARE(blocks.blockColumns, 128);
    QVERIFY(blocks.inverseScales);
}

void HfQuantizationTest::compressedGroups()
{
    const HfQuantization found = quantization(R"({"quant_method": "compressed-tensors", "format": "mixed-precision",
        "config_groups": {
            "a": {"targets": ["re:.*q_proj$"], "format": "pack-quantized",
                  "weights": {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}},
            "b": {"targets": ["model.layers.1.self_attn.k_proj"], "format": "float-quantized",
                  "weights": {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": "128x64"}},
            "c": {"targets": ["re:.*down_proj"], "format": "int-quantized",
                  "weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}})");
    QCOMPARE(found.schemeOf(query).groupSize, 32);
    QCOMPARE(found.schemeOf("model.layers.1.self_attn.k_proj").blockColumns, 64);
    QCOMPARE(found.schemeOf("model.layers.1.mlp.down_proj").bits, 8);
    try {
        (void)found.schemeOf("model.layers.1.mlp.up_proj");
        QFAIL("a module without a group was given one");
    } catch (const engine::Error &error) {
        QVERIFY(QString::fromUtf8(error.what()).contains(QStringLiteral("mlp.up_proj")));
    }
}

void HfQuantizationTest::skipLists_data()
{
    QTest::addColumn<QString>("json");
    QTest::addColumn<QString>("module");
    QTest::addColumn<bool>("skips");
    const auto add = [](const char *json, const char *module, bool skips) {
        QTest::addRow("%s in %s", module, json) << QString::fromLatin1(json) << QString::fromLatin1(module) << skips;
    };
    constexpr const char *awq = R"({"quant_method": "awq", "bits": 4, "modules_to_not_convert": ["self_attn.q"]})";
    add(awq, "model.layers.1.self_attn.q_proj", true); // a piece of the name
    add(awq, "model.layers.1.self_attn.k_proj", false);
    constexpr const char *fp8 = R"({"quant_method": "fp8", "ignored_layers": ["model.layers.1", "lm_head"]})";
    add(fp8, "model.layers.1.self_attn.q_proj", true);
    add(fp8, "model.layers.11.self_attn.q_proj", false); // whole parts of names
    add(fp8, "lm_head", true);
    constexpr const char *compressed = R"({"quant_method": "compressed-tensors", "config_groups": {},
        "ignore": ["re:.*mlp\\.gate$", "lm_head"]})";
    add(compressed, "model.layers.1.mlp.gate", true);
    add(compressed, "model.layers.1.mlp.gate_proj", false);
    add(compressed, "lm_head", true);
}

void HfQuantizationTest::skipLists()
{
    QFETCH(QString, json);
    QFETCH(QString, module);
    QFETCH(bool, skips);
    QCOMPARE(quantization(json.toStdString()).skips(module.toStdString()), skips);
}

void HfQuantizationTest::separateFile()
{
    const QTemporaryDir dir;
    const HfConfig none("{}", "config.json");
    QVERIFY(!HfQuantization::read(none, dir.path().toStdString()));
    QFile file(dir.filePath(QStringLiteral("quantize_config.json")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(R"({"bits": 4, "group_size": 128, "desc_act": true, "sym": true})");
    file.close();
    const auto found = HfQuantization::read(none, dir.path().toStdString());
    QVERIFY(found.has_value());
    QCOMPARE(found->schemeOf(query).groupSize, 128);
    QVERIFY(!HfQuantization::read(HfConfig(R"({"quantization_config": {"quant_method": "mxfp4"}})", "config.json"),
                                  dir.path().toStdString()));
}

QTEST_GUILESS_MAIN(HfQuantizationTest)
#include "tst_hf_quantization.moc"
