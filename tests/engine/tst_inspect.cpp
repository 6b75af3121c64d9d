// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/inspect.h"
#include "tests/support/gguf_builder.h"

#include <QTemporaryDir>
#include <QTest>

#include <limits>

using engine::ModelDescription;

namespace {

GgufBuilder tinyModel()
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama")
        .text("general.name", "Tiny")
        .u32("llama.context_length", 64)
        .u32("llama.block_count", 2);
    builder.texts("tokenizer.ggml.tokens", {"a", "b", "c"}).u32("tokenizer.ggml.bos_token_id", 1);
    builder.text("tokenizer.chat_template", "{{ messages }}");
    builder.tensor("token_embd.weight", {3, 4}, std::vector<float>(12, 0.5F));
    builder.tensor("blk.0.attn_q.weight", kernels::DType::Q8_0, {2, 32}, QByteArray(68, 'x'));
    return builder;
}

} // namespace

class TstInspect : public QObject {
    Q_OBJECT

private slots:
    void describes();
    void tensorsAndMetadata();
    void sizesFromElsewhere();
    void warnings_data();
    void warnings();
    void badText();
    void refusals();

private:
    ModelDescription inspect(const GgufBuilder &builder, bool withTensors = false, bool withMetadata = false)
    {
        if (!builder.write(m_folder.filePath("model.gguf")))
            qFatal("cannot write the test's file");
        return engine::inspectModel(m_folder.filePath("model.gguf").toStdString(), withTensors, withMetadata);
    }

    QTemporaryDir m_folder;
};

void TstInspect::describes()
{
    const ModelDescription description = inspect(tinyModel());
    QCOMPARE(description.format, std::string("gguf"));
    QCOMPARE(description.architecture, std::string("llama"));
    QCOMPARE(description.name, std::string("Tiny"));
    QCOMPARE(description.parameters, std::int64_t{12 + 64});
    QCOMPARE(static_cast<qsizetype>(description.fileBytes), tinyModel().bytes().size());
    QCOMPARE(description.contextLength, std::int64_t{64});
    QCOMPARE(description.layers, std::int64_t{2});
    QCOMPARE(description.vocabSize, std::int64_t{3});
    QCOMPARE(description.tensorTypes, (std::map<std::string, int>{{"F32", 1}, {"Q8_0", 1}}));
    QVERIFY(description.hasChatTemplate);
    QVERIFY2(description.warnings.empty(), description.warnings.empty() ? "" : description.warnings.front().c_str());
    QVERIFY(description.tensors.empty() && description.metadataJson.empty());
}

void TstInspect::tensorsAndMetadata()
{
    GgufBuilder builder = tinyModel();
    builder.f32("f", 0.1F)
        .f32("nan", std::numeric_limits<float>::quiet_NaN())
        .boolean("flag", true)
        .i32s("ints", {-1, 2})
        .text("odd", "\"\n\x01ü\xff");
    const ModelDescription description = inspect(builder, true, true);
    QCOMPARE(description.tensors.size(), std::size_t{2});
    QCOMPARE(description.tensors[0].name, std::string("token_embd.weight"));
    QCOMPARE(description.tensors[0].shape, (std::vector<std::int64_t>{4, 3})); // as in the file: fastest first
    QCOMPARE(description.tensors[1].type, std::string("Q8_0"));
    QCOMPARE(description.tensors[1].bytes, std::uint64_t{68});
    QCOMPARE(description.tensors[1].offset, description.tensors[0].offset + 64);
    const std::map<std::string, std::string> values(description.metadataJson.begin(), description.metadataJson.end());
    QCOMPARE(values.size(), description.metadataJson.size());
    QCOMPARE(description.metadataJson.front().first, std::string("general.architecture"));
    QCOMPARE(values.at("general.name"), std::string("\"Tiny\""));
    QCOMPARE(values.at("llama.context_length"), std::string("64"));
    QCOMPARE(values.at("tokenizer.ggml.tokens"), std::string(R"(["a","b","c"])"));
    QCOMPARE(values.at("f"), std::string("0.10000000149011612"));
    QCOMPARE(values.at("nan"), std::string("null"));
    QCOMPARE(values.at("flag"), std::string("true"));
    QCOMPARE(values.at("ints"), std::string("[-1,2]"));
    QCOMPARE(values.at("odd"), std::string("\"\\\"\\n\\u0001ü\uFFFD\""));
}

void TstInspect::sizesFromElsewhere()
{
    GgufBuilder declared = tinyModel();
    declared.u32("llama.vocab_size", 5);
    QCOMPARE(inspect(declared).vocabSize, std::int64_t{5});
    GgufBuilder bare;
    bare.text("general.architecture", "llama").tensor("token_embd.weight", {7, 2}, std::vector<float>(14, 0));
    const ModelDescription description = inspect(bare);
    QCOMPARE(description.vocabSize, std::int64_t{7});
    QCOMPARE(description.contextLength, std::int64_t{0});
    QCOMPARE(description.layers, std::int64_t{0});
    QVERIFY(!description.hasChatTemplate);
}

void TstInspect::warnings_data()
{
    QTest::addColumn<QByteArray>("file");
    QTest::addColumn<QStringList>("words");
    const auto row = [](const char *name, GgufBuilder &builder, const QStringList &words) {
        QTest::newRow(name) << builder.bytes() << words;
    };
    GgufBuilder base = tinyModel();
    row("type that cannot be computed", GgufBuilder(base).rawTensor("iq", 15, {256}, QByteArray(292, 'x')),
        {"Q8_K", "\"iq\"", "cannot be computed"});
    row("bos outside", GgufBuilder(base).u32("tokenizer.ggml.eos_token_id", 4294967295U),
        {"eos_token_id", "4294967295", "3 tokens"});
    row("key of the wrong type", GgufBuilder(base).text("llama.vocab_size", "many"), {"llama.vocab_size", "string"});
    row("negative count", GgufBuilder(base).i32("llama.vocab_size", -1), {"llama.vocab_size", "-1"});
    GgufBuilder noTokenizer;
    row("no tokenizer", noTokenizer.text("general.architecture", "llama").tensor("w", {1}, {1.0F}),
        {"tokenizer.ggml.tokens", "missing"});
    GgufBuilder noArchitecture;
    row("no architecture", noArchitecture.texts("tokenizer.ggml.tokens", {"a"}).tensor("w", {1}, {1.0F}),
        {"general.architecture"});
    GgufBuilder wrongArchitecture;
    row("architecture is a number", wrongArchitecture.u32("general.architecture", 1),
        {"general.architecture", "uint32"});
    GgufBuilder noTensors;
    row("no tensors", noTensors.text("general.architecture", "llama"), {"no tensors"});
    GgufBuilder wrongTemplate;
    row("template is a number", wrongTemplate.text("general.architecture", "llama").u32("tokenizer.chat_template", 1),
        {"tokenizer.chat_template", "uint32"});
}

void TstInspect::warnings()
{
    QFETCH(QByteArray, file);
    QFETCH(QStringList, words);
    QFile target(m_folder.filePath("model.gguf"));
    QVERIFY(target.open(QIODevice::WriteOnly) && target.write(file) == file.size() && target.flush());
    QStringList warnings;
    for (const std::string &warning : engine::inspectModel(target.fileName().toStdString()).warnings)
        warnings.append(QString::fromStdString(warning));
    const bool found = std::any_of(warnings.begin(), warnings.end(), [&](const QString &warning) {
        return std::all_of(words.begin(), words.end(), [&](const QString &word) { return warning.contains(word); });
    });
    QVERIFY2(found, qPrintable(warnings.join(" | ")));
}

void TstInspect::badText()
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama").text("general.name", "bad \xff name").tensor("w", {1}, {1.0F});
    const ModelDescription description = inspect(builder);
    QCOMPARE(description.name, std::string("bad \uFFFD name"));
    QVERIFY(description.warnings.front().find("general.name") != std::string::npos);
}

void TstInspect::refusals()
{
    QVERIFY_EXCEPTION_THROWN((void)engine::inspectModel("/no/such/file.gguf"), engine::Error);
    QVERIFY_EXCEPTION_THROWN((void)engine::inspectModel(m_folder.path().toStdString()), engine::Error);
    QVERIFY_EXCEPTION_THROWN((void)engine::inspectModel(""), engine::Error);
}

QTEST_GUILESS_MAIN(TstInspect)
#include "tst_inspect.moc"
