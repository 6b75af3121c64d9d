// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/client_name.h"
#include "app/window/window_server.h"
#include "tests/support/fake_engine.h"
#include "tests/support/http_client.h"
#include "tests/support/shared_data.h"

#include <QFile>
#include <QTest>

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>

using namespace engine;
using Phase = ui::ServerState::Phase;

namespace {

Request ask(int tokens = 4)
{
    Request request;
    request.prompt = "q";
    request.sampling.maxTokens = tokens;
    request.sampling.temperature = 0;
    return request;
}

int finishedIn(const std::vector<Event> &events)
{
    return int(
        std::ranges::count_if(events, [](const Event &e) { return std::holds_alternative<RequestFinished>(e); }));
}

template<typename One> std::vector<One> only(const std::vector<Event> &events)
{
    std::vector<One> found;
    for (const Event &event : events)
        if (const auto *one = std::get_if<One>(&event))
            found.push_back(*one);
    return found;
}

/// A fake engine with a model, shared by two sides.
struct Shared {
    explicit Shared(FakeEngineScript script = {})
        : fake(new FakeEngine(std::move(script)))
        , sides(shareEngine(std::unique_ptr<Engine>(fake)))
    {
        sides.owner->loadModel("tiny.gguf", {});
        (void)sides.owner->takeEvents();
    }
    FakeEngine *fake;
    EngineSides sides;
};

/// The window's server on the real engine with a tiny model, and the states that it tells.
struct Rig {
    Rig()
        : sides(shareEngine(makeEngine()))
        , server(std::make_unique<app::WindowServer>(std::move(sides.guest)))
    {
        server->setListener([this](const ui::ServerState &next) {
            const std::lock_guard lock(mutex);
            last = next;
        });
    }
    ~Rig() { server.reset(); } // it tells of its end
    bool load()
    {
        EngineConfig config;
        config.threads = 2;
        sides.owner->loadModel(shared_data::data("tiny-llama/llama-f16.gguf").toStdString(), config);
        return waitFor([this] {
            for (const ModelLoaded &loaded : only<ModelLoaded>(take()))
                server->setModel(loaded.info);
            return !only<ModelLoaded>(events).empty();
        });
    }
    std::vector<Event> take()
    {
        std::vector<Event> next = sides.owner->takeEvents();
        events.insert(events.end(), next.begin(), next.end());
        return next;
    }
    ui::ServerState state()
    {
        const std::lock_guard lock(mutex);
        return last;
    }
    bool reaches(Phase phase)
    {
        return waitFor([&] { return state().phase == phase; });
    }
    int port() { return QByteArray::fromStdString(state().url).split(':').last().toInt(); }
    QByteArray key() { return QByteArray::fromStdString(state().apiKey); }
    static bool waitFor(const std::function<bool()> &condition) { return QTest::qWaitFor(condition, 20000); }
    static QByteArray body(int tokens, const QByteArray &more = {})
    {
        return R"({"prompt":"Hello","temperature":0,"ignore_eos":true,"max_tokens":)" + QByteArray::number(tokens)
            + more + '}';
    }
    QByteArray headers() { return "Authorization: Bearer " + key() + "\r\nUser-Agent: curl/8.5\r\n"; }

    EngineSides sides;
    std::unique_ptr<app::WindowServer> server;
    std::vector<Event> events;
    std::mutex mutex;
    ui::ServerState last;
};

} // namespace

/// One engine for the window and its server, and the server's switch.
class TestWindowServer : public QObject {
    Q_OBJECT

private slots:
    void eachSideGetsWhatIsIts()
    {
        Shared f;
        const RequestId own = f.sides.owner->submit(ask(2));
        Request foreign = ask(2);
        foreign.client = "curl";
        const RequestId guest = f.sides.guest->submit(foreign);
        for (int i = 0; i < 4; ++i)
            f.fake->step();
        const std::vector<Event> ownEvents = f.sides.owner->takeEvents();
        const std::vector<Event> guestEvents = f.sides.guest->takeEvents();
        for (const TokenEvent &token : only<TokenEvent>(ownEvents))
            QCOMPARE(token.id, own);
        for (const Event &event : guestEvents)
            QCOMPARE(requestOf(event), guest);
        QCOMPARE(only<TokenEvent>(ownEvents).size(), 2u);
        QCOMPARE(only<TokenEvent>(guestEvents).size(), 2u);
        QCOMPARE(finishedIn(ownEvents), 2); // the owner hears of the other's beginning and end
        QCOMPARE(finishedIn(guestEvents), 1);
        const auto accepted = only<RequestAccepted>(ownEvents);
        QCOMPARE(accepted.size(), 2u);
        QCOMPARE(accepted[0].client, std::string());
        QCOMPARE(accepted[1].client, std::string("curl"));
        QVERIFY(accepted[1].arrivedAt > 0);
        QVERIFY(f.sides.guest->takeSteps().empty()); // it must not take them from the window
        QVERIFY(!f.sides.owner->takeSteps().empty());
    }

    void forksAreTheGuestsToo()
    {
        Shared f;
        const std::vector<RequestId> ids = f.sides.guest->submitForks(ask(2), 3);
        for (int i = 0; i < 4; ++i)
            f.fake->step();
        QCOMPARE(finishedIn(f.sides.guest->takeEvents()), 3);
        QCOMPARE(only<TokenEvent>(f.sides.owner->takeEvents()).size(), 0u);
        QCOMPARE(ids.size(), 3u);
    }

    void aGuestThatGoesEndsItsRequests()
    {
        Shared f;
        (void)f.sides.guest->submit(ask(50));
        const RequestId own = f.sides.owner->submit(ask(3));
        f.fake->step();
        f.sides.guest.reset();
        const auto ended = only<RequestFinished>(f.sides.owner->takeEvents());
        QCOMPARE(ended.size(), 1u);
        QCOMPARE(ended[0].reason, FinishReason::Cancelled);
        for (int i = 0; i < 4; ++i)
            f.fake->step();
        QCOMPARE(only<RequestFinished>(f.sides.owner->takeEvents())[0].id, own);
    }

    void eitherSideMayGoFirst()
    {
        Shared f;
        f.sides.owner.reset();
        const RequestId id = f.sides.guest->submit(ask(1));
        f.fake->step();
        QCOMPARE(only<RequestFinished>(f.sides.guest->takeEvents()).at(0).id, id);
    }

    // Events may come while a submit has not returned yet, on another thread or on the same one.
    void noEventIsLostInARace()
    {
        FakeEngineScript script;
        script.stepMs = 0.05;
        Shared f(script);
        std::set<RequestId> own, guest, ownEnded, guestEnded;
        std::jthread other([&] {
            for (int i = 0; i < 200; ++i)
                guest.insert(f.sides.guest->submit(ask(2)));
        });
        for (int i = 0; i < 200; ++i)
            own.insert(f.sides.owner->submit(ask(2)));
        other.join();
        std::size_t guestTokens = 0, ownTokens = 0;
        QVERIFY(QTest::qWaitFor(
            [&] {
                const auto ownEvents = f.sides.owner->takeEvents(), guestEvents = f.sides.guest->takeEvents();
                for (const RequestFinished &end : only<RequestFinished>(ownEvents))
                    ownEnded.insert(end.id);
                for (const RequestFinished &end : only<RequestFinished>(guestEvents))
                    guestEnded.insert(end.id);
                ownTokens += only<TokenEvent>(ownEvents).size();
                guestTokens += only<TokenEvent>(guestEvents).size();
                return ownEnded.size() == 400 && guestEnded.size() == 200;
            },
            20000));
        QVERIFY(guestEnded == guest);
        QCOMPARE(ownTokens, 400u);
        QCOMPARE(guestTokens, 400u);
    }

    void clientsHaveShortNames()
    {
        using serve::clientName;
        QCOMPARE(clientName("curl/8.5.0", ""), std::string("curl"));
        QCOMPARE(clientName("OpenAI/Python 1.2", "alice"), std::string("OpenAI, alice"));
        QCOMPARE(clientName("", ""), std::string("client"));
        QCOMPARE(clientName("", "bob\n\x1b[31m"), std::string("bob[31m"));
        QCOMPARE(clientName(std::string(500, 'x'), ""), std::string(32, 'x'));
        const std::string umlauts = clientName("", QStringLiteral("ä").repeated(40).toStdString());
        QCOMPARE(QString::fromStdString(umlauts), QStringLiteral("ä").repeated(16)); // whole characters
        QCOMPARE(clientName("caf\xe9/1", ""), std::string("caf"));
    }

    void startsAnswersAndStops()
    {
        Rig rig;
        rig.server->start({0, true});
        QVERIFY(rig.reaches(Phase::NoModel));
        QVERIFY(rig.load());
        QVERIFY(rig.reaches(Phase::Running));
        QCOMPARE(rig.state().model, std::string("llama-f16"));
        QVERIFY(rig.key().size() >= 32);
        QCOMPARE(HttpClient::ask(rig.port(), HttpClient::post("/v1/completions", Rig::body(4))).status, 401);
        const auto answer = HttpClient::ask(
            rig.port(), HttpClient::post("/v1/completions", Rig::body(4, R"(,"user":"alice")"), rig.headers()));
        QCOMPARE(answer.status, 200);
        QVERIFY2(answer.body.contains("\"completion_tokens\":4"), answer.body.constData());
        (void)rig.take();
        const auto accepted = only<RequestAccepted>(rig.events);
        QCOMPARE(accepted.size(), 1u);
        QCOMPARE(accepted[0].client, std::string("curl, alice"));
        QCOMPARE(finishedIn(rig.events), 1);
        QVERIFY(!rig.sides.owner->takeSteps().empty());
        const int port = rig.port();
        rig.server->stop();
        QVERIFY(rig.reaches(Phase::Stopped));
        QVERIFY(!HttpClient(port, 1000).isOpen());
        rig.server->start({port, false}); // again, for everybody on this machine
        QVERIFY(rig.reaches(Phase::Running));
        QCOMPARE(rig.port(), port);
        QVERIFY(rig.key().isEmpty());
        QCOMPARE(HttpClient::ask(port, HttpClient::post("/v1/completions", Rig::body(2))).status, 200);
    }

    void aTakenPortIsOneSentence()
    {
        Rig first;
        QVERIFY(first.load());
        first.server->start({0, true});
        QVERIFY(first.reaches(Phase::Running));
        Rig second;
        QVERIFY(second.load());
        second.server->start({first.port(), true});
        QVERIFY(second.reaches(Phase::Failed));
        const QString problem = QString::fromStdString(second.state().problem);
        QVERIFY2(problem.contains(QString::number(first.port())) && problem.endsWith(u"choose another port")
                     && !problem.contains(u'\n'),
                 qPrintable(problem));
        second.server->start({0, true}); // and another one can be chosen
        QVERIFY(second.reaches(Phase::Running));
    }

    void itEndsWithRequestsInFlight()
    {
        Rig rig;
        QVERIFY(rig.load());
        rig.server->start({0, true});
        QVERIFY(rig.reaches(Phase::Running));
        HttpClient client(rig.port());
        QVERIFY(
            client.send(HttpClient::post("/v1/completions", Rig::body(100000, R"(,"stream":true)"), rig.headers())));
        QVERIFY(client.readUntil("data:"));
        QElapsedTimer elapsed;
        elapsed.start();
        rig.server.reset();
        QVERIFY(elapsed.elapsed() < 5000);
        QVERIFY(client.readUntil("shutting down")); // the stream ends with a reason
        QVERIFY(client.isClosedByServer());
        QVERIFY(Rig::waitFor([&] {
            (void)rig.take();
            return finishedIn(rig.events) == 1;
        }));
        QCOMPARE(only<RequestFinished>(rig.events)[0].reason, FinishReason::Cancelled);
        const EngineTotals totals = rig.sides.owner->totals();
        QCOMPARE(totals.running + totals.waiting, 0);
        QCOMPARE(totals.blocksFree, totals.blocksTotal);
    }

    void followsTheModel()
    {
        Rig rig;
        QVERIFY(rig.load());
        rig.server->start({0, false});
        QVERIFY(rig.reaches(Phase::Running));
        rig.server->setModel(std::nullopt);
        QVERIFY(rig.reaches(Phase::NoModel));
        rig.server->stop();
        QVERIFY(rig.reaches(Phase::Stopped));
    }
};

QTEST_GUILESS_MAIN(TestWindowServer)
#include "tst_window_server.moc"
