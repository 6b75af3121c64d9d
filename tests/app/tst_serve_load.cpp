// SPDX-License-Identifier: GPL-3.0-or-later
// Many clients at once: idle and streaming ones on few threads, and leaving at any moment.
#include "tests/support/serve_rig.h"
#include "tests/support/shared_data.h"

#include <QFile>

#include <atomic>
#include <memory>
#include <random>
#include <sys/resource.h>
#include <vector>

using namespace std::chrono_literals;

namespace {

/// A line of this process's status as a number: Threads, or VmRSS in KiB.
int statusOf(const char *name)
{
    QFile file("/proc/self/status");
    if (!file.open(QIODevice::ReadOnly))
        return -1;
    for (const QByteArray &line : file.readAll().split('\n'))
        if (line.startsWith(QByteArray(name) + ':'))
            return line.mid(qstrlen(name) + 1).trimmed().split(' ').first().toInt();
    return -1;
}

} // namespace

class ServeLoadTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void holdsIdleAndActiveClients();
    void cancelsAtAnyMoment();
};

void ServeLoadTest::initTestCase()
{
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 4096)
        QSKIP("fewer than 4096 open files are allowed (RLIMIT_NOFILE)");
}

void ServeLoadTest::holdsIdleAndActiveClients()
{
    constexpr int idleClients = 1000;
    constexpr int streams = 64;
    FakeEngineScript script;
    script.stepMs = 5;
    script.answerTokens = 100;
    script.numBlocks = 4096;
    ServeRig rig(script);
    QCOMPARE(rig.ask(HttpClient::get("/health")).status, 200);
    const int threadsBefore = statusOf("Threads");
    std::vector<std::unique_ptr<HttpClient>> idle;
    for (int i = 0; i < idleClients; ++i) {
        idle.push_back(std::make_unique<HttpClient>(rig.port()));
        QVERIFY(idle.back()->send(HttpClient::get("/health")));
        QCOMPARE(idle.back()->read().status, 200);
    }
    QVERIFY(rig.server.connections() >= idleClients);
    const QByteArray chat = HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"stream":true)"));
    std::vector<std::unique_ptr<HttpClient>> active;
    for (int i = 0; i < streams; ++i) {
        active.push_back(std::make_unique<HttpClient>(rig.port()));
        QVERIFY(active.back()->send(chat));
    }
    QTRY_VERIFY(rig.engine.totals().running > 0);
    QCOMPARE(statusOf("Threads"), threadsBefore); // none for a connection
    QVERIFY(threadsBefore <= 10);
    const auto first = active[0]->read();
    const int residentAfterOne = statusOf("VmRSS");
    for (std::size_t i = 0; i < active.size(); ++i) {
        const auto response = i == 0 ? first : active[i]->read();
        QCOMPARE(response.status, 200);
        const QList<QByteArray> events = HttpClient::events(response.body);
        QCOMPARE(events.size(), 103); // the role, 100 tokens, the reason and [DONE]
        QCOMPARE(events.last(), QByteArray("[DONE]"));
    }
    // A second round of all streams on the same connections needs no more memory than the first.
    for (auto &client : active)
        QVERIFY(client->send(chat));
    for (auto &client : active)
        QCOMPARE(client->read().status, 200);
    QVERIFY2(statusOf("VmRSS") < residentAfterOne + 8 * 1024, "more than 8 MiB were added by a second round");
    for (auto &client : idle)
        QVERIFY(client->send(HttpClient::get("/health")));
    for (auto &client : idle)
        QCOMPARE(client->read().status, 200);
    QVERIFY(rig.becomesIdle());
}

void ServeLoadTest::cancelsAtAnyMoment()
{
    const int rounds = shared_data::fullTier() ? 10'000 : 600;
    FakeEngineScript script;
    script.stepMs = 1;
    script.promptTokens = 1500; // several steps of prefill
    script.answerTokens = 40;
    script.numBlocks = 8192;
    ServeRig rig(script);
    std::mt19937 random(11);
    std::vector<HttpClient> clients;
    for (int i = 0; i < rounds; ++i) {
        HttpClient client(rig.port());
        QVERIFY(client.isOpen());
        const QByteArray members =
            QByteArray(random() % 2 == 0 ? R"(,"stream":true)" : "") + (random() % 4 == 0 ? R"(,"n":3)" : "");
        const QByteArray request = HttpClient::post("/v1/chat/completions", ServeRig::body(members));
        QVERIFY(
            client.send(random() % 5 == 0 ? request.left(qsizetype(random() % std::size_t(request.size()))) : request));
        clients.push_back(std::move(client));
        if (random() % 3 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
        while (clients.size() > random() % 24) {
            const std::size_t leaving = random() % clients.size();
            if (random() % 2 == 0)
                clients[leaving].reset();
            std::swap(clients[leaving], clients.back());
            clients.pop_back();
        }
    }
    clients.clear();
    QVERIFY(rig.becomesIdle());
    QTRY_COMPARE(rig.server.connections(), 0);
    QCOMPARE(rig.ask(HttpClient::get("/slots")).body, QByteArray("[]"));
    QCOMPARE(rig.chat(R"(,"max_tokens":2)").status, 200);
}

QTEST_GUILESS_MAIN(ServeLoadTest)
#include "tst_serve_load.moc"
