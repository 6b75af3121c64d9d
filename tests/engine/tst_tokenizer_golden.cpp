// SPDX-License-Identifier: GPL-3.0-or-later
// Tokenizer files against the ids, spellings and texts that the reference software gives for them.
#include "engine/api/text.h"
#include "engine/text/detokenizer.h"
#include "engine/text/normalizer.h"
#include "engine/text/tokenizer.h"
#include "tests/support/shared_data.h"

#include <nlohmann/json.hpp>

#include <QDir>
#include <QTest>

#include <map>

using nlohmann::json;

namespace {

std::vector<json> readLines(const QString &file)
{
    std::vector<json> lines;
    for (const QByteArray &line : shared_data::read(file).split('\n')) {
        if (!line.isEmpty())
            lines.push_back(json::parse(line.begin(), line.end()));
    }
    return lines;
}

std::map<std::string, std::string> readCorpus(const QString &file)
{
    std::map<std::string, std::string> texts;
    for (const json &line : readLines(file)) {
        const QByteArray hex = QByteArray::fromStdString(line.at("utf8").get<std::string>());
        texts[line.at("id").get<std::string>()] = QByteArray::fromHex(hex).toStdString();
    }
    return texts;
}

/// What differs between `golden` and the model, or empty.
QString difference(const engine::TextModel &model, const std::string &text, const json &golden)
{
    const auto ids = golden.at("ids").get<std::vector<int>>();
    const auto plain = golden.value("ids_plain", ids);
    const auto whole = golden.at("ids_add_special").get<std::vector<int>>();
    const auto encode = [&](bool addSpecial, bool parseSpecial) {
        return model.encode(text, {addSpecial, parseSpecial});
    };
    if (encode(false, true) != ids)
        return QStringLiteral("ids");
    if (encode(true, true) != whole)
        return QStringLiteral("ids_add_special");
    if (encode(false, false) != plain)
        return QStringLiteral("ids_plain");
    if (model.decode(ids, false) != golden.at("decode").get<std::string>())
        return QStringLiteral("decode");
    if (model.decode(ids, true) != golden.at("decode_skip").get<std::string>())
        return QStringLiteral("decode_skip");
    if (model.decode(whole, false) != golden.at("decode_add_special").get<std::string>())
        return QStringLiteral("decode_add_special");
    std::vector<std::string> tokens;
    for (const int id : ids)
        tokens.push_back(model.piece(id));
    return tokens == golden.at("tokens").get<std::vector<std::string>>() ? QString() : QStringLiteral("tokens");
}

} // namespace

class TestTokenizerGolden : public QObject {
    Q_OBJECT

private slots:
    void initTestCase()
    {
        const QString file = shared_data::path(QStringLiteral("goldens/tokenizer/corpus.jsonl"));
        if (!file.isEmpty())
            m_corpus = readCorpus(file);
    }

    void tokenizerJson_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"command_r_plus", "deepseek_v3", "gemma2", "gemma3", "gpt4o", "gptoss", "internlm2",
                                 "llama2", "llama3", "llama3_1", "llama3_2", "mistral_nemo", "qwen2_5", "qwen3", "yi"})
            QTest::newRow(name) << QString::fromLatin1(name);
    }
    void tokenizerJson()
    {
        QFETCH(QString, name);
        const QString folder = shared_data::path(QStringLiteral("tokenizers/") + name);
        const QString golden = shared_data::path(QStringLiteral("goldens/tokenizer/%1.jsonl.xz").arg(name));
        if (folder.isEmpty() || golden.isEmpty() || m_corpus.empty())
            QSKIP("tokenizers/ or goldens/tokenizer/ is absent");
        compare(folder, golden, m_corpus);
    }

    /// The cut-down tokenizers of tests/data, present in every checkout.
    void cutDown_data()
    {
        QTest::addColumn<QString>("name");
        for (const char *name : {"qwen3", "mistral_nemo", "gptoss", "internlm2", "yi"})
            QTest::newRow(name) << QString::fromLatin1(name);
    }
    void cutDown()
    {
        QFETCH(QString, name);
        const QString base = shared_data::data(QStringLiteral("tokenizer/"));
        const auto corpus = readCorpus(base + QStringLiteral("corpus.jsonl.xz"));
        QCOMPARE(corpus.size(), 148U);
        compare(base + name + QStringLiteral(".json.xz"), base + name + QStringLiteral(".golden.jsonl.xz"), corpus);
    }

    /// Tokenizers put together by chance from all steps, models and flags of added tokens, with what the `tokenizers`
    /// library, 0.23.3, makes of texts and ids that such steps trip over.
    void variants_data()
    {
        QTest::addColumn<QByteArray>("line");
        for (const json &line : readLines(shared_data::data(QStringLiteral("tokenizer/variants.jsonl.xz"))))
            QTest::newRow(line.at("name").get<std::string>().c_str()) << QByteArray::fromStdString(line.dump());
    }
    void variants()
    {
        QFETCH(QByteArray, line);
        const json wanted = json::parse(line.toStdString());
        const auto tokenizer = engine::makeTokenizer(wanted.at("tokenizer").dump(), {});
        for (const json &row : wanted.at("encode")) {
            const auto ids = tokenizer->encode(row[0].get<std::string>(), {row[2].get<bool>(), row[1].get<bool>()});
            QVERIFY2(ids == row[3].get<std::vector<int>>(), row.dump().c_str());
        }
        for (const json &row : wanted.at("decode")) {
            const auto ids = row[0].get<std::vector<int>>();
            QVERIFY2(tokenizer->decode(ids, row[1].get<bool>()) == row[2].get<std::string>(), row.dump().c_str());
            engine::Detokenizer stream(*tokenizer, row[1].get<bool>());
            std::string streamed;
            for (const int id : ids)
                streamed += stream.append(id);
            QVERIFY2(streamed + stream.flush() == row[2].get<std::string>(), row.dump().c_str());
        }
    }

    /// Patterns that Oniguruma reads otherwise than PCRE2, their matches replaced by the same library.
    void patterns()
    {
        const json file = json::parse(
            shared_data::read(shared_data::data(QStringLiteral("tokenizer/patterns.json.xz"))).toStdString());
        QVERIFY(file.at("patterns").size() > 150);
        for (const json &row : file.at("patterns")) {
            engine::Normalizer normalizer;
            normalizer.addReplace(engine::Regex(row.at("pattern").get<std::string>()), "\u2666");
            for (std::size_t i = 0; i < file.at("texts").size(); ++i) {
                std::string storage;
                engine::RegexScratch scratch;
                const auto text = file.at("texts")[i].get<std::string>();
                scratch.prepare(text);
                const std::string found(normalizer.apply(text, storage, scratch));
                QVERIFY2(found == row.at("results")[i].get<std::string>(), (row.at("pattern").dump() + found).c_str());
            }
        }
    }

    void demoModel()
    {
        const QString file = shared_data::demoModel();
        const QString ids = shared_data::path(QStringLiteral("goldens/tokenizer/smollm2_gguf.llamacpp.jsonl"));
        if (file.isEmpty() || ids.isEmpty())
            QSKIP("SmolLM2-135M-Instruct.Q4_1.gguf or goldens/tokenizer/smollm2_gguf.llamacpp.jsonl is absent");
        const auto model = engine::openTextModel(file.toStdString());
        std::map<std::string, json> rebuilt;
        for (json &line : readLines(shared_data::path(QStringLiteral("goldens/tokenizer/smollm2_gguf.jsonl.xz"))))
            rebuilt[line.at("id").get<std::string>()] = line;
        QStringList wrong;
        int agreeing = 0;
        for (const json &line : readLines(ids)) {
            const auto id = line.at("id").get<std::string>();
            const auto wanted = line.at("ids").get<std::vector<int>>();
            if (model->encode(m_corpus.at(id), {false, true}) != wanted)
                wrong.append(QString::fromStdString(id));
            const json &other = rebuilt.at(id);
            if (other.at("ids").get<std::vector<int>>() != wanted)
                continue;
            ++agreeing;
            if (const QString what = difference(*model, m_corpus.at(id), other); !what.isEmpty())
                wrong.append(QString::fromStdString(id) + QLatin1Char(':') + what);
        }
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong.join(QLatin1Char(' '))));
        QVERIFY(agreeing > 100);
    }

    void gemmaModel()
    {
        const QString file = qEnvironmentVariable("LATHE_GEMMA_MODEL");
        const QString ids = shared_data::path(QStringLiteral("goldens/tokenizer/gemma3_270m_gguf.llamacpp.jsonl"));
        if (file.isEmpty() || ids.isEmpty())
            QSKIP("LATHE_GEMMA_MODEL (gemma-3-270m-q4_k_m.gguf) or goldens/tokenizer/gemma3_270m_gguf.llamacpp.jsonl "
                  "is absent");
        const auto model = engine::openTextModel(file.toStdString());
        QStringList wrong;
        const std::vector<json> lines = readLines(ids);
        QCOMPARE(lines.size(), m_corpus.size());
        for (const json &line : lines) {
            const auto id = line.at("id").get<std::string>();
            const auto wanted = line.at("ids").get<std::vector<int>>();
            if (model->encode(m_corpus.at(id), {false, true}) != wanted)
                wrong.append(QString::fromStdString(id));
            // A mark that was in the text itself is a space afterwards.
            const QByteArray text = QByteArray::fromStdString(m_corpus.at(id)).replace("\u2581", " ");
            if (model->decode(wanted, false) != text.toStdString())
                wrong.append(QString::fromStdString(id) + QStringLiteral(":decode"));
        }
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong.join(QLatin1Char(' '))));
    }

    void tinyModels()
    {
        const QString base = shared_data::path(QStringLiteral("tiny/models"));
        if (base.isEmpty() || m_corpus.empty())
            QSKIP("tiny/models or goldens/tokenizer/corpus.jsonl is absent");
        int opened = 0;
        for (const QString &name : QDir(base).entryList(QDir::Dirs | QDir::NoDotAndDotDot)) {
            const QDir folder(base + QLatin1Char('/') + name);
            const QStringList files = folder.entryList({QStringLiteral("*.gguf")}, QDir::Files);
            if (files.isEmpty() || !folder.exists(QStringLiteral("tokenizer.json")))
                continue;
            const auto gguf = engine::openTextModel(folder.filePath(files.first()).toStdString());
            const auto json = engine::openTextModel(folder.path().toStdString());
            for (const auto &[id, text] : m_corpus)
                QVERIFY2(gguf->encode(text, {}) == json->encode(text, {}),
                         qPrintable(name + QString::fromStdString(id)));
            ++opened;
        }
        QVERIFY(opened > 0);
    }

private:
    static void compare(const QString &path, const QString &golden, const std::map<std::string, std::string> &corpus)
    {
        const auto model = engine::openTextModel(path.toStdString());
        const std::vector<json> lines = readLines(golden);
        QCOMPARE(lines.size(), corpus.size());
        QStringList wrong;
        for (const json &line : lines) {
            const auto id = line.at("id").get<std::string>();
            if (const QString what = difference(*model, corpus.at(id), line); !what.isEmpty())
                wrong.append(QString::fromStdString(id) + QLatin1Char(':') + what);
        }
        QVERIFY2(wrong.isEmpty(), qPrintable(wrong.join(QLatin1Char(' '))));
    }
    std::map<std::string, std::string> m_corpus;
};

QTEST_GUILESS_MAIN(TestTokenizerGolden)
#include "tst_tokenizer_golden.moc"
