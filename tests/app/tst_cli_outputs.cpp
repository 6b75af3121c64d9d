// SPDX-License-Identifier: GPL-3.0-or-later
// What lathe-cli writes into files: whole or not at all, devices untouched; and the places of results in a stream.
#include "tests/support/shared_data.h"

#include <QDir>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <sys/stat.h>

namespace {

struct Run {
    int code = -1;
    QByteArray out;
    QByteArray err;
};

Run run(const QStringList &arguments, const QByteArray &input = {})
{
    QProcess process;
    process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), arguments);
    process.write(input);
    process.closeWriteChannel();
    if (!process.waitForFinished(120'000))
        process.kill();
    return {process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1, process.readAllStandardOutput(),
            process.readAllStandardError()};
}

QString tinyModel()
{
    return shared_data::data("tiny-llama/llama-f16.gguf");
}

void writeFile(const QString &path, const QByteArray &bytes)
{
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QCOMPARE(file.write(bytes), bytes.size());
}

QByteArray readFile(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

bool isDevice(const char *path)
{
    struct stat status{};
    return stat(path, &status) == 0 && S_ISCHR(status.st_mode);
}

QJsonObject object(const QByteArray &json)
{
    return QJsonDocument::fromJson(json).object();
}

} // namespace

class CliOutputsTest : public QObject {
    Q_OBJECT

private slots:
    void init();
    void everyFileOptionKeepsDevices_data();
    void everyFileOptionKeepsDevices();
    void everyFileOptionTellsAWrongPlace_data();
    void everyFileOptionTellsAWrongPlace();
    void aFailureKeepsTheOldFile();
    void anInterruptLeavesNothing();
    void linksAreFollowed();
    void statsOfEveryCommand();
    void everyLineHasItsResult();
    void seedsAreWholeNumbersOf64Bits();
    void fewTokensAStepNeedNoOtherOption();

private:
    void addFileOptions();
    [[nodiscard]] QString path(const char *name) const { return m_folder->filePath(name); }

    std::unique_ptr<QTemporaryDir> m_folder;
};

void CliOutputsTest::init()
{
    m_folder = std::make_unique<QTemporaryDir>();
    writeFile(path("ids.json"), "[[1,2,3],[4]]");
    writeFile(path("text.txt"), QByteArray("The quick brown fox jumps over the lazy dog. ").repeated(20));
}

/// Commands that end in the option whose value is the file to write; %1 stands for the folder of the test.
void CliOutputsTest::addFileOptions()
{
    QTest::addColumn<QStringList>("command");
    const QString model = tinyModel();
    QTest::newRow("logits --out") << QStringList{"logits", model, "--ids-file", "%1/ids.json", "--out"};
    const QStringList perplexity{"perplexity", model, "--file", "%1/text.txt", "--context", "64"};
    QTest::newRow("perplexity --per-token") << perplexity + QStringList{"--per-token"};
    QTest::newRow("perplexity --stats") << perplexity + QStringList{"--stats"};
    QTest::newRow("generate --stats") << QStringList{"generate", model, "-p", "a", "-n", "2", "--stats"};
}

void CliOutputsTest::everyFileOptionKeepsDevices_data()
{
    addFileOptions();
}

void CliOutputsTest::everyFileOptionKeepsDevices()
{
    QFETCH(QStringList, command);
    command.replaceInStrings("%1", m_folder->path());
    QCOMPARE(run(command + QStringList{"/dev/null"}).code, 0);
    QVERIFY(isDevice("/dev/null"));
    const Run full = run(command + QStringList{"/dev/full"});
    QCOMPARE(full.code, 1);
    QVERIFY2(full.err.contains("error: --") && full.err.contains("/dev/full"), full.err.constData());
    QVERIFY(isDevice("/dev/full"));
}

void CliOutputsTest::everyFileOptionTellsAWrongPlace_data()
{
    addFileOptions();
}

void CliOutputsTest::everyFileOptionTellsAWrongPlace()
{
    QFETCH(QStringList, command);
    command.replaceInStrings("%1", m_folder->path());
    for (const QString &place : {m_folder->path(), path("no/such/folder/file")}) {
        const Run result = run(command + QStringList{place});
        QCOMPARE(result.code, 1);
        QVERIFY2(result.err.startsWith("error: --") && result.err.count('\n') == 1, result.err.constData());
        QVERIFY(result.out.isEmpty()); // told before the work
    }
}

void CliOutputsTest::aFailureKeepsTheOldFile()
{
    writeFile(path("old.f32"), "old");
    writeFile(path("ids.json"), "[[1],[99999999]]");
    const Run result = run({"logits", tinyModel(), "--ids-file", path("ids.json"), "--out", path("old.f32")});
    QCOMPARE(result.code, 3);
    QCOMPARE(readFile(path("old.f32")), QByteArray("old"));
    QCOMPARE(QDir(m_folder->path()).entryList(QDir::Files).size(), 3);
}

void CliOutputsTest::anInterruptLeavesNothing()
{
    writeFile(path("ids.json"), "[" + QByteArray("[1,2,3,4,5,6,7,8],").repeated(200'000) + "[1]]");
    for (const int signal : {SIGTERM, SIGKILL}) {
        QProcess process;
        process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"),
                      {"logits", tinyModel(), "--ids-file", path("ids.json"), "--out", path("out.f32"), "-q",
                       "--backend", "reference"});
        QVERIFY(process.waitForStarted());
        QVERIFY(!process.waitForFinished(1500));
        ::kill(static_cast<pid_t>(process.processId()), signal);
        QVERIFY(process.waitForFinished(10'000));
        QCOMPARE(QDir(m_folder->path()).entryList(QDir::Files).size(), 2);
    }
}

void CliOutputsTest::linksAreFollowed()
{
    writeFile(path("target.f32"), "old");
    QVERIFY(QFile::link(path("target.f32"), path("link.f32")));
    QCOMPARE(run({"logits", tinyModel(), "--ids-file", path("ids.json"), "--out", path("link.f32")}).code, 0);
    QVERIFY(QFileInfo(path("link.f32")).isSymLink());
    QVERIFY(QFileInfo(path("target.f32")).size() > 8);
}

void CliOutputsTest::statsOfEveryCommand()
{
    const QString model = tinyModel();
    const QString stats = path("stats.json");
    for (const QStringList &command :
         {QStringList{"generate", model, "-p", "a", "-n", "2"},
          QStringList{"logits", model, "--ids-file", path("ids.json"), "--out", path("o.f32")},
          QStringList{"perplexity", model, "--file", path("text.txt"), "--context", "64"},
          QStringList{"bench", model, "-p", "8", "-n", "2", "-r", "1"}}) {
        QFile::remove(stats);
        QCOMPARE(run(command + QStringList{"--stats", stats}).code, 0);
        const QJsonObject totals = object(readFile(stats));
        for (const char *key : {"steps", "max_running", "preemptions", "blocks_total", "blocks_free",
                                "prefix_hit_tokens", "peak_rss_bytes"})
            QVERIFY2(totals[key].isDouble(), key);
        QVERIFY(totals["steps"].toInt() > 0);
        QVERIFY(totals["max_running"].toInt() > 0);
        QVERIFY(totals["blocks_total"].toInt() > 0);
        QCOMPARE(totals["blocks_free"], totals["blocks_total"]);
    }
}

void CliOutputsTest::everyLineHasItsResult()
{
    const Run generated = run({"generate", tinyModel(), "--jsonl", "-q"},
                              "\n{\"ids\":[1],\"max_tokens\":1}\n \t\nno json\n{\"ids\":[1],\"max_tokens\":1}\n");
    QCOMPARE(generated.code, 0);
    const QList<QByteArray> results = generated.out.trimmed().split('\n');
    QCOMPARE(results.size(), 5);
    for (const int bad : {0, 2, 3})
        QVERIFY(object(results[bad])["error"].isString());
    for (const int good : {1, 4})
        QCOMPARE(object(results[good])["ids"].toArray().size(), 1);

    const Run tokenized = run({"tokenize", tinyModel(), "--jsonl"}, "{\"text\":\"a\"}\n\n{\"text\":\"b\"}");
    QCOMPARE(tokenized.code, 0);
    QCOMPARE(tokenized.out.count('\n'), 3);
    QVERIFY(object(tokenized.out.split('\n')[1])["error"].isString());
}

void CliOutputsTest::seedsAreWholeNumbersOf64Bits()
{
    const QStringList command{"generate", tinyModel(), "-q", "--json", "-n", "12", "--temperature", "2"};
    const QByteArray largest = "18446744073709551615";
    const Run line = run(command + QStringList{"--ids", "1,5", "--seed", largest});
    QCOMPARE(line.code, 0);
    const Run stream = run(command + QStringList{"--jsonl"},
                           R"({"ids":[1,5],"seed":)" + largest + "}\n" + R"({"ids":[1],"seed":-1})" + "\n"
                               + R"({"ids":[1],"seed":18446744073709551616})" + "\n" + R"({"ids":[1],"seed":1.0})");
    const QList<QByteArray> results = stream.out.trimmed().split('\n');
    QCOMPARE(results.size(), 4);
    QCOMPARE(object(results[0])["ids"], object(line.out)["ids"]);
    for (int bad = 1; bad < 4; ++bad)
        QVERIFY2(object(results[bad])["error"].toString().startsWith("seed: "), results[bad].constData());
}

void CliOutputsTest::fewTokensAStepNeedNoOtherOption()
{
    const QStringList command{
        "generate", tinyModel(),     "-q", "--json", "-n",
        "8",        "--temperature", "0",  "-p",     "The quick brown fox jumps over the lazy dog."};
    const QJsonValue whole = object(run(command).out)["ids"];
    QCOMPARE(whole.toArray().size(), 8);
    for (const char *tokens : {"1", "3", "16"}) {
        const Run result = run(command + QStringList{"--max-num-batched-tokens", tokens});
        QCOMPARE(result.code, 0);
        QCOMPARE(object(result.out)["ids"], whole);
    }
}

QTEST_GUILESS_MAIN(CliOutputsTest)
#include "tst_cli_outputs.moc"
