// SPDX-License-Identifier: GPL-3.0-or-later
// `lathe-cli serve` on a tiny model, from outside: its first line, answers of the real engine, hostile requests, its
// end.
#include "tests/support/hostile_cases.h"
#include "tests/support/http_client.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>
#include <QUrl>

#include <csignal>
#include <cstring>
#include <memory>

namespace {

QJsonObject object(const QByteArray &json)
{
    return QJsonDocument::fromJson(json).object();
}

/// The tiny model with a chat template put before its other keys. The new key's bytes are a multiple of the file's
/// alignment, so that all tensors stay where their offsets say.
QByteArray withChatTemplate(QByteArray gguf)
{
    constexpr int alignment = 32;
    constexpr quint32 stringType = 8;
    const QByteArray key = "tokenizer.chat_template";
    QByteArray text = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:{# #}";
    const auto entryBytes = [&] { return 8 + key.size() + 4 + 8 + text.size(); };
    while (entryBytes() % alignment != 0)
        text.insert(text.size() - 2, ' ');
    const auto number = [](auto value) { return QByteArray(reinterpret_cast<const char *>(&value), sizeof value); };
    const QByteArray entry =
        number(quint64(key.size())) + key + number(stringType) + number(quint64(text.size())) + text;
    constexpr int countAt = 16; // behind magic, version and the number of tensors
    constexpr int headerBytes = 24;
    quint64 count = 0;
    std::memcpy(&count, gguf.constData() + countAt, sizeof count);
    gguf.replace(countAt, sizeof count, number(count + 1));
    return gguf.insert(headerBytes, entry);
}

/// A server process and what its first line said.
struct ServerProcess {
    QProcess process;
    QJsonObject line;
    int port = 0;

    bool start(const QStringList &arguments)
    {
        process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), QStringList{"serve"} + arguments);
        while (!process.canReadLine() && process.waitForReadyRead(120'000)) {
        }
        line = object(process.readLine());
        port = QUrl(line["url"].toString()).port();
        return port > 0;
    }
    HttpClient::Response ask(const QByteArray &request) { return HttpClient::ask(port, request); }
    int interrupt(int signal = SIGINT)
    {
        ::kill(static_cast<pid_t>(process.processId()), signal);
        return process.waitForFinished(10'000) ? process.exitCode() : -1;
    }
    ~ServerProcess()
    {
        if (process.state() != QProcess::NotRunning) {
            process.kill();
            process.waitForFinished(5000);
        }
    }
};

} // namespace

class ServeCliTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void firstLine();
    void answersAsGenerateDoes();
    void samplesTheSameInEveryForm();
    void constrainsAnswers_data();
    void constrainsAnswers();
    void countsLogprobs();
    void tokenizesAndRenders();
    void tellsOfPromptsThatAreTooLong();
    void survivesHostileRequests();
    void makesAKey();
    void refusesWrongOptions_data();
    void refusesWrongOptions();
    void endsOnASignal();

private:
    QTemporaryDir m_dir;
    QString m_model;
    std::unique_ptr<ServerProcess> m_server;

    QJsonObject complete(const QByteArray &members)
    {
        const auto response = m_server->ask(HttpClient::post("/v1/completions", '{' + members + '}'));
        if (response.status != 200)
            qWarning("%s", response.body.constData());
        return object(response.body);
    }
};

void ServeCliTest::initTestCase()
{
    QFile original(shared_data::data("tiny-llama/llama-f16.gguf"));
    QVERIFY(original.open(QIODevice::ReadOnly));
    m_model = m_dir.filePath("tiny.gguf");
    QFile copy(m_model);
    QVERIFY(copy.open(QIODevice::WriteOnly));
    copy.write(withChatTemplate(original.readAll()));
    copy.close();
    m_server = std::make_unique<ServerProcess>();
    QVERIFY2(m_server->start({m_model, "--json", "--port", "0", "--no-api-key", "--threads", "2"}),
             m_server->process.readAllStandardError().constData());
}

void ServeCliTest::firstLine()
{
    QCOMPARE(m_server->line["listening"].toBool(), true);
    QCOMPARE(m_server->line["model"].toString(), "tiny");
    QVERIFY(m_server->line["url"].toString().startsWith("http://127.0.0.1:"));
    const QJsonObject models = object(m_server->ask(HttpClient::get("/v1/models")).body);
    QCOMPARE(models["data"].toArray()[0].toObject()["id"].toString(), "tiny");
    QCOMPARE(m_server->ask(HttpClient::get("/health")).status, 200);
}

void ServeCliTest::answersAsGenerateDoes()
{
    QProcess generate;
    generate.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"),
                   {"generate", m_model, "-p", "hello there", "-n", "12", "--temperature", "0", "--json", "-q"});
    QVERIFY(generate.waitForFinished(120'000));
    const QJsonObject expected = object(generate.readAllStandardOutput());
    const QJsonObject whole = complete(R"("prompt":"hello there","max_tokens":12,"temperature":0)");
    QCOMPARE(whole["choices"].toArray()[0].toObject()["text"].toString(), expected["text"].toString());
    QCOMPARE(whole["usage"].toObject()["prompt_tokens"], expected["usage"].toObject()["prompt_tokens"]);
    const auto streamed = m_server->ask(HttpClient::post(
        "/v1/completions", R"({"prompt":"hello there","max_tokens":12,"temperature":0,"stream":true})"));
    QString text;
    for (const QByteArray &event : HttpClient::events(streamed.body))
        if (event != "[DONE]")
            text += object(event)["choices"].toArray()[0].toObject()["text"].toString();
    QCOMPARE(text, expected["text"].toString());
}

void ServeCliTest::samplesTheSameInEveryForm()
{
    const QByteArray members = R"("prompt":"a","max_tokens":10,"temperature":1.2,"seed":)";
    const auto textOf = [](const QJsonObject &json, int choice) {
        return json["choices"].toArray()[choice].toObject()["text"].toString();
    };
    const QJsonObject both = complete(members + R"(5,"n":2)");
    QCOMPARE(textOf(both, 0), textOf(complete(members + "5"), 0));
    QCOMPARE(textOf(both, 1), textOf(complete(members + "6"), 0)); // choice i draws with seed + i
    QVERIFY(textOf(both, 0) != textOf(both, 1));
}

void ServeCliTest::constrainsAnswers_data()
{
    QTest::addColumn<QByteArray>("schema");
    QTest::newRow("closed") << QByteArray(
        R"({"type":"object","properties":{"name":{"type":"string","maxLength":6},"ok":{"type":"boolean"},
        "kind":{"enum":["a","b"]},"n":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}},
        "required":["name","ok","kind","n"],"additionalProperties":false})");
    QTest::newRow("enum") << QByteArray(R"({"enum":["yes","no",{"maybe":1}]})");
}

/// A model of random weights would not write JSON by itself.
void ServeCliTest::constrainsAnswers()
{
    QFETCH(QByteArray, schema);
    for (int seed = 0; seed < 6; ++seed) {
        const QByteArray sampling =
            seed == 0 ? QByteArray(R"("temperature":0)") : "\"temperature\":1.5,\"seed\":" + QByteArray::number(seed);
        const auto response = m_server->ask(HttpClient::post(
            "/v1/chat/completions",
            R"({"messages":[{"role":"user","content":"x"}],"max_tokens":300,"n":2,)" + sampling
                + R"(,"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":)"
                + schema + "}}}"));
        QCOMPARE(response.status, 200);
        for (const QJsonValue &choice : object(response.body)["choices"].toArray()) {
            QCOMPARE(choice.toObject()["finish_reason"].toString(), "stop");
            const QByteArray text = choice.toObject()["message"].toObject()["content"].toString().toUtf8();
            const QJsonArray wrapped = QJsonDocument::fromJson('[' + text + ']').array();
            QVERIFY2(wrapped.size() == 1, text.constData());
            if (schema.startsWith(R"({"enum")"))
                continue;
            const QJsonObject value = wrapped[0].toObject();
            QCOMPARE(value.size(), 4);
            QVERIFY(value["ok"].isBool() && value["name"].isString());
            QCOMPARE(value["n"].toArray().size(), 2);
            QVERIFY(QStringList({"a", "b"}).contains(value["kind"].toString()));
        }
    }
}

void ServeCliTest::countsLogprobs()
{
    const QJsonObject chat =
        object(m_server
                   ->ask(HttpClient::post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}],
                "max_tokens":5,"temperature":0,"logprobs":true,"top_logprobs":3,"ignore_eos":true})"))
                   .body);
    const QJsonArray content = chat["choices"].toArray()[0].toObject()["logprobs"].toObject()["content"].toArray();
    QCOMPARE(content.size(), 5);
    for (const QJsonValue &entry : content) {
        const QJsonArray top = entry.toObject()["top_logprobs"].toArray();
        QCOMPARE(top.size(), 3);
        QCOMPARE(top[0].toObject()["token"], entry.toObject()["token"]); // greedy: the best one was taken
        QCOMPARE(top[0].toObject()["logprob"], entry.toObject()["logprob"]);
        QVERIFY(top[0].toObject()["logprob"].toDouble() >= top[1].toObject()["logprob"].toDouble());
        QVERIFY(!entry.toObject()["bytes"].toArray().isEmpty());
    }
    const QJsonObject plain = complete(R"("prompt":"x","max_tokens":4,"logprobs":2,"temperature":0,"ignore_eos":true)");
    const QJsonObject logprobs = plain["choices"].toArray()[0].toObject()["logprobs"].toObject();
    for (const char *list : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
        QCOMPARE(logprobs[list].toArray().size(), 4);
}

void ServeCliTest::tokenizesAndRenders()
{
    const QJsonObject ids = object(m_server->ask(HttpClient::post("/tokenize", R"({"content":"hello"})")).body);
    QVERIFY(ids["count"].toInt() > 0);
    const QByteArray list = QJsonDocument(ids["tokens"].toArray()).toJson(QJsonDocument::Compact);
    const auto text = m_server->ask(HttpClient::post("/detokenize", "{\"tokens\":" + list + '}'));
    QCOMPARE(object(text.body)["content"].toString(), "hello");
    QCOMPARE(m_server->ask(HttpClient::post("/detokenize", R"({"tokens":[999999]})")).status, 400);
    const QByteArray messages = R"("messages":[{"role":"user","content":"hi"}])";
    const auto prompt = m_server->ask(HttpClient::post("/apply-template", '{' + messages + '}'));
    QCOMPARE(object(prompt.body)["prompt"].toString(), "user: hi\nassistant:");
    const QJsonObject rendered = object(m_server->ask(HttpClient::post("/tokenize", '{' + messages + '}')).body);
    const QJsonObject chat =
        object(m_server->ask(HttpClient::post("/v1/chat/completions", '{' + messages + R"(,"max_tokens":1})")).body);
    QCOMPARE(chat["usage"].toObject()["prompt_tokens"].toInt(), rendered["count"].toInt());
}

void ServeCliTest::tellsOfPromptsThatAreTooLong()
{
    const auto response = m_server->ask(
        HttpClient::post("/v1/completions", R"({"stream":true,"prompt":")" + QByteArray(5000, 'x') + "\"}"));
    QCOMPARE(response.status, 400);
    QVERIFY2(response.body.contains("512"), response.body.constData()); // the context
}

void ServeCliTest::survivesHostileRequests()
{
    const hostile::Cases cases;
    if (!cases.problem().isEmpty())
        QSKIP(qPrintable(cases.problem()));
    const QByteArray control = [&] {
        QFile file(cases.control("request").path);
        return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
    }();
    QVERIFY(!control.isEmpty());
    int run = 0;
    for (const hostile::Case &one : cases.group("request")) {
        QFile file(one.path);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QByteArray bytes = file.readAll();
        QElapsedTimer timer;
        timer.start();
        HttpClient client(m_server->port, 5000);
        client.send(one.path.endsWith(".http") ? bytes : HttpClient::post(one.json["path"].toString().toUtf8(), bytes));
        const auto response = client.read();
        const QString what = one.name + ": " + QString::number(response.status) + ' ' + response.body.left(300);
        QVERIFY2(one.json["status"].toArray().contains(response.status), qPrintable(what));
        QVERIFY2(timer.elapsed() <= one.seconds * 1000, qPrintable(what));
        QVERIFY2(response.header("Access-Control-Allow-Origin").isEmpty(), qPrintable(what));
        if (response.status >= 400)
            QVERIFY2(hostile::missingWords(one, response.body).isEmpty(), qPrintable(what));
        QCOMPARE(m_server->ask(HttpClient::post("/v1/chat/completions", control)).status, 200);
        ++run;
    }
    QCOMPARE(run, 53);
    const auto huge = m_server->ask(HttpClient::post("/v1/chat/completions",
                                                     R"({"messages":[{"role":"user","content":")"
                                                         + QByteArray(10 << 20, 'x') + R"("}],"max_tokens":4})"));
    QCOMPARE(huge.status, 413);
}

void ServeCliTest::makesAKey()
{
    ServerProcess server;
    QVERIFY(server.start({m_model, "--json", "--port", "0", "-q", "--served-model-name", "mine/one"}));
    QCOMPARE(server.line["model"].toString(), "mine/one");
    const QByteArray key = server.line["api_key"].toString().toUtf8();
    QCOMPARE(key.size(), 43);
    QCOMPARE(server.ask(HttpClient::get("/v1/models")).status, 401);
    QCOMPARE(server.ask(HttpClient::get("/v1/models/mine/one", "Authorization: Bearer " + key + "\r\n")).status, 200);
    ServerProcess given;
    QVERIFY(given.start({m_model, "--json", "--port", "0", "-q", "--api-key", "k"}));
    QVERIFY(!given.line.contains("api_key"));
    QCOMPARE(given.ask(HttpClient::get("/v1/models", "Authorization: Bearer k\r\n")).status, 200);
}

void ServeCliTest::refusesWrongOptions_data()
{
    QTest::addColumn<QStringList>("options");
    QTest::addColumn<int>("code");
    QTest::addColumn<QString>("word");
    QTest::newRow("both") << QStringList{"--no-api-key", "--api-key", "k"} << 2 << "--no-api-key";
    QTest::newRow("open") << QStringList{"--no-api-key", "--host", "0.0.0.0"} << 2 << "--host 0.0.0.0";
    QTest::newRow("port") << QStringList{"--port", "70000"} << 2 << "--port";
    QTest::newRow("taken") << QStringList{"--port", "TAKEN"} << 1 << "cannot listen";
    QTest::newRow("queue") << QStringList{"--max-num-queued-reqs", "-1"} << 2 << "--max-num-queued-reqs";
}

void ServeCliTest::refusesWrongOptions()
{
    QFETCH(QStringList, options);
    QFETCH(int, code);
    QFETCH(QString, word);
    options.replaceInStrings("TAKEN", QString::number(m_server->port));
    QProcess process;
    process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), QStringList{"serve", m_model, "-q"} + options);
    QVERIFY(process.waitForFinished(60'000));
    QCOMPARE(process.exitCode(), code);
    const QByteArray error = process.readAllStandardError();
    QVERIFY2(error.startsWith("error: ") && error.count('\n') == 1 && error.contains(word.toUtf8()), error.constData());
}

void ServeCliTest::endsOnASignal()
{
    for (const int signal : {SIGINT, SIGTERM}) {
        ServerProcess server;
        const QString stats = m_dir.filePath("stats.json");
        QVERIFY(server.start({m_model, "--json", "--port", "0", "--no-api-key", "-q", "--stats", stats}));
        HttpClient stream(server.port);
        QVERIFY(stream.send(
            HttpClient::post("/v1/completions", R"({"prompt":"a","stream":true,"ignore_eos":true,"max_tokens":500})")));
        QVERIFY(stream.readUntil("data: "));
        QElapsedTimer timer;
        timer.start();
        QCOMPARE(server.interrupt(signal), 130);
        QVERIFY(timer.elapsed() < 2000);
        QFile file(stats);
        QVERIFY(file.open(QIODevice::ReadOnly));
        const QJsonObject totals = object(file.readAll());
        QCOMPARE(totals["blocks_free"], totals["blocks_total"]);
    }
}

QTEST_GUILESS_MAIN(ServeCliTest)
#include "tst_serve_cli.moc"
