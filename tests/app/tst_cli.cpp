// SPDX-License-Identifier: GPL-3.0-or-later
// Drives lathe-cli as a script would, on a tiny model: results on stdout, one error line on stderr, exit codes.
#include "tests/support/shared_data.h"

#include <QDir>
#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QSet>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>

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

QList<QJsonObject> lines(const QByteArray &out)
{
    QList<QJsonObject> objects;
    for (const QByteArray &line : out.split('\n'))
        if (!line.isEmpty())
            objects += QJsonDocument::fromJson(line).object();
    return objects;
}

QString tinyModel()
{
    return shared_data::data("tiny-llama/llama-f16.gguf");
}

/// Exactly one `error: …` line, and nothing on stdout.
bool isOneError(const Run &run)
{
    return run.out.isEmpty() && run.err.startsWith("error: ") && run.err.count('\n') == 1 && run.err.size() > 20;
}

} // namespace

class CliTest : public QObject {
    Q_OBJECT

private slots:
    void helpAndVersion();
    void helpThatCannotBeWrittenFails();
    void wrongUsage_data();
    void wrongUsage();
    void refusedInput_data();
    void refusedInput();
    void absentDevicesAndLevels();
    void selfTestComparesEveryOperation();
    void emulatedDeviceAnswersAsTheCpu();
    void inspectTellsTheFile();
    void tokenizeAndBack();
    void renderBareTemplates();
    void generateIsRepeatable();
    void linesRunAsOneBatchAndKeepTheirOrder();
    void statsCountAWorker();
    void logitsAreWhole();
    void perplexityOfAText();
    void chatTakesLines();
    void benchNamesItsTests();
    void devicesListTheCpu();
    void interruptsEndInTime();
};

void CliTest::helpAndVersion()
{
    const Run help = run({"--help"});
    QCOMPARE(help.code, 0);
    for (const char *command : {"inspect", "models", "tokenize", "detokenize", "render", "generate", "chat", "logits",
                                "perplexity", "bench", "devices"}) {
        QVERIFY2(help.out.contains(command), command);
        const Run own = run({command, "--help"});
        QCOMPARE(own.code, 0);
        QVERIFY(own.out.contains("--json"));
    }
    QCOMPARE(run({"--version"}).code, 0);
}

void CliTest::helpThatCannotBeWrittenFails()
{
    for (const char *option : {"--help", "--version"}) {
        QProcess process;
        process.setStandardOutputFile("/dev/full");
        process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), {option});
        QVERIFY(process.waitForFinished(60'000));
        QCOMPARE(process.exitCode(), 1);
        QVERIFY(process.readAllStandardError().startsWith("error: standard output"));
    }
}

void CliTest::wrongUsage_data()
{
    QTest::addColumn<QStringList>("arguments");
    const QString model = tinyModel();
    QTest::newRow("no command") << QStringList{};
    QTest::newRow("unknown command") << QStringList{"fly"};
    QTest::newRow("unknown option") << QStringList{"generate", model, "-p", "a", "--fly"};
    QTest::newRow("no prompt") << QStringList{"generate", model};
    QTest::newRow("two prompts") << QStringList{"generate", model, "-p", "a", "--ids", "1"};
    QTest::newRow("block size") << QStringList{"generate", model, "-p", "a", "--block-size", "12"};
    QTest::newRow("negative temperature") << QStringList{"generate", model, "-p", "a", "--temperature", "-1"};
    QTest::newRow("temperature is no number") << QStringList{"generate", model, "-p", "a", "--temperature", "nan"};
    QTest::newRow("bytes") << QStringList{"generate", model, "-p", "a", "--kv-cache-memory-bytes", "12Q"};
    QTest::newRow("isa") << QStringList{"generate", model, "-p", "a", "--isa", "mmx"};
    QTest::newRow("device") << QStringList{"generate", model, "-p", "a", "--device", "toaster"};
    QTest::newRow("ids") << QStringList{"detokenize", model, "--ids", "1,x"};
    const QStringList generate{"generate", model, "-p", "a"};
    for (const char *option :
         {"--threads", "--max-model-len", "--block-size", "--num-gpu-blocks-override", "--kv-cache-memory-bytes",
          "--memory-reserve", "--max-num-seqs", "--max-num-batched-tokens", "--seed", "-n", "--temperature", "--top-k",
          "--top-p", "--min-p", "--repetition-penalty", "--presence-penalty", "--logprobs"})
        for (const char *value : {"", "-1e9", "-99999999999", "99999999999999999999", "1x", "0x", "1.5.2"})
            QTest::addRow("%s '%s'", option, value) << generate + QStringList{option, value};
    QTest::newRow("negative seed") << generate + QStringList{"--seed", "-1"};
    QTest::newRow("seed of 65 bits") << generate + QStringList{"--seed", "18446744073709551616"};
    QTest::newRow("negative logprobs") << generate + QStringList{"--logprobs", "-1"};
    QTest::newRow("empty stop text") << generate + QStringList{"--stop", ""};
    QTest::newRow("empty stats file") << generate + QStringList{"--stats", ""};
    QTest::newRow("fewer tokens than sequences")
        << generate + QStringList{"--max-num-seqs", "8", "--max-num-batched-tokens", "7"};
    for (const char *device : {"", "cuda", "cuda:", "cuda:x", "cuda:-1", "cuda:0,", "cuda:0,cuda:0", "cpu,cuda:0"})
        QTest::addRow("device '%s'", device) << generate + QStringList{"--device", device};
    for (const char *type : {"", "q4_0", "f16,", ",f16", "f16,f16,f16", "e4m3", "F16"})
        QTest::addRow("KV type '%s'", type) << generate + QStringList{"--kv-cache-dtype", type};
    QTest::newRow("policy") << QStringList{"generate", model, "-p", "a", "--scheduling-policy", "luck"};
}

void CliTest::wrongUsage()
{
    QFETCH(QStringList, arguments);
    const Run result = run(arguments);
    QCOMPARE(result.code, 2);
    QVERIFY2(isOneError(result), result.err.constData());
}

void CliTest::refusedInput_data()
{
    QTest::addColumn<QStringList>("arguments");
    const QString model = tinyModel();
    QTest::newRow("no such model") << QStringList{"generate", "no-such-model", "-p", "a"};
    QTest::newRow("no such file") << QStringList{"inspect", "/no/such/file.gguf"};
    QTest::newRow("not a model") << QStringList{"generate", QStringLiteral(LATHE_SOURCE_DIR "/LICENSE"), "-p", "a"};
    QTest::newRow("a folder without a model") << QStringList{"inspect", QStringLiteral(LATHE_SOURCE_DIR "/app")};
    QTest::newRow("empty prompt") << QStringList{"generate", model, "--ids", ""};
    QTest::newRow("id outside") << QStringList{"generate", model, "--ids", "1,99999999"};
    QTest::newRow("prompt too long") << QStringList{"generate",        model, "--ids", "1,2,3,4,5,6,7,8,9",
                                                    "--max-model-len", "8"};
    QTest::newRow("no such prompt file") << QStringList{"generate", model, "--file", "/no/such/file"};
    QTest::newRow("no template") << QStringList{"chat", model, "-p", "a"};
}

void CliTest::refusedInput()
{
    QFETCH(QStringList, arguments);
    const Run result = run(arguments + QStringList{"-q"});
    QCOMPARE(result.code, 3);
    QVERIFY2(isOneError(result), result.err.constData());
}

void CliTest::absentDevicesAndLevels()
{
    QStringList devices{QStringLiteral("cuda:99"), QStringLiteral("cuda:98,cuda:99")};
#ifndef LATHE_HAS_SIMT
    devices.push_back(QStringLiteral("simt"));
#endif
    for (const QString &device : devices) {
        const Run result = run({"generate", tinyModel(), "-p", "a", "--device", device});
        QCOMPARE(result.code, 4);
        QVERIFY2(isOneError(result), result.err.constData());
        QVERIFY2(result.err.contains(device.toUtf8()), result.err.constData());
        QCOMPARE(run({"selftest", "--device", device}).code, 4);
    }
}

void CliTest::selfTestComparesEveryOperation()
{
    const Run result = run({"selftest", "--device", "cpu", "--json", "--threads", "2"});
    QVERIFY2(result.code == 0, result.err.constData());
    QSet<QString> ops;
    int skipped = 0;
    const auto all = lines(result.out);
    for (const QJsonObject &row : all.mid(0, all.size() - 1)) {
        ops.insert(row["op"].toString());
        skipped += row["ok"].isNull() ? 1 : 0;
        QVERIFY(row["ok"].isNull() || (row["nmse"].toDouble() <= row["limit"].toDouble() && row["ok"].toBool()));
    }
    for (const char *op : {"linear", "embed", "rope", "rmsNorm", "attention of a prompt", "experts", "route"})
        QVERIFY2(ops.contains(op), op);
    QCOMPARE(all.last()["failed"].toInt(-1), 0);
    QCOMPARE(all.last()["skipped"].toInt(-1), skipped);
    QCOMPARE(all.last()["passed"].toInt(-1) + skipped, int(all.size()) - 1);
    QVERIFY(all.last()["copy_gbps"].toDouble() > 0);
    QCOMPARE(run({"selftest", "--device", "gpu"}).code, 2);
}

void CliTest::emulatedDeviceAnswersAsTheCpu()
{
#ifdef LATHE_HAS_SIMT
    const QStringList arguments{"generate", tinyModel(),    "-p", "Hello", "--temperature",
                                "0",        "--max-tokens", "6",  "-q"};
    const Run emulated = run(arguments + QStringList{"--device", "simt"});
    QVERIFY2(emulated.code == 0, emulated.err.constData());
    QCOMPARE(emulated.out, run(arguments).out);
#else
    QSKIP("needs the emulator of CUDA kernels (LATHE_SIMT)");
#endif
}

void CliTest::inspectTellsTheFile()
{
    const Run result = run({"inspect", tinyModel(), "--json", "--tensors", "--metadata"});
    QCOMPARE(result.code, 0);
    const QJsonObject model = lines(result.out).value(0);
    QCOMPARE(model["format"].toString(), "gguf");
    QCOMPARE(model["architecture"].toString(), "llama");
    QCOMPARE(model["file_bytes"].toInteger(), QFileInfo(tinyModel()).size());
    QVERIFY(model["parameters"].toInteger() > 0);
    QVERIFY(!model["tensors"].toArray().isEmpty());
    QCOMPARE(model["metadata"].toObject()["general.architecture"].toString(), "llama");
    QVERIFY(run({"inspect", tinyModel()}).out.contains("llama"));
}

void CliTest::tokenizeAndBack()
{
    const QByteArray text = "Hello wörld \xF0\x9F\x99\x82";
    const Run result = run({"tokenize", tinyModel(), "--json", "--text", QString::fromUtf8(text)});
    QCOMPARE(result.code, 0);
    QStringList ids;
    for (const QJsonValue &id : lines(result.out).value(0)["ids"].toArray())
        ids += QString::number(id.toInt());
    QVERIFY(!ids.isEmpty());
    QCOMPARE(lines(run({"detokenize", tinyModel(), "--json", "--ids", ids.join(',')}).out).value(0)["text"].toString(),
             QString::fromUtf8(text));

    const Run stream =
        run({"tokenize", tinyModel(), "--jsonl"}, "{\"text\":\"a\"}\nnot json\n{\"text\":5}\n\n{\"text\":\"\"}\n");
    QCOMPARE(stream.code, 0);
    const QList<QJsonObject> answers = lines(stream.out);
    QCOMPARE(answers.size(), 5);
    QVERIFY(answers[0].contains("ids"));
    QVERIFY(answers[1].contains("error"));
    QVERIFY(answers[2]["error"].toString().contains("text"));
    QVERIFY(answers[3].contains("error")); // an empty line is no object either
    QVERIFY(answers[4].contains("ids") && answers[4]["ids"].toArray().isEmpty());
}

void CliTest::renderBareTemplates()
{
    const Run result = run({"render", "--jsonl"},
                           "{\"template\":\"{{ a }}-{{ b|upper "
                           "}}\",\"context\":{\"a\":1,\"b\":\"x\"}}\n{\"template\":\"{% if %}\",\"context\":{}}\n");
    QCOMPARE(result.code, 0);
    const QList<QJsonObject> answers = lines(result.out);
    QCOMPARE(answers.size(), 2);
    QCOMPARE(answers[0]["prompt"].toString(), "1-X");
    QVERIFY(answers[1]["error"].toString().contains("line 1"));
    // Numbers reach the template as they are written.
    const Run numbers = run({"render", "--jsonl"},
                            "{\"context\": {\"a\" : [\"]}\\\"\", 123456789012345678901234567890, 1e22 ] , "
                            "\"b\":null},\"template\":\"{{ a }}{{ b }}\"}\n");
    QCOMPARE(lines(numbers.out).at(0)["prompt"].toString(), "[']}\"', 123456789012345678901234567890, 1e+22]None");
}

void CliTest::generateIsRepeatable()
{
    const QStringList arguments{"generate", tinyModel(), "--ids",        "1,5,9",  "-n",         "12",
                                "--seed",   "7",         "--ignore-eos", "--json", "--logprobs", "2"};
    const Run first = run(arguments);
    QCOMPARE(first.code, 0);
    const QJsonObject result = lines(first.out).value(0);
    QCOMPARE(result["ids"].toArray().size(), 12);
    QCOMPARE(result["finish_reason"].toString(), "length");
    QCOMPARE(result["usage"].toObject()["prompt_tokens"].toInt(), 3);
    QCOMPARE(result["usage"].toObject()["completion_tokens"].toInt(), 12);
    QCOMPARE(result["logprobs"].toArray().size(), 12);
    QVERIFY(result["timings"].toObject()["ttft_ms"].toDouble() > 0);
    QCOMPARE(lines(run(arguments).out).value(0)["ids"], result["ids"]);
    QCOMPARE(lines(run(arguments + QStringList{"--block-size", "8", "--threads", "1"}).out).value(0)["ids"],
             result["ids"]);
}

void CliTest::linesRunAsOneBatchAndKeepTheirOrder()
{
    QTemporaryDir folder;
    const QString stats = folder.filePath("stats.json");
    QByteArray input;
    for (int i = 0; i < 10; ++i)
        input += "{\"ids\":[1," + QByteArray::number(4 + i) + "],\"max_tokens\":" + QByteArray::number(12 - i)
            + ",\"ignore_eos\":true,\"temperature\":0}\n";
    input += "{\"ids\":[99999999]}\n{\"prompt\":\"a\",\"ids\":[1]}\n{\"ids\":[1],\"temperature\":-3}\n";
    const Run result = run({"generate", tinyModel(), "--jsonl", "--stats", stats, "--max-num-seqs", "4"}, input);
    QCOMPARE(result.code, 0);
    const QList<QJsonObject> answers = lines(result.out);
    QCOMPARE(answers.size(), 13);
    for (int i = 0; i < 10; ++i)
        QCOMPARE(answers[i]["ids"].toArray().size(), 12 - i);
    for (int i = 10; i < 13; ++i)
        QVERIFY(!answers[i]["error"].toString().isEmpty());
    QFile file(stats);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QJsonObject totals = QJsonDocument::fromJson(file.readAll()).object();
    QCOMPARE(totals["max_running"].toInt(), 4);
    QCOMPARE(totals["blocks_free"].toInt(), totals["blocks_total"].toInt());
    QVERIFY(totals["peak_rss_bytes"].toInteger() > 0 && totals["steps"].toInt() > 0);
    QCOMPARE(totals["worker_peak_rss_bytes"].toInteger(-1), 0);
}

void CliTest::statsCountAWorker()
{
    const QTemporaryDir folder;
    const QString stats = folder.filePath("stats.json");
    QCOMPARE(run({"generate", tinyModel(), "-p", "a", "-n", "2", "--device", "cpu", "--device-process", "worker",
                  "--stats", stats})
                 .code,
             0);
    QFile file(stats);
    QVERIFY(file.open(QIODevice::ReadOnly));
    const QJsonObject totals = QJsonDocument::fromJson(file.readAll()).object();
    constexpr int leastBytes = 1 << 20;
    QVERIFY(totals["worker_peak_rss_bytes"].toInteger() > leastBytes);
    QVERIFY(totals["blocks_total"].toInt() > 0);
}

void CliTest::logitsAreWhole()
{
    QTemporaryDir folder;
    QFile ids(folder.filePath("ids.json"));
    QVERIFY(ids.open(QIODevice::WriteOnly));
    ids.write("[[1,2,3],[4]]");
    ids.close();
    const QString out = folder.filePath("logits.f32");
    const Run result =
        run({"logits", tinyModel(), "--ids-file", ids.fileName(), "--out", out, "--all-positions", "--json"});
    QCOMPARE(result.code, 0);
    const QJsonObject answer = lines(result.out).value(0);
    QCOMPARE(answer["rows"].toInt(), 4);
    QCOMPARE(QFileInfo(out).size(), 4LL * 4 * answer["vocab_size"].toInt());

    const QString refused = folder.filePath("refused.f32");
    QVERIFY(ids.open(QIODevice::WriteOnly));
    ids.write("[[1],[99999999]]");
    ids.close();
    QCOMPARE(run({"logits", tinyModel(), "--ids-file", ids.fileName(), "--out", refused}).code, 3);
    QCOMPARE(QDir(folder.path()).entryList(QDir::Files).size(), 2); // no partial output is left
}

void CliTest::perplexityOfAText()
{
    QTemporaryDir folder;
    QFile text(folder.filePath("text.txt"));
    QVERIFY(text.open(QIODevice::WriteOnly));
    text.write(QByteArray("The quick brown fox jumps over the lazy dog. ").repeated(20));
    text.close();
    const QString out = folder.filePath("tokens.f32");
    const Run result = run(
        {"perplexity", tinyModel(), "--file", text.fileName(), "--context", "64", "--per-token", out, "--json", "-q"});
    QCOMPARE(result.code, 0);
    const QJsonObject answer = lines(result.out).value(0);
    QVERIFY(answer["ppl"].toDouble() > 1);
    QVERIFY(qAbs(std::exp(answer["nll"].toDouble()) / answer["ppl"].toDouble() - 1) < 1e-9);
    QCOMPARE(QFileInfo(out).size(), 4LL * answer["tokens"].toInt());
    QCOMPARE(answer["kv_cache_dtype"].toObject()["requested"].toString(), QString("auto"));
    QCOMPARE(answer["kv_cache_dtype"].toObject()["effective"].toString(), QString("f16"));
    QVERIFY(!answer.contains("kl"));

    QStringList compared{"perplexity", tinyModel(),        "--file",   text.fileName(), "--context", "64",
                         "-q",         "--kv-cache-dtype", "f16,q8_0", "--kl-against",  "f32"};
    const Run words = run(compared);
    QCOMPARE(words.code, 0);
    QVERIFY2(words.out.contains("KL divergence from a KV cache of f32"), words.out.constData());
    const QJsonObject mixed = lines(run(compared << "--json").out).value(0);
    QCOMPARE(mixed["kv_cache_dtype"].toObject()["effective"].toString(), QString("f16,q8_0"));
    const QJsonObject kl = mixed["kl"].toObject();
    QCOMPARE(kl["against"].toString(), QString("f32"));
    QVERIFY(kl["mean"].toDouble() > 0 && kl["mean"].toDouble() < 1e-2 && kl["max"].toDouble() >= kl["p99"].toDouble());
}

void CliTest::chatTakesLines()
{
    const QString model = shared_data::demoModel();
    if (model.isEmpty())
        QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is not installed");
    const Run result =
        run({"chat", model, "-q", "--json", "-n", "8", "--temperature", "0"}, "Hello\nAgain\n/new\nHello\n/exit\n");
    QCOMPARE(result.code, 0);
    const QList<QJsonObject> answers = lines(result.out);
    QCOMPARE(answers.size(), 3);
    QVERIFY(answers[1]["usage"].toObject()["cached_tokens"].toInt() > 0);
    QCOMPARE(answers[2]["text"], answers[0]["text"]);
}

void CliTest::benchNamesItsTests()
{
    const Run result =
        run({"bench", tinyModel(), "-p", "16,0", "-n", "4", "-d", "0,8", "-b", "1,2", "-r", "2", "--json"});
    QCOMPARE(result.code, 0);
    QStringList tests;
    for (const QJsonObject &row : lines(result.out)) {
        tests += row["test"].toString() + " d" + QString::number(row["depth"].toInt());
        QVERIFY(row["tokens_per_second"].toObject()["median"].toDouble() > 0);
        QVERIFY(row["bytes_per_token"].toDouble() > 0);
        QVERIFY(row["roofline_gbps"].toDouble() > 0);
        QVERIFY(row["roofline_fraction"].toDouble() > 0);
        QVERIFY(row["gflops"].toDouble() > 0);
        QVERIFY(row["peak_gflops"].toDouble() > row["gflops"].toDouble());
        QVERIFY(row["peak_fraction"].toDouble() > 0);
    }
    QCOMPARE(tests.join(','), "pp16 d0,tg4 d0,tg4@2 d0,tg4 d8,tg4@2 d8");
}

void CliTest::devicesListTheCpu()
{
    const Run result = run({"devices", "--json"});
    QCOMPARE(result.code, 0);
    const QJsonObject cpu = lines(result.out).value(0);
    QCOMPARE(cpu["id"].toString(), "cpu");
    QVERIFY(cpu["memory_total_bytes"].toInteger() > 0);
    QVERIFY(!cpu["isa"].toArray().isEmpty());
    QVERIFY(cpu.contains("temperature_c"));
}

void CliTest::interruptsEndInTime()
{
    QProcess process;
    process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), {"generate", tinyModel(), "--jsonl", "-q"});
    QVERIFY(process.waitForStarted());
    process.write(QByteArray("{\"ids\":[1],\"max_tokens\":500,\"ignore_eos\":true}\n").repeated(20'000));
    process.closeWriteChannel();
    QVERIFY(process.waitForReadyRead(60'000)); // some requests have ended, thousands have not
    QCOMPARE(process.state(), QProcess::Running);
    QElapsedTimer timer;
    timer.start();
    ::kill(static_cast<pid_t>(process.processId()), SIGINT);
    QVERIFY(process.waitForFinished(10'000));
    QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(timer.elapsed())));
    QCOMPARE(process.exitCode(), 130);
    const QByteArray out = process.readAllStandardOutput();
    QVERIFY(out.endsWith('\n'));
    for (const QJsonObject &result : lines(out))
        QCOMPARE(result["ids"].toArray().size(), 500);
}

QTEST_GUILESS_MAIN(CliTest)
#include "tst_cli.moc"
