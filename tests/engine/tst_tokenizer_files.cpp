// SPDX-License-Identifier: GPL-3.0-or-later
// Opening tokenizers by path, and the vocabulary keys of GGUF files.
#include "engine/api/error.h"
#include "engine/api/text.h"
#include "engine/core/file_bytes.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <cmath>
#include <functional>
#include <map>

namespace {

const std::vector<std::string> tokens{"<s>", "</s>", "a", "b", "ab"};

/// The head of a file with a vocabulary.
GgufBuilder vocabulary()
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama")
        .text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "gpt-2");
    return builder;
}

void addSoundLists(GgufBuilder &builder)
{
    builder.texts("tokenizer.ggml.tokens", tokens)
        .i32s("tokenizer.ggml.token_type", {3, 3, 1, 1, 1})
        .texts("tokenizer.ggml.merges", {"a b"});
}

void write(const QString &path, const QByteArray &bytes)
{
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QCOMPARE(file.write(bytes), bytes.size());
}

QString refusal(const QString &path)
{
    try {
        (void)engine::openTextModel(path.toStdString());
    } catch (const engine::Error &error) {
        return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what())
                                                          : QStringLiteral("another code: ") + error.what();
    }
    return {};
}

} // namespace

class TestTokenizerFiles : public QObject {
    Q_OBJECT

private slots:
    void ggufFile()
    {
        GgufBuilder builder = vocabulary();
        addSoundLists(builder);
        builder.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", 1);
        builder.boolean("tokenizer.ggml.add_bos_token", true).boolean("tokenizer.ggml.add_eos_token", true);
        const QString path = m_dir.filePath(QStringLiteral("sound.gguf"));
        QVERIFY(builder.write(path));
        const auto model = engine::openTextModel(path.toStdString());
        QCOMPARE(model->vocabSize(), 5);
        QCOMPARE(model->encode("aba", {true, false}), (std::vector<int>{0, 4, 2, 1}));
        QCOMPARE(model->decode({0, 4, 1}, true), std::string("ab"));
        QCOMPARE(model->encode("<s>", {false, true}), std::vector<int>{0});
    }

    void ggufRefusals_data()
    {
        QTest::addColumn<QString>("key");
        QTest::addColumn<QString>("words");
        QTest::newRow("tokens absent") << "no tokens" << "tokenizer.ggml.tokens is missing";
        QTest::newRow("tokens empty") << "empty tokens" << "tokenizer.ggml.tokens is empty";
        QTest::newRow("types short") << "types" << "tokenizer.ggml.token_type has 2 entries";
        QTest::newRow("types narrow") << "narrow types" << "must be an array of int32";
        QTest::newRow("type unknown") << "type 9" << "tokenizer.ggml.token_type[1] is 9";
        QTest::newRow("scores short") << "scores" << "tokenizer.ggml.scores has 1 entries";
        QTest::newRow("score no number") << "nan" << "tokenizer.ggml.scores[0] is not a number";
        QTest::newRow("merges absent") << "no merges" << "tokenizer.ggml.merges is missing";
        QTest::newRow("bos beyond") << "bos" << "tokenizer.ggml.bos_token_id 5 is out of range";
        QTest::newRow("embedding short") << "embedding" << "token_embd.weight has 4 embedding rows";
    }
    void ggufRefusals()
    {
        QFETCH(QString, key);
        QFETCH(QString, words);
        GgufBuilder builder = vocabulary();
        if (key == QStringLiteral("empty tokens"))
            builder.texts("tokenizer.ggml.tokens", {});
        else if (key != QStringLiteral("no tokens"))
            builder.texts("tokenizer.ggml.tokens", tokens);
        if (key != QStringLiteral("no merges"))
            builder.texts("tokenizer.ggml.merges", {"a b"});
        const QByteArray fiveBytes = QByteArray::fromHex("010000000500000000000000") + QByteArray(5, 1);
        const std::map<QString, std::function<void()>> faults{
            {"types", [&] { builder.i32s("tokenizer.ggml.token_type", {1, 1}); }},
            {"narrow types", [&] { builder.value("tokenizer.ggml.token_type", 9, fiveBytes); }},
            {"type 9", [&] { builder.i32s("tokenizer.ggml.token_type", {1, 9, 1, 1, 1}); }},
            {"scores", [&] { builder.f32s("tokenizer.ggml.scores", {1}); }},
            {"nan", [&] { builder.f32s("tokenizer.ggml.scores", std::vector<float>(5, std::nanf(""))); }},
            {"bos", [&] { builder.u32("tokenizer.ggml.bos_token_id", 5); }},
            {"embedding", [&] { builder.tensor("token_embd.weight", {4, 1}, {1, 2, 3, 4}); }},
        };
        if (const auto fault = faults.find(key); fault != faults.end())
            fault->second();
        const QString path = m_dir.filePath(QStringLiteral("broken.gguf"));
        QVERIFY(builder.write(path));
        const QString text = refusal(path);
        QVERIFY2(text.contains(words) && text.count(path) == 1, qPrintable(text));
    }

    void foldersAndFiles()
    {
        const QString packed = shared_data::data(QStringLiteral("tokenizer/qwen3.json.xz"));
        const QString folder = m_dir.filePath(QStringLiteral("folder"));
        QVERIFY(QDir().mkpath(folder));
        QVERIFY2(refusal(folder).contains(QStringLiteral("has no tokenizer.json")), qPrintable(refusal(folder)));
        const QString config = folder + QStringLiteral("/tokenizer_config.json");
        write(config, R"({"eos_token": "<|im_end|>", "bos_token": null})");
        QVERIFY(refusal(config).contains(QStringLiteral("has no tokenizer.json")));
        QVERIFY(QFile::copy(packed, folder + QStringLiteral("/tokenizer.json.xz")));
        const int size = engine::openTextModel(packed.toStdString())->vocabSize();
        for (const QString &path : {folder, config, folder + QStringLiteral("/tokenizer.json.xz")})
            QCOMPARE(engine::openTextModel(path.toStdString())->vocabSize(), size);
        write(config, "{");
        QVERIFY(refusal(folder).contains(QStringLiteral("JSON")));
        QVERIFY(refusal(m_dir.filePath(QStringLiteral("absent"))).contains(QStringLiteral("no such file")));
        QVERIFY(refusal(QStringLiteral("/dev/null")).contains(QStringLiteral("regular file")));
    }

    void packedFilesAreBounded()
    {
        const QString packed = shared_data::data(QStringLiteral("tokenizer/qwen3.json.xz"));
        const std::string whole = engine::readFileBytes(packed.toStdString(), 1U << 20U);
        QVERIFY(whole.size() > static_cast<std::size_t>(QFile(packed).size()) && whole.front() == '{');
        const auto fails = [](const QString &path, std::size_t limit) {
            try {
                (void)engine::readFileBytes(path.toStdString(), limit);
            } catch (const engine::Error &error) {
                return QString::fromUtf8(error.what());
            }
            return QString();
        };
        QVERIFY(fails(packed, whole.size() - 1).contains(QStringLiteral("too large")));
        QVERIFY(fails(packed, 10).contains(QStringLiteral("too large")));
        QFile source(packed);
        QVERIFY(source.open(QIODevice::ReadOnly));
        const QByteArray bytes = source.readAll();
        const QString cut = m_dir.filePath(QStringLiteral("cut.json.xz"));
        write(cut, bytes.left(bytes.size() / 2));
        QVERIFY2(fails(cut, 1U << 20U).contains(QStringLiteral("cut short")), qPrintable(fails(cut, 1U << 20U)));
        write(cut, "no xz at all");
        QVERIFY(fails(cut, 1U << 20U).contains(QStringLiteral("broken xz")));
    }

private:
    QTemporaryDir m_dir;
};

QTEST_GUILESS_MAIN(TestTokenizerFiles)
#include "tst_tokenizer_files.moc"
