// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/io/safetensors_set.h"
#include "engine/models/hf_names.h"
#include "engine/models/model_files.h"
#include "engine/runtime/gguf_types_form.h"
#include "engine/runtime/model_runner.h"
#include "tests/support/shared_data.h"
#include "tests/support/tensor_file.h"
#include "tests/support/tiny_model.h"

#include <QCryptographicHash>
#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTemporaryDir>
#include <QtTest>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace {

constexpr int blockTokens = 16;

QJsonObject goldenOf(const QString &folder)
{
    return QJsonDocument::fromJson(shared_data::read(folder + QStringLiteral("/golden.json"))).object();
}

std::vector<int> idsOf(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

/// A matrix as the file means it, columns in place.
std::vector<float> expand(const engine::Checkpoint &checkpoint, const engine::TensorInfo &tensor)
{
    const std::int64_t columns = tensor.shape[1];
    const std::size_t rowBytes = kernels::rowBytes(tensor.type, columns);
    const std::byte *bytes = checkpoint.bytes(tensor).data();
    const std::span<const std::int32_t> order = checkpoint.columnOrder(tensor);
    std::vector<float> values(static_cast<std::size_t>(tensor.shape[0] * columns));
    std::vector<float> stored(static_cast<std::size_t>(columns));
    for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
        kernels::dequantize(tensor.type, bytes + static_cast<std::size_t>(row) * rowBytes, stored.data(), columns);
        for (std::size_t k = 0; k < stored.size(); ++k)
            values[static_cast<std::size_t>(row * columns) + (order.empty() ? k : static_cast<std::size_t>(order[k]))] =
                stored[k];
    }
    return values;
}

QByteArray hashOf(const std::vector<float> &values)
{
    const QByteArray bytes = QByteArray::fromRawData(reinterpret_cast<const char *>(values.data()),
                                                     static_cast<qsizetype>(values.size() * sizeof(float)));
    return QCryptographicHash::hash(bytes, QCryptographicHash::Sha256).toHex();
}

/// A matrix of I8 with an F16 scale for each row, straight from the file.
std::vector<float> int8Values(const QString &folder, const std::string &name)
{
    const auto set = engine::SafetensorsSet::openFolder(folder.toStdString());
    const auto *numbers = set->find(name);
    const auto *scales = set->find(name + "_scale");
    if (numbers == nullptr || scales == nullptr)
        return {};
    const std::span<const std::byte> bytes = set->bytes(*numbers);
    const auto columns = static_cast<std::size_t>(numbers->tensor.shape[1]);
    std::vector<float> values;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, set->bytes(*scales).data() + i / columns * sizeof half, sizeof half);
        values.push_back(static_cast<float>(static_cast<std::int8_t>(bytes[i])) * kernels::halfToFloat(half));
    }
    return values;
}

constexpr std::int64_t hidden = 64;
constexpr std::int64_t inner = 96;
constexpr std::int64_t group = 32;

constexpr const char *gptqConfig =
    R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true, "sym": false, "checkpoint_format": "gptq"})";

/// One layer of a llama in a folder: as GPTQ with every module's columns in an order of its own, or the same weights as
/// F32.
class LlamaFolder {
public:
    explicit LlamaFolder(bool quantized)
        : m_quantized(quantized)
    {
        m_config[QStringLiteral("model_type")] = QStringLiteral("llama");
        m_config[QStringLiteral("hidden_size")] = int{hidden};
        m_config[QStringLiteral("intermediate_size")] = int{inner};
        m_config[QStringLiteral("num_hidden_layers")] = 1;
        m_config[QStringLiteral("num_attention_heads")] = 2;
        m_config[QStringLiteral("num_key_value_heads")] = 1;
        m_config[QStringLiteral("vocab_size")] = int{hidden};
        m_config[QStringLiteral("max_position_embeddings")] = 128;
        m_config[QStringLiteral("attention_bias")] = true;
        if (quantized)
            setQuantization(gptqConfig);
        addFloats("model.embed_tokens.weight", {hidden, hidden}, 1.0F);
        addFloats("model.norm.weight", {hidden}, 1.0F);
        addFloats("model.layers.0.input_layernorm.weight", {hidden}, 1.0F);
        addFloats("model.layers.0.post_attention_layernorm.weight", {hidden}, 1.0F);
        const std::string layer = "model.layers.0.";
        addLinear(layer + "self_attn.q_proj", hidden, hidden, true);
        addLinear(layer + "self_attn.k_proj", 32, hidden, true);
        addLinear(layer + "self_attn.v_proj", 32, hidden, true);
        addLinear(layer + "self_attn.o_proj", hidden, hidden, true);
        addLinear(layer + "mlp.gate_proj", inner, hidden, false);
        addLinear(layer + "mlp.up_proj", inner, hidden, false);
        addLinear(layer + "mlp.down_proj", hidden, inner, false);
        addLinear("lm_head", hidden, hidden, false);
    }

    TensorFile file;

    void setQuantization(const char *json)
    {
        m_config[QStringLiteral("quantization_config")] = QJsonDocument::fromJson(json).object();
    }
    void eraseQuantization() { m_config.remove(QStringLiteral("quantization_config")); }

    [[nodiscard]] std::unique_ptr<engine::Checkpoint> open() const
    {
        QFile config(m_dir.filePath(QStringLiteral("config.json")));
        if (!file.write(m_dir.filePath(QStringLiteral("model.safetensors"))) || !config.open(QIODevice::WriteOnly)
            || config.write(QJsonDocument(m_config).toJson()) <= 0)
            throw std::runtime_error("cannot write the test's folder");
        config.close();
        return engine::openModelFiles(m_dir.path().toStdString());
    }
    [[nodiscard]] QString refusal() const
    {
        try {
            (void)open();
        } catch (const engine::Error &error) {
            return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what()) : QString();
        }
        return {};
    }

private:
    static float pseudo(std::uint32_t seed)
    {
        seed = seed * 2654435761U + 12345U;
        seed ^= seed >> 13;
        seed *= 1597334677U;
        return static_cast<float>(seed >> 20) / 2048.0F - 1.0F;
    }

    void addFloats(const std::string &name, const std::vector<std::int64_t> &shape, float middle)
    {
        std::int64_t count = 1;
        for (const std::int64_t size : shape)
            count *= size;
        std::vector<float> values;
        for (std::int64_t i = 0; i < count; ++i)
            values.push_back(middle + pseudo(m_seed++) / 2);
        file.add(name, "F32", shape, values);
    }

    void addLinear(const std::string &name, std::int64_t rows, std::int64_t columns, bool bias)
    {
        const std::int64_t groups = columns / group;
        const std::int64_t step = 35 + 2 * (m_modules++ % 4) * 6; // odd, so that it shares no factor with 64 or 32
        std::vector<std::int32_t> index;
        for (std::int64_t k = 0; k < columns; ++k)
            index.push_back(static_cast<std::int32_t>((columns == inner ? k * 35 : k * step) % columns / group));
        std::vector<std::uint32_t> weight(static_cast<std::size_t>(columns / 8 * rows));
        std::vector<std::uint32_t> zeros(static_cast<std::size_t>(groups * rows / 8));
        std::vector<std::uint16_t> scales;
        for (std::int64_t i = 0; i < groups * rows; ++i) {
            scales.push_back(kernels::floatToHalf(0.01F + 0.004F * pseudo(m_seed++)));
            zeros[static_cast<std::size_t>(i / 8)] |= static_cast<std::uint32_t>(4 + i % 7) << (i % 8 * 4); // less one
        }
        std::vector<float> values;
        for (std::int64_t row = 0; row < rows; ++row) {
            for (std::int64_t k = 0; k < columns; ++k) {
                const int number = static_cast<int>((pseudo(m_seed++) + 1.0F) * 8.0F);
                weight[static_cast<std::size_t>(k / 8 * rows + row)] |= static_cast<std::uint32_t>(number)
                    << (k % 8 * 4);
                const std::int64_t at = index[static_cast<std::size_t>(k)] * rows + row;
                values.push_back(static_cast<float>(number - (5 + static_cast<int>(at % 7)))
                                 * kernels::halfToFloat(scales[static_cast<std::size_t>(at)]));
            }
        }
        if (m_quantized) {
            file.add(name + ".qweight", "I32", {columns / 8, rows}, weight);
            file.add(name + ".qzeros", "I32", {groups, rows / 8}, zeros);
            file.add(name + ".scales", "F16", {groups, rows}, scales);
            file.add(name + ".g_idx", "I32", {columns}, index);
        } else {
            file.add(name + ".weight", "F32", {rows, columns}, values);
        }
        if (bias)
            addFloats(name + ".bias", {rows}, 0.25F);
    }

    bool m_quantized;
    std::uint32_t m_seed = 1;
    std::int64_t m_modules = 0;
    QTemporaryDir m_dir;
    QJsonObject m_config;
};

std::vector<float> logitsOf(const engine::Checkpoint &checkpoint, bool reference)
{
    auto runner = tiny_model::makeRunner(checkpoint, {.reference = reference, .threads = 2}, kernels::DType::F32);
    runner->resizeKv({4, blockTokens});
    std::vector<int> ids;
    for (int i = 0; i < 40; ++i)
        ids.push_back(i * 7 % static_cast<int>(hidden));
    return tiny_model::allLogits(*runner, ids, 0, blockTokens);
}

} // namespace

/// Folders of quantised models with goldens by transformers from the dequantised weights.
class QuantizedModelsTest : public QObject {
    Q_OBJECT
private slots:
    void values_data() { addFolders(); }
    void values();
    void logits_data() { addFolders(); }
    void logits();
    void columnOrdersOfFusedParts();
    void formOfGguf();
    void biasAndHead();
    void skipListThatDisagrees();
    void refusedFolders();

private:
    static void addFolders();
};

void QuantizedModelsTest::addFolders()
{
    QTest::addColumn<QString>("folder");
    const QString root = shared_data::path(QStringLiteral("tiny/quant"));
    if (root.isEmpty())
        QSKIP("tiny/quant of the reference data is not there");
    for (const QString &name : QDir(root).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name))
        QTest::newRow(qPrintable(name)) << root + QLatin1Char('/') + name;
}

void QuantizedModelsTest::values()
{
    QFETCH(QString, folder);
    const auto checkpoint = engine::openModelFiles(folder.toStdString());
    for (const std::string &warning : checkpoint->warnings())
        QFAIL(warning.c_str());
    const QJsonObject matrices = goldenOf(folder)[QStringLiteral("dequantised")].toObject();
    QVERIFY(!matrices.isEmpty());
    for (auto it = matrices.begin(); it != matrices.end(); ++it) {
        const auto match = engine::matchHfName(it.key().toStdString(), {});
        QVERIFY(match.has_value());
        const engine::TensorInfo *tensor = checkpoint->find(match->gguf);
        QVERIFY2(tensor != nullptr && kernels::info(tensor->type).quantized, match->gguf.c_str());
        const std::vector<float> values = expand(*checkpoint, *tensor);
        const QJsonArray samples = it.value()[QStringLiteral("samples")].toArray();
        for (int i = 0; i < samples.size(); ++i) {
            const std::size_t at =
                (values.size() - 1) * static_cast<std::size_t>(i) / static_cast<std::size_t>(samples.size() - 1);
            QCOMPARE(values[at], static_cast<float>(samples[i].toDouble()));
        }
        // Golden floats of int8 weights have zeros of both signs, which int8 has not; there the bytes decide.
        if (folder.endsWith(QStringLiteral("ct-w8a8")))
            QCOMPARE(values, int8Values(folder, it.key().toStdString()));
        else
            QCOMPARE(hashOf(values), it.value()[QStringLiteral("sha256")].toString().toLatin1());
        checkpoint->releasePages(*tensor);
    }
}

void QuantizedModelsTest::logits()
{
    QFETCH(QString, folder);
    const QJsonArray prompts = goldenOf(folder)[QStringLiteral("prompts")].toArray();
    const QByteArray bytes = shared_data::read(folder + QStringLiteral("/logits.f32"));
    std::vector<float> wanted(static_cast<std::size_t>(bytes.size()) / sizeof(float));
    std::memcpy(wanted.data(), bytes.constData(), wanted.size() * sizeof(float));
    const auto vocab = static_cast<std::ptrdiff_t>(wanted.size() / static_cast<std::size_t>(prompts.size()));
    const auto checkpoint = engine::openModelFiles(folder.toStdString());
    for (const bool reference : {true, false}) {
        auto runner = tiny_model::makeRunner(*checkpoint, {.reference = reference, .threads = 2},
                                             reference ? kernels::DType::F32 : kernels::DType::F16);
        runner->resizeKv({8, blockTokens});
        std::vector<float> found;
        for (const QJsonValue &prompt : prompts) {
            const std::vector<float> all = tiny_model::allLogits(*runner, idsOf(prompt), 0, blockTokens);
            found.insert(found.end(), all.end() - vocab, all.end());
        }
        const tiny_model::Difference difference = tiny_model::compare(found, wanted);
        const QString text = QStringLiteral("max %1, nmse %2").arg(difference.maxAbs).arg(difference.nmse);
        qInfo("%s: %s", reference ? "reference" : "cpu", qPrintable(text));
        QVERIFY2(reference ? difference.maxAbs <= 1e-3 : difference.nmse <= 2e-3, qPrintable(text));
    }
}

/// Query, key and value, and gate and up, are one matrix here, and each has an order of its own.
void QuantizedModelsTest::columnOrdersOfFusedParts()
{
    const LlamaFolder quantizedFolder(true);
    const LlamaFolder floatFolder(false);
    const auto quantized = quantizedFolder.open();
    const auto floats = floatFolder.open();
    const auto orderOf = [&](const char *name) { return quantized->columnOrder(*quantized->find(name)); };
    QVERIFY(!std::ranges::equal(orderOf("blk.0.attn_q.weight"), orderOf("blk.0.attn_k.weight")));
    const std::vector<float> wanted = logitsOf(*floats, true);
    const tiny_model::Difference reference = tiny_model::compare(logitsOf(*quantized, true), wanted);
    QVERIFY2(reference.maxAbs <= 1e-5, qPrintable(QString::number(reference.maxAbs)));
    const tiny_model::Difference cpu = tiny_model::compare(logitsOf(*quantized, false), wanted);
    QVERIFY2(cpu.nmse <= 2e-3, qPrintable(QString::number(cpu.nmse)));
}

/// What is written as GGUF is seen as floats with its columns in place.
void QuantizedModelsTest::formOfGguf()
{
    const LlamaFolder quantizedFolder(true);
    const LlamaFolder floatFolder(false);
    const auto form = engine::withGgufTypes(quantizedFolder.open());
    const auto floats = floatFolder.open();
    QCOMPARE(form->tensors().size(), floats->tensors().size());
    for (const engine::TensorInfo &wanted : floats->tensors()) {
        const engine::TensorInfo *found = form->find(wanted.name);
        QVERIFY2(found != nullptr, wanted.name.c_str());
        QCOMPARE(found->type, kernels::DType::F32);
        QCOMPARE(found->shape, wanted.shape);
        QVERIFY(form->columnOrder(*found).empty());
        QVERIFY2(std::ranges::equal(form->bytes(*found), floats->bytes(wanted)), wanted.name.c_str());
        form->releasePages(*found);
    }
}

void QuantizedModelsTest::biasAndHead()
{
    const LlamaFolder folder(true);
    const auto checkpoint = folder.open();
    for (const char *part : {"attn_q", "attn_k", "attn_v", "attn_output"})
        QVERIFY(checkpoint->find("blk.0." + std::string(part) + ".bias") != nullptr);
    QCOMPARE(checkpoint->find("output.weight")->type, kernels::DType::INT4);
    QCOMPARE(checkpoint->find("token_embd.weight")->type, kernels::DType::F32);
    QVERIFY(checkpoint->warnings().empty());
}

void QuantizedModelsTest::skipListThatDisagrees()
{
    LlamaFolder folder(true);
    folder.setQuantization(R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": false,
        "dynamic": {"-:.*(k|v)_proj": {}}})");
    const std::vector<std::string> warnings = folder.open()->warnings();
    QCOMPARE(warnings.size(), 1U);
    QVERIFY(warnings[0].find("self_attn.k_proj") != std::string::npos);
    QVERIFY(warnings[0].find("2 modules") != std::string::npos);
}

void QuantizedModelsTest::refusedFolders()
{
    LlamaFolder unnamed(true);
    unnamed.eraseQuantization();
    const QString without = unnamed.refusal();
    QVERIFY2(without.contains(QStringLiteral("quantization_config")) && without.contains(QStringLiteral("lm_head.")),
             qPrintable(without));
    LlamaFolder other(true);
    other.setQuantization(R"({"quant_method": "hqq"})");
    QVERIFY(other.refusal().contains(QStringLiteral("hqq")));
    LlamaFolder unknown(true);
    unknown.file.add("model.layers.0.mlp.up_proj.weight_scale_2", "F32", {1}, std::vector<float>{2.0F});
    QVERIFY(unknown.refusal().contains(QStringLiteral("model.layers.0.mlp.up_proj.weight_scale_2")));
}

QTEST_GUILESS_MAIN(QuantizedModelsTest)
#include "tst_quantized_models.moc"
