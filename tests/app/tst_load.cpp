// SPDX-License-Identifier: GPL-3.0-or-later
// lathe-cli load and experiment as a script uses them: on a tiny model, and against a scripted server.
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct Run {
    int code = -1;
    QByteArray out;
    QByteArray err;
    [[nodiscard]] QJsonObject json() const { return QJsonDocument::fromJson(out).object(); }
};

Run run(const QStringList &arguments)
{
    QProcess process;
    process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"), arguments);
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

bool isOneError(const Run &run)
{
    return run.out.isEmpty() && run.err.startsWith("error: ") && run.err.count('\n') == 1 && run.err.size() > 20;
}

const QStringList &contractKeys()
{
    static const QStringList keys{"completed",
                                  "failed",
                                  "rejected",
                                  "duration_s",
                                  "request_throughput",
                                  "output_throughput",
                                  "total_throughput",
                                  "goodput",
                                  "ttft_ms",
                                  "tpot_ms",
                                  "itl_ms",
                                  "e2e_ms",
                                  "queue_ms",
                                  "max_running",
                                  "preemptions",
                                  "prefix_hit_rate",
                                  "kv_peak_usage",
                                  "kv_waste"};
    return keys;
}

/// An OpenAI-compatible server that answers every completion with four tokens, 20 ms apart, and every third one with
/// a refusal.
class ScriptedServer {
public:
    ScriptedServer()
    {
        m_listener = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof address;
        bind(m_listener, reinterpret_cast<sockaddr *>(&address), size);
        listen(m_listener, 64);
        getsockname(m_listener, reinterpret_cast<sockaddr *>(&address), &size);
        m_port = ntohs(address.sin_port);
        m_thread = std::thread([this] { acceptAll(); });
    }
    ~ScriptedServer()
    {
        shutdown(m_listener, SHUT_RDWR);
        m_thread.join();
        close(m_listener);
        for (std::thread &client : m_clients)
            client.join();
    }
    ScriptedServer(const ScriptedServer &) = delete;
    ScriptedServer &operator=(const ScriptedServer &) = delete;

    [[nodiscard]] QString url() const { return QStringLiteral("http://127.0.0.1:%1/v1").arg(m_port); }
    [[nodiscard]] QList<QJsonObject> bodies()
    {
        const std::lock_guard lock(m_mutex);
        return m_bodies;
    }

    std::atomic<bool> refuseSome = false;
    std::atomic<bool> cutStreams = false;
    std::atomic<bool> metrics = false;
    std::atomic<int> looks = 0; ///< at the metrics
    std::atomic<int> gapMs = 20;

private:
    void acceptAll()
    {
        for (int client = accept(m_listener, nullptr, nullptr); client >= 0;
             client = accept(m_listener, nullptr, nullptr))
            m_clients.emplace_back([this, client] { serve(client); });
    }

    static void sendAll(int client, const QByteArray &bytes)
    {
        for (qsizetype sent = 0; sent < bytes.size();) {
            const ssize_t count =
                send(client, bytes.constData() + sent, static_cast<std::size_t>(bytes.size() - sent), MSG_NOSIGNAL);
            if (count <= 0)
                return;
            sent += count;
        }
    }

    static void answer(int client, const char *status, const QByteArray &body)
    {
        sendAll(client,
                QByteArray("HTTP/1.1 ") + status + "\r\nContent-Type: application/json\r\nContent-Length: "
                    + QByteArray::number(body.size()) + "\r\nConnection: close\r\n\r\n" + body);
    }

    static void chunk(int client, const QByteArray &text)
    {
        sendAll(client, QByteArray::number(text.size(), 16) + "\r\n" + text + "\r\n");
    }

    void serve(int client)
    {
        QByteArray request;
        char buffer[4096];
        qsizetype head = -1;
        qsizetype wanted = 0;
        while (head < 0 || request.size() < wanted) {
            const ssize_t count = recv(client, buffer, sizeof buffer, 0);
            if (count <= 0)
                break;
            request.append(buffer, count);
            head = request.indexOf("\r\n\r\n");
            const qsizetype length = request.toLower().indexOf("content-length: ");
            if (head >= 0)
                wanted = head + 4
                    + (length < 0 ? 0 : request.mid(length + 16, request.indexOf('\r', length) - length - 16).toInt());
        }
        reply(client, request, request.mid(head + 4));
        close(client);
    }

    static QByteArray slotSeconds(int looks)
    {
        return "lathe_kv_cache_slot_seconds_total " + QByteArray::number(100 * looks)
            + "\nlathe_kv_cache_empty_slot_seconds_total " + QByteArray::number(3 * looks) + "\n";
    }

    void reply(int client, const QByteArray &request, const QByteArray &body)
    {
        if (request.startsWith("GET /v1/models "))
            return answer(client, "200 OK", R"({"object":"list","data":[{"id":"tiny","object":"model"}]})");
        if (request.startsWith("GET /metrics ") && metrics)
            return answer(client, "200 OK",
                          "# HELP x y\nlathe_num_preemptions_total 3\nlathe_num_requests_running{model=\"a\"} 2\n"
                          "lathe_prefix_cache_queries_total 100\nlathe_prefix_cache_hits_total 25\n"
                          "lathe_kv_cache_usage_perc 0.5\n"
                              + slotSeconds(++looks));
        if (!request.startsWith("POST /v1/completions ") && !request.startsWith("POST /v1/chat/completions "))
            return answer(client, "404 Not Found", R"({"error":{"message":"no such path"}})");
        int place = 0;
        {
            const std::lock_guard lock(m_mutex);
            m_bodies += QJsonDocument::fromJson(body).object();
            place = static_cast<int>(m_bodies.size());
        }
        if (refuseSome && place % 3 == 0)
            return answer(client, "429 Too Many Requests", R"({"error":{"message":"the queue is full"}})");
        stream(client, request.startsWith("POST /v1/chat"));
    }

    void stream(int client, bool chat)
    {
        sendAll(client, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        if (chat)
            chunk(client, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n");
        for (int i = 0; i < 4; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(gapMs));
            const QByteArray event = chat ? "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
                                          : "data: {\"choices\":[{\"text\":\"a\"}]}\r\n\r\n";
            chunk(client, event.left(9)); // events may come in pieces
            chunk(client, event.mid(9));
        }
        if (cutStreams)
            return;
        chunk(client,
              "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":4}}\n\n"
              "data: [DONE]\n\n");
        sendAll(client, "0\r\n\r\n");
    }

    int m_listener = -1;
    int m_port = 0;
    std::thread m_thread;
    std::vector<std::thread> m_clients;
    std::mutex m_mutex;
    QList<QJsonObject> m_bodies;
};

} // namespace

class LoadTest : public QObject {
    Q_OBJECT

private slots:
    void aModelIsLoaded();
    void aSharedPrefixIsFound();
    void aDatasetIsUsed();
    void textIsATable();
    void wrongUsage_data();
    void wrongUsage();
    void aServerIsLoaded();
    void refusalsAreCounted();
    void cutStreamsFail();
    void noServerIsOneError();
    void interruptsReportWhatHasEnded();
    void experimentsAreListed();
    void experimentsRun_data();
    void experimentsRun();
};

void LoadTest::aModelIsLoaded()
{
    const Run load = run({"load", tinyModel(), "--requests", "12", "--concurrency", "4", "--input-len", "4:8",
                          "--output-len", "3:6", "--goodput", "ttft:60000,tpot:60000", "--json", "-q"});
    QVERIFY2(load.code == 0 && load.err.isEmpty(), load.err);
    const QJsonObject json = load.json();
    for (const QString &key : contractKeys())
        QVERIFY2(json.contains(key), qPrintable(key));
    QCOMPARE(json["completed"].toInt(), 12);
    QCOMPARE(json["failed"].toInt() + json["rejected"].toInt(), 0);
    QVERIFY(json["max_running"].toInt() >= 1 && json["max_running"].toInt() <= 4);
    QVERIFY(std::abs(json["goodput"].toDouble() - json["request_throughput"].toDouble()) < 1e-9);
    const double seconds = json["duration_s"].toDouble();
    QVERIFY(std::abs(json["request_throughput"].toDouble() * seconds - 12) < 1e-6);
    QVERIFY(std::abs(json["output_throughput"].toDouble() * seconds - json["output_tokens"].toInt()) < 1e-6);
    for (const char *key : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms", "queue_ms"}) {
        const QJsonObject latency = json[key].toObject();
        QVERIFY2(latency["p50"].toDouble() <= latency["p90"].toDouble()
                     && latency["p90"].toDouble() <= latency["p95"].toDouble()
                     && latency["p95"].toDouble() <= latency["p99"].toDouble() && latency.contains("mean"),
                 key);
    }
    QVERIFY(json["kv_peak_usage"].toDouble() > 0 && json["kv_waste"].toDouble() > 0);
}

void LoadTest::aSharedPrefixIsFound()
{
    const QStringList base{"load",         tinyModel(), "--requests", "8",  "--concurrency", "1", "--input-len", "4",
                           "--output-len", "2",         "--json",     "-q", "--block-size",  "8"};
    const double with = run(base + QStringList{"--shared-prefix", "32"}).json()["prefix_hit_rate"].toDouble();
    QVERIFY2(with > 0.6, qPrintable(QString::number(with))); // 7 of 8 find 32 of their 36 tokens
    QVERIFY(run(base).json()["prefix_hit_rate"].toDouble() < 0.05);
}

void LoadTest::aDatasetIsUsed()
{
    QTemporaryDir folder;
    QFile good(folder.filePath("good.json"));
    QVERIFY(good.open(QIODevice::WriteOnly));
    good.write(R"([{"conversations":[{"from":"human","value":"a b c d e f"},{"from":"gpt","value":"g h i j k l"}]}])");
    good.close();
    const Run load = run({"load", tinyModel(), "--requests", "3", "--dataset", good.fileName(), "--json", "-q"});
    QVERIFY2(load.code == 0, load.err);
    QCOMPARE(load.json()["completed"].toInt(), 3);
    QFile bad(folder.filePath("bad.json"));
    QVERIFY(bad.open(QIODevice::WriteOnly));
    bad.write(R"([{"conversations":[{"from":)");
    bad.close();
    for (const QString &file : {bad.fileName(), folder.filePath("absent.json")}) {
        const Run refused = run({"load", tinyModel(), "--requests", "3", "--dataset", file, "--json", "-q"});
        QCOMPARE(refused.code, 3);
        QVERIFY2(isOneError(refused) && refused.err.contains(".json"), refused.err);
    }
}

void LoadTest::textIsATable()
{
    const Run load = run({"load", tinyModel(), "--requests", "4", "--input-len", "4", "--output-len", "4", "-q"});
    QCOMPARE(load.code, 0);
    for (const char *line : {"Serving Benchmark Result", "Successful requests:", "Request throughput (req/s):",
                             "Mean TTFT (ms):", "P99 TPOT (ms):", "Median ITL (ms):", "P95 E2EL (ms):"})
        QVERIFY2(load.out.contains(line), line);
}

void LoadTest::wrongUsage_data()
{
    QTest::addColumn<QStringList>("arguments");
    const QString model = tinyModel();
    QTest::newRow("nothing") << QStringList{"load"};
    QTest::newRow("both") << QStringList{"load", model, "--url", "http://127.0.0.1:1"};
    QTest::newRow("length") << QStringList{"load", model, "--input-len", "9:3"};
    QTest::newRow("goodput") << QStringList{"load", model, "--goodput", "speed:3"};
    QTest::newRow("rate") << QStringList{"load", model, "--request-rate", "-1"};
    QTest::newRow("requests") << QStringList{"load", model, "--requests", "0"};
    QTest::newRow("scheme") << QStringList{"load", "--url", "https://127.0.0.1:1"};
    QTest::newRow("not the loopback") << QStringList{"load", "--url", "http://192.0.2.1:80"};
    QTest::newRow("no experiment") << QStringList{"experiment"};
    QTest::newRow("unknown experiment") << QStringList{"experiment", "flying", model};
    QTest::newRow("no model") << QStringList{"experiment", "paging"};
    QTest::newRow("unknown device") << QStringList{"experiment", "paging", "--modelled", "B52"};
}

void LoadTest::wrongUsage()
{
    QFETCH(QStringList, arguments);
    const Run wrong = run(arguments);
    QCOMPARE(wrong.code, 2);
    QVERIFY2(isOneError(wrong), wrong.err);
}

void LoadTest::aServerIsLoaded()
{
    ScriptedServer server;
    server.metrics = true;
    const Run load = run({"load", "--url", server.url(), "--requests", "10", "--concurrency", "5", "--input-len", "6",
                          "--output-len", "4", "--json", "-q"});
    QVERIFY2(load.code == 0 && load.err.isEmpty(), load.err);
    const QJsonObject json = load.json();
    for (const QString &key : contractKeys())
        QVERIFY2(json.contains(key), qPrintable(key));
    QCOMPARE(json["completed"].toInt(), 10);
    QCOMPARE(json["input_tokens"].toInt(), 70); // as the server counts them
    QCOMPARE(json["output_tokens"].toInt(), 40);
    QVERIFY(json["ttft_ms"]["p50"].toDouble() >= 20 && json["tpot_ms"]["p50"].toDouble() >= 20);
    QVERIFY(json["e2e_ms"]["p50"].toDouble() >= 80);
    QVERIFY(json["queue_ms"].isNull());
    QCOMPARE(json["max_running"].toInt(), 2);
    QCOMPARE(json["kv_peak_usage"].toDouble(), 0.5);
    QCOMPARE(json["kv_waste"].toDouble(), 0.03);
    QCOMPARE(json["preemptions"].toInt(), 0); // the counter did not move
    const QList<QJsonObject> bodies = server.bodies();
    QCOMPARE(bodies.size(), 10);
    for (const QJsonObject &body : bodies) {
        QCOMPARE(body["model"].toString(), QStringLiteral("tiny"));
        QCOMPARE(body["max_tokens"].toInt(), 4);
        QVERIFY(body["stream"].toBool());
        QCOMPARE(body["prompt"].toString().split(' ').size(), 6);
    }
    const Run chat = run({"load", "--url", server.url(), "--endpoint", "chat", "--requests", "2", "--json", "-q"});
    QCOMPARE(chat.json()["completed"].toInt(), 2);
    QVERIFY(server.bodies().last().contains("messages"));
}

void LoadTest::refusalsAreCounted()
{
    ScriptedServer server;
    server.refuseSome = true;
    const Run load = run({"load", "--url", server.url(), "--requests", "9", "--concurrency", "1", "--json", "-q"});
    QCOMPARE(load.code, 0);
    QCOMPARE(load.json()["completed"].toInt(), 6);
    QCOMPARE(load.json()["rejected"].toInt(), 3);
    QVERIFY(load.json()["preemptions"].isNull()); // this server has no metrics
}

void LoadTest::cutStreamsFail()
{
    ScriptedServer server;
    server.cutStreams = true;
    const Run load = run({"load", "--url", server.url(), "--requests", "2", "--json", "-q"});
    QCOMPARE(load.code, 1);
    QCOMPARE(load.json()["failed"].toInt(), 2);
    QVERIFY(load.err.startsWith("error: ") && load.err.count('\n') == 1);
}

void LoadTest::noServerIsOneError()
{
    QString url;
    {
        const ScriptedServer gone;
        url = gone.url();
    }
    const Run load = run({"load", "--url", url, "--json", "-q"});
    QCOMPARE(load.code, 1);
    QVERIFY2(isOneError(load), load.err);
}

void LoadTest::interruptsReportWhatHasEnded()
{
    ScriptedServer server;
    server.gapMs = 60;
    QProcess process;
    process.start(QStringLiteral(LATHE_BIN_DIR "/lathe-cli"),
                  {"load", "--url", server.url(), "--requests", "1000", "--concurrency", "2", "--json", "-q"});
    QVERIFY(process.waitForStarted());
    QTest::qWait(1500);
    QElapsedTimer timer;
    timer.start();
    kill(static_cast<pid_t>(process.processId()), SIGINT);
    QVERIFY(process.waitForFinished(5000));
    QVERIFY(timer.elapsed() < 2000);
    QCOMPARE(process.exitCode(), 130);
    const QJsonObject json = QJsonDocument::fromJson(process.readAllStandardOutput()).object();
    QVERIFY(json["completed"].toInt() >= 2 && json["completed"].toInt() < 1000);
}

void LoadTest::experimentsAreListed()
{
    const Run list = run({"experiment", "--list", "--json"});
    QCOMPARE(list.code, 0);
    for (const char *name :
         {"paging", "dynamic-batching", "prefix-cache", "chunked-prefill", "flash-attention", "gqa", "overload"})
        QVERIFY2(list.out.contains(QByteArray("{\"name\":\"") + name + '"'), name);
}

void LoadTest::experimentsRun_data()
{
    QTest::addColumn<QStringList>("arguments");
    QTest::newRow("paging, modelled") << QStringList{"paging", "--modelled", "A100-7B"};
    QTest::newRow("overload, modelled") << QStringList{"overload", tinyModel(), "--modelled", "A100-7B"};
    for (const char *name :
         {"paging", "dynamic-batching", "prefix-cache", "chunked-prefill", "overload", "gqa", "flash-attention"})
        QTest::newRow(name) << QStringList{name, tinyModel()};
}

void LoadTest::experimentsRun()
{
    QFETCH(QStringList, arguments);
    const Run result = run(QStringList{"experiment"} + arguments + QStringList{"--json", "-q"});
    QVERIFY2(result.code == 0, result.err);
    const QJsonObject json = result.json();
    for (const char *key : {"name", "claim", "baseline", "treatment", "ratio", "holds", "bound", "config"})
        QVERIFY2(json.contains(key), key);
    QCOMPARE(json["name"].toString(), arguments.first());
    QVERIFY(json["ratio"].toDouble() > 0 && !json["bound"].toString().isEmpty());
    QCOMPARE(json["config"]["device"].toString().startsWith("modelled"), arguments.contains("--modelled"));
    if (arguments.first() == "prefix-cache")
        QVERIFY(json["config"]["overhead_without_reuse"].toDouble(-1) >= 0);
    if (arguments.first() == "paging") {
        QVERIFY(json["treatment"]["sequences"].toInt() >= 4 * json["baseline"]["sequences"].toInt());
        QVERIFY(json["baseline"]["kv_waste"].toDouble() > 0.5);
        const double waste = json["treatment"]["kv_waste"].toDouble();
        QVERIFY2(waste > 0.001 && waste < (arguments.contains("--modelled") ? 0.04 : 0.3),
                 qPrintable(QString::number(waste)));
    }
}

QTEST_GUILESS_MAIN(LoadTest)
#include "tst_load.moc"
