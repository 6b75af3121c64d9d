// SPDX-License-Identifier: GPL-3.0-or-later
// Who may ask the server, and in what order a request is judged.
#include "app/serve/access.h"
#include "tests/support/serve_rig.h"

namespace {

serve::ServerOptions keyed()
{
    serve::ServerOptions options;
    options.apiKey = "right";
    return options;
}

} // namespace

class ServeAccessTest : public QObject {
    Q_OBJECT

private slots:
    void checksInOrder();
    void answersOddFraming();
    void closesForOldClients();
    void knowsItsNames_data();
    void knowsItsNames();
    void wantsTheKey();
};

/// Each request is wrong in all that comes later too: the first check that fails is the one that answers.
void ServeAccessTest::checksInOrder()
{
    ServeRig rig(FakeEngineScript{.stepMs = 1}, keyed());
    const auto status = [&](const QByteArray &request) { return rig.ask(request).status; };
    QCOMPARE(status("POST /nowhere HTTP/1.1\r\nHost: evil.example\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n"), 400);
    QCOMPARE(status("POST /nowhere HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 99999999\r\n\r\n"), 413);
    QCOMPARE(status("POST /nowhere HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 1\r\n\r\n{"), 403);
    QCOMPARE(status("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 1\r\n\r\n{"), 403);
    QCOMPARE(status("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{"), 404);
    const auto method = rig.ask("PUT /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{");
    QCOMPARE(method.status, 405);
    QCOMPARE(method.header("Allow"), QByteArray("GET"));
    QCOMPARE(status("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n{"), 401);
    const QByteArray key = "Authorization: Bearer right\r\n";
    QCOMPARE(status("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n" + key + "Content-Length: 1\r\n\r\n{"), 415);
    QCOMPARE(status(HttpClient::post("/v1/completions", "{", key)), 400);
    QCOMPARE(status(HttpClient::post("/v1/completions", R"({"prompt":"a"})", key)), 200);
}

void ServeAccessTest::answersOddFraming()
{
    ServeRig rig(FakeEngineScript{.stepMs = 1});
    const QByteArray body = R"({"prompt":"a"})";
    const auto status = [&](const QByteArray &lines) {
        return rig.ask(HttpClient::post("/tokenize", body, lines)).status;
    };
    QCOMPARE(status("Expect: pink\r\n"), 417);
    QCOMPARE(status("Content-Encoding: gzip\r\n"), 415);
    HttpClient head(rig.port());
    QVERIFY(head.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + HttpClient::get("/health")));
    QVERIFY(head.readUntil("405"));
    QVERIFY(head.readUntil("\r\n\r\nHTTP/1.1 200 OK")); // no body between the two answers
    HttpClient half(rig.port());
    QVERIFY(half.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"));
    half.finishSending();
    const auto response = half.read();
    QCOMPARE(response.status, 400);
    QVERIFY(response.body.contains("ended before"));
}

void ServeAccessTest::closesForOldClients()
{
    ServeRig rig(FakeEngineScript{.stepMs = 1});
    HttpClient client(rig.port());
    const QByteArray body = ServeRig::body(R"(,"max_tokens":2,"stream":true)");
    QVERIFY(client.send("POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                        "Content-Length: "
                        + QByteArray::number(body.size()) + "\r\n\r\n" + body));
    const auto response = client.read();
    QCOMPARE(response.status, 200);
    QVERIFY(response.header("Transfer-Encoding").isEmpty());
    QCOMPARE(HttpClient::events(response.body).last(), QByteArray("[DONE]"));
}

void ServeAccessTest::knowsItsNames_data()
{
    QTest::addColumn<QString>("served");
    QTest::addColumn<QString>("host");
    QTest::addColumn<bool>("ours");
    QTest::newRow("loopback") << "127.0.0.1" << "127.0.0.1:1" << true;
    QTest::newRow("name") << "127.0.0.1" << "LocalHost" << true;
    QTest::newRow("v6") << "127.0.0.1" << "[::1]:8642" << true;
    QTest::newRow("evil") << "127.0.0.1" << "evil.example" << false;
    QTest::newRow("suffix") << "127.0.0.1" << "localhost.evil.example" << false;
    QTest::newRow("user") << "127.0.0.1" << "localhost@evil.example" << false;
    QTest::newRow("bad port") << "127.0.0.1" << "localhost:80x" << false;
    QTest::newRow("address") << "127.0.0.1" << "192.168.0.2" << false;
    QTest::newRow("asked for") << "box.lan" << "box.lan:8642" << true;
    QTest::newRow("everywhere, address") << "0.0.0.0" << "192.168.0.2:8642" << true;
    QTest::newRow("everywhere, name") << "0.0.0.0" << "evil.example" << false;
}

void ServeAccessTest::knowsItsNames()
{
    QFETCH(QString, served);
    QFETCH(QString, host);
    QFETCH(bool, ours);
    const serve::AccessRules rules(served.toStdString(), {});
    serve::RequestHead head;
    head.method = "GET";
    head.target = "/health";
    head.hosts = {host.toStdString()};
    QCOMPARE(!rules.check(head), ours);
    head.hosts = {"localhost"};
    head.origins = {"http://" + host.toStdString()};
    QCOMPARE(!rules.check(head), ours);
}

void ServeAccessTest::wantsTheKey()
{
    ServeRig rig(FakeEngineScript{.stepMs = 1}, keyed());
    QCOMPARE(rig.ask(HttpClient::get("/health")).status, 200);
    const auto none = rig.ask(HttpClient::get("/v1/models"));
    QCOMPARE(none.status, 401);
    QCOMPARE(none.header("WWW-Authenticate"), QByteArray("Bearer"));
    QCOMPARE(rig.ask(HttpClient::get("/v1/models", "Authorization: Bearer wrong\r\n")).status, 401);
    QCOMPARE(rig.ask(HttpClient::get("/v1/models", "Authorization: Bearer righ\r\n")).status, 401);
    QCOMPARE(rig.ask(HttpClient::get("/v1/models", "Authorization: right\r\n")).status, 401);
    QCOMPARE(rig.ask(HttpClient::get("/v1/models", "authorization: bearer right\r\n")).status, 200);
    QCOMPARE(rig.ask(HttpClient::get("/v1/models/tiny", "Authorization: Bearer right\r\n")).status, 200);
    QCOMPARE(rig.ask(HttpClient::get("/v1/models/other", "Authorization: Bearer right\r\n")).status, 404);
}

QTEST_GUILESS_MAIN(ServeAccessTest)
#include "tst_serve_access.moc"
