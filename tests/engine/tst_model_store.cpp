// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/library/model_files.h"
#include "engine/library/model_store.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/safetensors_builder.h"
#include "tests/support/shared_data.h"

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using engine::InstalledModel;

namespace {

GgufBuilder model(const std::string &architecture)
{
    GgufBuilder builder;
    builder.text("general.architecture", architecture)
        .texts("tokenizer.ggml.tokens", {"a", "b"})
        .tensor("w", {4}, {1, 2, 3, 4});
    return builder;
}

} // namespace

class TstModelStore : public QObject {
    Q_OBJECT

private slots:
    void init();
    void folderFollowsTheEnvironment();
    void absentFolder();
    void rowsOfGoodFiles();
    void badFilesAreRowsOfTheirOwn();
    void unreadableOnes();
    void linksAndLoops();
    void shardSets();
    void modelFolders();
    void partsStandForTheirFolder();
    void manyFiles();
    void namesBecomePaths();
    void unknownNamesListCloseOnes();
    void ambiguousNamesListAll();

private:
    [[nodiscard]] QString at(const QString &name) const { return m_folder->filePath(name); }
    [[nodiscard]] std::vector<InstalledModel> list() const
    {
        return engine::listModels(m_folder->path().toStdString());
    }
    [[nodiscard]] QString resolve(const QString &name) const;
    void write(const QString &name, const QByteArray &content) const;

    std::unique_ptr<QTemporaryDir> m_folder;
};

void TstModelStore::init()
{
    m_folder = std::make_unique<QTemporaryDir>();
    QVERIFY(m_folder->isValid());
}

/// The path, or the error.
QString TstModelStore::resolve(const QString &name) const
{
    try {
        return QString::fromStdString(engine::resolveModel(name.toStdString(), m_folder->path().toStdString()));
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
}

void TstModelStore::write(const QString &name, const QByteArray &content) const
{
    QFile file(at(name));
    QVERIFY(QDir(m_folder->path()).mkpath(QFileInfo(name).path()));
    QVERIFY(file.open(QIODevice::WriteOnly) && file.write(content) == content.size());
}

void TstModelStore::folderFollowsTheEnvironment()
{
    const QByteArray data = qgetenv("XDG_DATA_HOME");
    const QByteArray home = qgetenv("HOME");
    qputenv("XDG_DATA_HOME", "/some/where");
    QCOMPARE(engine::modelFolder(), std::string("/some/where/lathe/models"));
    qputenv("XDG_DATA_HOME", "relative");
    qputenv("HOME", "/home/me");
    QCOMPARE(engine::modelFolder(), std::string("/home/me/.local/share/lathe/models"));
    qunsetenv("XDG_DATA_HOME");
    QCOMPARE(engine::modelFolder(), std::string("/home/me/.local/share/lathe/models"));
    qunsetenv("HOME");
    QVERIFY(QString::fromStdString(engine::modelFolder()).endsWith("/.local/share/lathe/models"));
    if (!data.isNull())
        qputenv("XDG_DATA_HOME", data);
    if (!home.isNull())
        qputenv("HOME", home);
}

void TstModelStore::absentFolder()
{
    QVERIFY(engine::listModels("/no/such/folder").empty());
    QVERIFY(list().empty());
}

void TstModelStore::rowsOfGoodFiles()
{
    write("b model.gguf", model("llama").bytes());
    write("deeper/and deeper/a 模型.GGUF", model("qwen3").bytes());
    write("notes.txt", "no model");
    const auto rows = list();
    QCOMPARE(rows.size(), std::size_t{2});
    QCOMPARE(QString::fromStdString(rows[0].name), QString("a 模型"));
    QCOMPARE(QString::fromStdString(rows[0].path), at("deeper/and deeper/a 模型.GGUF"));
    QCOMPARE(rows[0].architecture, std::string("qwen3"));
    QCOMPARE(rows[1].name, std::string("b model"));
    QCOMPARE(rows[1].origin, std::string("lathe"));
    QCOMPARE(rows[1].format, std::string("gguf"));
    QCOMPARE(static_cast<qsizetype>(rows[1].bytes), model("llama").bytes().size());
    QVERIFY(rows[0].problem.empty() && rows[1].problem.empty());
}

void TstModelStore::badFilesAreRowsOfTheirOwn()
{
    write("cut.gguf", model("llama").bytes().left(100));
    write("empty.gguf", {});
    write("good.gguf", model("llama").bytes());
    write("odd.gguf", GgufBuilder().u32("general.architecture", 7).bytes());
    QCOMPARE(mkfifo(at("pipe.gguf").toLocal8Bit().constData(), 0600), 0);
    QVERIFY(QFile::link("nowhere", at("dangling.gguf")));
    const auto rows = list();
    QStringList names;
    for (const InstalledModel &row : rows) {
        names.append(QString::fromStdString(row.name));
        QCOMPARE(row.problem.empty(), row.name == "good");
        QVERIFY2(row.problem.empty() || row.problem.find(row.name) != std::string::npos, row.problem.c_str());
    }
    QCOMPARE(names, (QStringList{"cut", "dangling", "empty", "good", "odd", "pipe"}));
    QCOMPARE(rows[0].bytes, std::uint64_t{100});
    QVERIFY(QString::fromStdString(rows[5].problem).contains("is a pipe"));
}

void TstModelStore::unreadableOnes()
{
    write("good.gguf", model("llama").bytes());
    write("secret.gguf", model("llama").bytes());
    write("closed/hidden.gguf", model("llama").bytes());
    QVERIFY(QFile::setPermissions(at("secret.gguf"), {}) && QFile::setPermissions(at("closed"), {}));
    QCOMPARE(chmod(m_folder->path().toLocal8Bit().constData(), 0755), 0);
    const pid_t process = fork();
    if (process == 0) {
        constexpr uid_t nobody = 65534;
        if (geteuid() == 0 && setuid(nobody) != 0) // the superuser may read every file
            _exit(2);
        const auto rows = list();
        const bool right = rows.size() == 3 && rows[0].problem.empty() && rows[1].name == "secret"
            && !rows[1].problem.empty() && rows[2].name == "closed"
            && rows[2].problem.find("cannot be read") != std::string::npos;
        _exit(right ? 0 : 1);
    }
    int status = 0;
    waitpid(process, &status, 0);
    QVERIFY(WIFEXITED(status));
    QCOMPARE(WEXITSTATUS(status), 0);
    QVERIFY(QFile::setPermissions(at("closed"), QFile::ReadOwner | QFile::WriteOwner | QFile::ExeOwner));
}

void TstModelStore::linksAndLoops()
{
    write("real/m.gguf", model("llama").bytes());
    QVERIFY(QFile::link(m_folder->path(), at("real/up")));
    QVERIFY(QFile::link("self.gguf", at("self.gguf")));
    QVERIFY(QFile::link("real/m.gguf", at("linked.gguf")));
    const auto rows = list();
    QCOMPARE(rows.size(), std::size_t{3});
    QCOMPARE(rows[0].name, std::string("linked"));
    QVERIFY(rows[0].problem.empty());
    QCOMPARE(rows[1].name, std::string("m"));
    QCOMPARE(rows[2].name, std::string("self"));
    QVERIFY(!rows[2].problem.empty());
    QVERIFY(QDir(m_folder->path()).mkpath(QString("d/").repeated(60)));
    write(QString("d/").repeated(60) + "deep.gguf", model("llama").bytes());
    const auto deep = list();
    QCOMPARE(deep.size(), std::size_t{4}); // the three and one row for the folder that is too deep
    QVERIFY(QString::fromStdString(deep.back().problem).contains("deeper"));
}

void TstModelStore::modelFolders()
{
    const QByteArray weights = SafetensorsBuilder().counting("w", {2}).bytes();
    write("Tiny-1.5B/config.json", R"({"model_type": "llama"})");
    write("Tiny-1.5B/model.safetensors", weights);
    write("broken/config.json", "{");
    write("broken/model.safetensors", weights);
    write("models--maker--Cached/snapshots/0123abc/config.json", R"({"model_type": "qwen2"})");
    write("models--maker--Cached/snapshots/0123abc/model.safetensors", weights.chopped(1));
    write("no weights/config.json", "{}");
    const std::vector<InstalledModel> models = list();
    QCOMPARE(models.size(), std::size_t{3});
    QCOMPARE(models[0].name, std::string("Cached"));
    QCOMPARE(models[0].architecture, std::string("qwen2"));
    QVERIFY(models[0].problem.find("missing") != std::string::npos);
    QCOMPARE(models[1].name, std::string("Tiny-1.5B"));
    QCOMPARE(models[1].format, std::string("safetensors"));
    QCOMPARE(models[1].architecture, std::string("llama"));
    QCOMPARE(models[1].bytes, static_cast<std::uint64_t>(weights.size()));
    QVERIFY(models[1].problem.empty());
    QVERIFY(models[2].problem.find("config.json") != std::string::npos);
    QCOMPARE(resolve("tiny-1.5b"), at("Tiny-1.5B"));
}

/// What a file dialog or a drop may give.
void TstModelStore::partsStandForTheirFolder()
{
    write("m/config.json", "{}");
    write("m/model.safetensors", "");
    write("m/model.safetensors.index.json", "{}");
    write("alone/x.safetensors", "");
    for (const char *part : {"m/config.json", "m/model.safetensors", "m/model.safetensors.index.json"})
        QCOMPARE(QString::fromStdString(engine::modelPathOf(at(part).toStdString())), at("m"));
    for (const char *other : {"alone/x.safetensors", "m", "m/other.gguf", "absent/config.json"})
        QCOMPARE(QString::fromStdString(engine::modelPathOf(at(other).toStdString())), at(other));
}

void TstModelStore::shardSets()
{
    const auto shard = [](std::uint16_t number, const std::string &name) {
        GgufBuilder builder;
        builder.text("general.architecture", "llama")
            .u16("split.no", number)
            .u16("split.count", 2)
            .tensor(name, {1}, {1.0F});
        return builder.bytes();
    };
    write("whole-00001-of-00002.gguf", shard(0, "a"));
    write("whole-00002-of-00002.gguf", shard(1, "b"));
    write("half-00001-of-00002.gguf", shard(0, "a"));
    write("renamed.gguf", shard(0, "a"));
    const auto rows = list();
    QCOMPARE(rows.size(), std::size_t{3});
    QCOMPARE(rows[0].name, std::string("half-00001-of-00002"));
    QVERIFY(QString::fromStdString(rows[0].problem).contains("half-00002-of-00002.gguf"));
    QVERIFY(QString::fromStdString(rows[1].problem).contains("split.count 2"));
    QCOMPARE(rows[2].name, std::string("whole-00001-of-00002"));
    QVERIFY2(rows[2].problem.empty(), rows[2].problem.c_str());
    QCOMPARE(static_cast<qsizetype>(rows[2].bytes), shard(0, "a").size() + shard(1, "b").size());
}

void TstModelStore::manyFiles()
{
    const int count = shared_data::fullTier() ? 10000 : 1000;
    const QByteArray good = model("llama").bytes();
    for (int i = 0; i < count; ++i)
        write(QString("%1/m%2.gguf").arg(i % 7).arg(i), i % 3 == 0 ? good.left(i % good.size()) : good);
    QElapsedTimer timer;
    timer.start();
    const auto rows = list();
    qInfo("%d files in %lld ms", count, static_cast<long long>(timer.elapsed()));
    QCOMPARE(static_cast<int>(rows.size()), count);
    QVERIFY(std::is_sorted(rows.begin(), rows.end(),
                           [](const InstalledModel &a, const InstalledModel &b) { return a.name < b.name; }));
    timer.restart();
    QVERIFY(resolve("m998").endsWith("/m998.gguf"));
    qInfo("one of them found in %lld ms", static_cast<long long>(timer.elapsed()));
}

void TstModelStore::namesBecomePaths()
{
    write("SmolLM2-135M-Instruct.Q4_1.gguf", model("llama").bytes());
    const QString path = at("SmolLM2-135M-Instruct.Q4_1.gguf");
    QCOMPARE(resolve("SmolLM2-135M-Instruct.Q4_1"), path);
    QCOMPARE(resolve("SmolLM2-135M-Instruct.Q4_1.gguf"), path);
    QCOMPARE(resolve("smollm2-135m-instruct.q4_1"), path);
    QCOMPARE(resolve(path), path);
    QCOMPARE(resolve("./no such file.gguf"), QString("./no such file.gguf")); // a path: opening it says what is wrong
    QCOMPARE(resolve("/dev/null"), QString("/dev/null"));
    QVERIFY(resolve("").contains("is empty"));
}

void TstModelStore::unknownNamesListCloseOnes()
{
    write("SmolLM2-135M-Instruct.Q4_1.gguf", model("llama").bytes());
    write("SmolLM2-135M-Instruct.Q8_0.gguf", model("llama").bytes());
    write("gemma-3-270m.gguf", model("gemma3").bytes());
    const QString typo = resolve("SmolLM2-135M-Instruct.Q4_2");
    QVERIFY2(typo.contains("called \"SmolLM2-135M-Instruct.Q4_2\"") && typo.contains("\"SmolLM2-135M-Instruct.Q4_1\""),
             qPrintable(typo));
    QVERIFY(!typo.contains("gemma"));
    QVERIFY(resolve("gemma").contains("close names: \"gemma-3-270m\""));
    const QString unknown = resolve("something else entirely");
    QVERIFY2(unknown.contains(m_folder->path()) && !unknown.contains("close"), qPrintable(unknown));
    QVERIFY(resolve(QString(100000, 'x')).size() < 1000);
}

void TstModelStore::ambiguousNamesListAll()
{
    write("a/same.gguf", model("llama").bytes());
    write("b/same.gguf", model("llama").bytes());
    write("c/Same.gguf", model("llama").bytes());
    const QString error = resolve("same");
    QVERIFY2(error.contains("ambiguous") && error.contains(at("a/same.gguf")) && error.contains(at("b/same.gguf")),
             qPrintable(error));
    QVERIFY(!error.contains("c/Same"));
    QCOMPARE(resolve("Same"), at("c/Same.gguf"));
}

QTEST_GUILESS_MAIN(TstModelStore)
#include "tst_model_store.moc"
