// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/model_text.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QDir>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using engine::LoadedModel;

namespace {

engine::EngineConfig referenceConfig()
{
    engine::EngineConfig config;
    config.backend = engine::BackendKind::Reference;
    config.threads = 1;
    config.limits.maxNumSeqs = 4;
    return config;
}

QString errorOf(const QString &folder)
{
    try {
        const LoadedModel model(folder.toStdString(), referenceConfig(), {}, {});
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
    return {};
}

} // namespace

/// A whole folder as the engine loads it: weights, tokenizer, template, ends of answers, suggested sampling.
class HfModelTest : public QObject {
    Q_OBJECT

private slots:
    void init();
    void loadsAndDescribes();
    void errorsNameKeysOfTheConfiguration();
    void endsOfAnswers();
    void templates_data();
    void templates();
    void specialTokensOfTheMap();
    void addedTokens();
    void suggestedSampling();
    void tokenizerIsMissing();
    void cutWeights();

private:
    [[nodiscard]] QString at(const QString &name) const { return m_dir->filePath(name); }
    [[nodiscard]] LoadedModel load() const { return {m_dir->path().toStdString(), referenceConfig(), {}, {}}; }

    std::unique_ptr<QTemporaryDir> m_dir;
};

/// A copy of the folder beside the tests, two shards with a tied head.
void HfModelTest::init()
{
    m_dir = std::make_unique<QTemporaryDir>();
    const QDir source(shared_data::data(QStringLiteral("tiny-models/llama-tied-rope3")));
    for (const QString &name : source.entryList(QDir::Files))
        QVERIFY(QFile::copy(source.filePath(name), at(name))
                && QFile::setPermissions(at(name), QFile::ReadOwner | QFile::WriteOwner));
}

void HfModelTest::loadsAndDescribes()
{
    LoadedModel model = load();
    QCOMPARE(model.info().architecture, std::string("llama"));
    QCOMPARE(model.info().layers, 3);
    QCOMPARE(model.info().vocabSize, 320);
    QCOMPARE(model.info().contextLength, 512);
    QCOMPARE(model.info().parameters, std::int64_t{149952});
    QVERIFY(model.info().chatTemplate.empty());
    QVERIFY2(model.info().warnings.empty(), model.info().warnings.empty() ? "" : model.info().warnings[0].c_str());
    QCOMPARE(model.tokenizer().vocabSize(), 320);
    QVERIFY(model.checkFileUnchanged().empty());
    QCOMPARE(tiny_model::allLogits(model.runner(), {1, 2, 3}, 0, 16).size(), std::size_t{3 * 320});
}

/// What was translated to GGUF's keys is refused by the names that the folder has.
void HfModelTest::errorsNameKeysOfTheConfiguration()
{
    QFile file(at("config.json"));
    QVERIFY(file.open(QIODevice::ReadOnly));
    QByteArray text = file.readAll();
    file.close();
    text.insert(text.lastIndexOf('}'), ", \"head_dim\": 15");
    QVERIFY(writeText(at("config.json"), text));
    try {
        (void)load();
        QFAIL("was loaded");
    } catch (const engine::Error &error) {
        const QString found = QString::fromUtf8(error.what());
        QVERIFY2(found.contains("config.json: key head_dim is 15") && !found.contains("llama."), error.what());
    }
}

/// Those of generation_config.json come beside the tokenizer's own.
void HfModelTest::endsOfAnswers()
{
    QVERIFY(load().tokenizer().isEndOfGeneration(2));
    QVERIFY(!load().tokenizer().isEndOfGeneration(77));
    QVERIFY(writeText(at("generation_config.json"), R"({"eos_token_id": [77, 2, 99999]})"));
    const LoadedModel model = load();
    for (const int id : {2, 77})
        QVERIFY(model.tokenizer().isEndOfGeneration(id));
    QVERIFY(!model.tokenizer().isEndOfGeneration(78));
}

void HfModelTest::templates_data()
{
    QTest::addColumn<QString>("file");
    QTest::addColumn<QByteArray>("content");
    QTest::newRow("jinja file") << "chat_template.jinja" << QByteArray("TEXT");
    QTest::newRow("JSON file") << "chat_template.json" << QByteArray(R"({"chat_template": "TEXT"})");
    QTest::newRow("configuration") << "tokenizer_config.json"
                                   << QByteArray(R"({"bos_token": "<s>", "chat_template": "TEXT"})");
    QTest::newRow("named ones") << "tokenizer_config.json"
                                << QByteArray(R"({"chat_template": [{"name": "tool_use", "template": "OTHER"},
                                                                    {"name": "default", "template": "TEXT"}]})");
    QTest::newRow("only a named one") << "additional_chat_templates/tool_use.jinja" << QByteArray("TEXT");
}

void HfModelTest::templates()
{
    QFETCH(QString, file);
    QFETCH(QByteArray, content);
    QVERIFY(QDir(m_dir->path()).mkpath(QFileInfo(at(file)).path()));
    QVERIFY(writeText(at(file), content));
    const LoadedModel model = load();
    QCOMPARE(model.info().chatTemplate, std::string("TEXT"));
    QVERIFY(model.chatTemplate() != nullptr);
}

/// special_tokens_map.json says what tokenizer_config.json leaves out, and does not override it.
void HfModelTest::specialTokensOfTheMap()
{
    QVERIFY(writeText(at("special_tokens_map.json"), R"({"bos_token": {"content": "<unk>"}, "eos_token": "<pad>"})"));
    QVERIFY(writeText(at("tokenizer_config.json"), R"({"eos_token": "</s>"})"));
    const auto tokenizer = engine::openFolderTokenizer(m_dir->path().toStdString());
    QCOMPARE(tokenizer->bos(), std::optional<int>(3));
    QCOMPARE(tokenizer->eos(), std::optional<int>(2));
}

void HfModelTest::addedTokens()
{
    QVERIFY(writeText(at("added_tokens.json"), R"({"<more>": 320, "<s>": 1})"));
    const auto tokenizer = engine::openFolderTokenizer(m_dir->path().toStdString());
    QCOMPARE(tokenizer->find("<more>"), std::optional<int>(320));
    QVERIFY(tokenizer->encode("<more>", {false, true}) == std::vector<int>{320});
    QCOMPARE(load().info().warnings.size(), std::size_t{1}); // the embedding has no row for it
    QVERIFY(writeText(at("added_tokens.json"), R"({"<more>": 5})"));
    QVERIFY_EXCEPTION_THROWN((void)engine::openFolderTokenizer(m_dir->path().toStdString()), engine::Error);
}

void HfModelTest::suggestedSampling()
{
    QVERIFY(load().info().sampling == engine::SuggestedSampling{});
    QVERIFY(writeText(at("generation_config.json"), R"({"temperature": 0.6, "top_k": 20, "top_p": 7})"));
    const LoadedModel model = load();
    QCOMPARE(model.info().sampling.temperature, std::optional<double>(0.6));
    QCOMPARE(model.info().sampling.topK, std::optional<int>(20));
    QVERIFY(!model.info().sampling.topP); // out of range
    QCOMPARE(model.info().warnings.size(), std::size_t{1});
}

void HfModelTest::tokenizerIsMissing()
{
    QVERIFY(QFile::remove(at("tokenizer.json")));
    QVERIFY2(errorOf(m_dir->path()).contains("tokenizer.json"), qPrintable(errorOf(m_dir->path())));
}

void HfModelTest::cutWeights()
{
    QVERIFY(QFile::resize(at("model-00002-of-00002.safetensors"), 100000));
    const QString error = errorOf(m_dir->path());
    QVERIFY2(error.contains("model-00002-of-00002.safetensors") && error.contains("missing"), qPrintable(error));
}

QTEST_GUILESS_MAIN(HfModelTest)
#include "tst_hf_model.moc"
