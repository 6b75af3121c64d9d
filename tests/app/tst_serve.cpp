// SPDX-License-Identifier: GPL-3.0-or-later
// What the server says on the wire, on a fake engine: forms of answers, errors and their order, framing, connections.
#include "app/serve/api_error.h"
#include "tests/support/serve_rig.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>

using namespace std::chrono_literals;

namespace {

QJsonObject object(const QByteArray &json)
{
    return QJsonDocument::fromJson(json).object();
}

QString errorOf(const HttpClient::Response &response)
{
    return object(response.body)["error"].toObject()["message"].toString();
}

FakeEngineScript quick()
{
    FakeEngineScript script;
    script.stepMs = 1;
    return script;
}

} // namespace

class ServeTest : public QObject {
    Q_OBJECT

private slots:
    void answersAChat();
    void streamsAChat();
    void countsWhileItStreams();
    void givesSeveralChoices();
    void answersCompletions();
    void passesFieldsOn();
    void sortsReasoningAndCalls();
    void refusesWrongFields_data();
    void refusesWrongFields();
    void answersPipelinedRequests();
    void readsChunkedBodies();
    void continuesOnExpectation();
    void limitsSizes();
    void givesUpOnSlowRequests();
    void closesIdleConnections();
    void turnsClientsAway();
    void tellsOfAFullQueue();
    void tellsOfAFailure();
    void cancelsWhenTheClientLeaves_data();
    void cancelsWhenTheClientLeaves();
    void boundsASlowReader();
    void pingsASilentStream();
    void answersBenchmarkClients();
    void endsStreamsWhenItStops();
    void tellsOfATakenPort();
    void showsMetricsAndSlots();
};

void ServeTest::answersAChat()
{
    ServeRig rig(quick());
    const auto response = rig.chat(R"(,"max_tokens":3)");
    QCOMPARE(response.status, 200);
    QCOMPARE(response.header("Content-Type"), QByteArray("application/json"));
    QVERIFY(response.header("Access-Control-Allow-Origin").isEmpty());
    const QJsonObject json = object(response.body);
    QCOMPARE(json["object"].toString(), "chat.completion");
    QCOMPARE(json["model"].toString(), "tiny");
    QVERIFY(json["id"].toString().startsWith("chatcmpl-"));
    const QJsonObject choice = json["choices"].toArray()[0].toObject();
    QCOMPARE(choice["message"].toObject()["role"].toString(), "assistant");
    QCOMPARE(choice["message"].toObject()["content"].toString(), "A block is");
    QCOMPARE(choice["finish_reason"].toString(), "length");
    QCOMPARE(json["usage"].toObject()["completion_tokens"].toInt(), 3);
    QCOMPARE(json["usage"].toObject()["prompt_tokens"].toInt(), 24);
    QCOMPARE(json["usage"].toObject()["total_tokens"].toInt(), 27);
    QCOMPARE(json["usage"].toObject()["prompt_tokens_details"].toObject()["cached_tokens"].toInt(), 16);
}

void ServeTest::streamsAChat()
{
    ServeRig rig(quick());
    const auto response = rig.chat(R"(,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true})");
    QCOMPARE(response.status, 200);
    QVERIFY(response.header("Content-Type").startsWith("text/event-stream"));
    const QList<QByteArray> events = HttpClient::events(response.body);
    QCOMPARE(events.size(), 7); // role, three tokens, the reason, usage, [DONE]
    QCOMPARE(events.last(), QByteArray("[DONE]"));
    const auto choiceOf = [&](qsizetype i) { return object(events[i])["choices"].toArray()[0].toObject(); };
    QCOMPARE(choiceOf(0)["delta"].toObject()["role"].toString(), "assistant");
    QCOMPARE(choiceOf(1)["delta"].toObject()["content"].toString(), "A");
    QCOMPARE(choiceOf(2)["delta"].toObject()["content"].toString(), " block");
    QVERIFY(choiceOf(3)["finish_reason"].isNull());
    QCOMPARE(choiceOf(4)["finish_reason"].toString(), "length");
    QVERIFY(object(events[0])["usage"].isNull());
    QVERIFY(object(events[5])["choices"].toArray().isEmpty());
    QCOMPARE(object(events[5])["usage"].toObject()["completion_tokens"].toInt(), 3);
    for (qsizetype i = 0; i < 6; ++i) {
        QCOMPARE(object(events[i])["object"].toString(), "chat.completion.chunk");
        QCOMPARE(object(events[i])["id"], object(events[0])["id"]);
    }
}

void ServeTest::countsWhileItStreams()
{
    ServeRig rig(quick());
    const auto response = rig.chat(
        R"(,"max_tokens":3,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true})");
    QList<int> totals;
    for (const QByteArray &event : HttpClient::events(response.body))
        totals << object(event)["usage"].toObject()["total_tokens"].toInt();
    QCOMPARE(totals, QList<int>({24, 25, 26, 27, 27, 27, 0})); // role, three tokens, the reason, the sum, [DONE]
    const auto refused = rig.chat(R"(,"stream":true,"stream_options":{"continuous_usage_stats":true})");
    QCOMPARE(refused.status, 400);
    QVERIFY(refused.body.contains("continuous_usage_stats"));
}

void ServeTest::givesSeveralChoices()
{
    ServeRig rig(quick());
    const auto response = rig.chat(R"(,"max_tokens":2,"n":3,"seed":7)");
    const QJsonObject json = object(response.body);
    QCOMPARE(json["choices"].toArray().size(), 3);
    for (int i = 0; i < 3; ++i) {
        QCOMPARE(json["choices"].toArray()[i].toObject()["index"].toInt(), i);
        QCOMPARE(rig.engine.submitted()[std::size_t(i)].sampling.seed, std::optional<std::uint64_t>(7 + i));
    }
    QCOMPARE(json["usage"].toObject()["completion_tokens"].toInt(), 6);
    QCOMPARE(json["usage"].toObject()["prompt_tokens"].toInt(), 24); // one prompt, counted once
}

void ServeTest::answersCompletions()
{
    ServeRig rig(quick());
    const auto response =
        rig.ask(HttpClient::post("/v1/completions", R"({"prompt":["a","b"],"max_tokens":2,"n":2,"temperature":0})"));
    QCOMPARE(response.status, 200);
    const QJsonObject json = object(response.body);
    QCOMPARE(json["object"].toString(), "text_completion");
    QCOMPARE(json["choices"].toArray().size(), 4);
    QCOMPARE(json["choices"].toArray()[3].toObject()["text"].toString(), "A block");
    QCOMPARE(json["usage"].toObject()["prompt_tokens"].toInt(), 48);
    QCOMPARE(rig.engine.submitted()[2].prompt, std::optional<std::string>("b"));
    const auto ids = rig.ask(HttpClient::post("/v1/completions", R"({"prompt":[5,6],"stream":true})"));
    QCOMPARE(HttpClient::events(ids.body).size(), 18); // OpenAI's 16 tokens, the reason and [DONE]
    QCOMPARE(rig.engine.submitted().back().ids, std::optional(std::vector<int>{5, 6}));
}

void ServeTest::passesFieldsOn()
{
    ServeRig rig(quick());
    const QByteArray members = R"(,"temperature":0.5,"top_p":0.75,"top_k":9,"min_p":0.1,"presence_penalty":0.25,)"
                               R"("frequency_penalty":-0.5,"repetition_penalty":1.25,"seed":-1,)"
                               R"("max_completion_tokens":5,"max_tokens":7,"stop":["x","yy"],"logprobs":true,)"
                               R"("top_logprobs":4,"ignore_eos":true,"priority":3,)"
                               R"("tools":[{"type":"function","function":{"name":"f"}}],"unknown":{"a":[1]})";
    QCOMPARE(rig.chat(members).status, 200);
    const engine::Request request = rig.engine.submitted().front();
    const engine::SamplingParams &p = request.sampling;
    QCOMPARE(p.temperature, 0.5);
    QCOMPARE(p.topP, 0.75);
    QCOMPARE(p.topK, 9);
    QCOMPARE(p.minP, 0.1);
    QCOMPARE(p.presencePenalty, 0.25);
    QCOMPARE(p.frequencyPenalty, -0.5);
    QCOMPARE(p.repetitionPenalty, 1.25);
    QCOMPARE(p.seed, std::optional<std::uint64_t>(~std::uint64_t{0}));
    QCOMPARE(p.maxTokens, 5);
    QCOMPARE(p.stop, (std::vector<std::string>{"x", "yy"}));
    QCOMPARE(p.logprobs, 4);
    QVERIFY(p.ignoreEos);
    QCOMPARE(request.priority, 3);
    QVERIFY(request.toolsJson);
    const QByteArray format = R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"null"}}})";
    QCOMPARE(rig.chat(format).status, 200);
    const std::string schema = R"({"type":"null"})";
    QCOMPARE(rig.engine.submitted().back().jsonSchema, std::optional(schema));
    QCOMPARE(rig.engine.submitted().back().sampling.temperature, 1.0);
    QCOMPARE(rig.engine.submitted().back().sampling.maxTokens, 0);
    const QByteArray history =
        R"({"messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},)"
        R"({"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function",)"
        R"("function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c1","content":"r"}]})";
    QCOMPARE(rig.ask(HttpClient::post("/v1/chat/completions", history)).status, 200);
    const auto messages = rig.engine.submitted().back().messages;
    QCOMPARE(messages[0].role, std::string("system"));
    QCOMPARE(messages[0].content, std::string("ab"));
    QCOMPARE(messages[1].toolCalls.at(0).id, std::string("c1"));
    QCOMPARE(messages[2].toolCallId, std::string("c1"));
}

void ServeTest::sortsReasoningAndCalls()
{
    FakeEngineScript script = quick();
    script.reasoning = "so";
    script.toolCall = {"look", R"({"a":1})"};
    ServeRig rig(script);
    const QByteArray tools = R"(,"max_tokens":3,"tools":[{"type":"function","function":{"name":"look"}}])";
    const QJsonObject choice = object(rig.chat(tools).body)["choices"].toArray()[0].toObject();
    QCOMPARE(choice["message"].toObject()["reasoning_content"].toString(), "so");
    const QJsonObject call = choice["message"].toObject()["tool_calls"].toArray()[0].toObject();
    QCOMPARE(call["type"].toString(), "function");
    QVERIFY(!call["id"].toString().isEmpty());
    QCOMPARE(call["function"].toObject()["name"].toString(), "look");
    QCOMPARE(call["function"].toObject()["arguments"].toString(), R"({"a":1})");
    const auto streamed = rig.chat(tools + R"(,"stream":true)");
    const QByteArray thought = "\"reasoning_content\":\"so\"";
    const QByteArray called = "\"tool_calls\":[{\"index\":0,\"id\":\"call_";
    QVERIFY(streamed.body.contains(thought));
    QVERIFY(streamed.body.contains(called));
}

void ServeTest::refusesWrongFields_data()
{
    QTest::addColumn<QByteArray>("members");
    QTest::addColumn<QString>("word");
    QTest::newRow("temperature") << QByteArray(R"(,"temperature":-1)") << "'temperature'";
    QTest::newRow("temperature text") << QByteArray(R"(,"temperature":"hot")") << "'temperature'";
    QTest::newRow("top_p") << QByteArray(R"(,"top_p":2)") << "'top_p'";
    QTest::newRow("n 0") << QByteArray(R"(,"n":0)") << "'n'";
    QTest::newRow("n") << QByteArray(R"(,"n":1000000000)") << "'n'";
    QTest::newRow("max_tokens 0") << QByteArray(R"(,"max_tokens":0)") << "'max_tokens'";
    QTest::newRow("max_tokens 1.5") << QByteArray(R"(,"max_tokens":1.5)") << "'max_tokens'";
    QTest::newRow("seed") << QByteArray(R"(,"seed":18446744073709551616)") << "'seed'";
    QTest::newRow("stop empty") << QByteArray(R"(,"stop":"")") << "'stop'";
    QTest::newRow("stop number") << QByteArray(R"(,"stop":[1])") << "'stop'";
    QTest::newRow("top_logprobs alone") << QByteArray(R"(,"top_logprobs":2)") << "'top_logprobs'";
    QTest::newRow("top_logprobs") << QByteArray(R"(,"logprobs":true,"top_logprobs":21)") << "'top_logprobs'";
    QTest::newRow("logit_bias") << QByteArray(R"(,"logit_bias":{"x":5})") << "'logit_bias'";
    QTest::newRow("logit_bias list") << QByteArray(R"(,"logit_bias":[5])") << "'logit_bias'";
    QTest::newRow("stop_token_ids") << QByteArray(R"(,"stop_token_ids":[-1])") << "'stop_token_ids'";
    QTest::newRow("min_tokens") << QByteArray(R"(,"max_tokens":4,"min_tokens":5)") << "'min_tokens'";
    QTest::newRow("min_tokens stop") << QByteArray(R"(,"stop":"a","min_tokens":2)") << "'min_tokens'";
    QTest::newRow("kwargs") << QByteArray(R"(,"chat_template_kwargs":[1])") << "'chat_template_kwargs'";
    QTest::newRow("echo") << QByteArray(R"(,"echo":true)") << "'echo'";
    QTest::newRow("best_of") << QByteArray(R"(,"best_of":2)") << "'best_of'";
    QTest::newRow("tool_choice alone") << QByteArray(R"(,"tool_choice":"required")") << "'tool_choice'";
    QTest::newRow("tool_choice unknown") << QByteArray(
        R"(,"tools":[{"function":{"name":"f"}}],"tool_choice":{"function":{"name":"g"}})")
                                         << "'tool_choice'";
    QTest::newRow("tools") << QByteArray(R"(,"tools":[{}])") << "'tools'";
    QTest::newRow("format") << QByteArray(R"(,"response_format":{"type":"xml"})") << "'response_format.type'";
    QTest::newRow("schema") << QByteArray(R"(,"response_format":{"type":"json_schema"})") << "json_schema";
    QTest::newRow("stream_options") << QByteArray(R"(,"stream_options":{})") << "'stream_options'";
    QTest::newRow("allowed_token_ids") << QByteArray(R"(,"allowed_token_ids":[5])") << "'allowed_token_ids'";
    QTest::newRow("truncated") << QByteArray(R"(,"truncate_prompt_tokens":5)") << "'truncate_prompt_tokens'";
    QTest::newRow("special") << QByteArray(R"(,"skip_special_tokens":false)") << "'skip_special_tokens'";
    QTest::newRow("modalities") << QByteArray(R"(,"modalities":["text","audio"])") << "'modalities'";
    QTest::newRow("duplicate") << QByteArray(R"(,"n":1,"n":1)") << "duplicate key";
    QTest::newRow("model") << QByteArray(R"(,"stream":1)") << "'stream'";
}

void ServeTest::refusesWrongFields()
{
    QFETCH(QByteArray, members);
    QFETCH(QString, word);
    ServeRig rig(quick());
    const auto response = rig.chat(members);
    QCOMPARE(response.status, 400);
    QVERIFY2(errorOf(response).contains(word), qPrintable(errorOf(response)));
    QCOMPARE(object(response.body)["error"].toObject()["type"].toString(), "invalid_request_error");
    QVERIFY(rig.engine.submitted().empty());
}

void ServeTest::answersPipelinedRequests()
{
    ServeRig rig(quick());
    HttpClient client(rig.port());
    const QByteArray chat = HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"max_tokens":2)"));
    QVERIFY(client.send(chat + HttpClient::get("/health") + chat + HttpClient::get("/nowhere")));
    QCOMPARE(client.read().status, 200);
    QCOMPARE(client.read().body, QByteArray(R"({"status":"ok"})"));
    QVERIFY(client.read().body.contains("A block"));
    QCOMPARE(client.read().status, 404);
    QVERIFY(client.send(HttpClient::get("/health")));
    QCOMPARE(client.read().status, 200);
}

void ServeTest::readsChunkedBodies()
{
    ServeRig rig(quick());
    HttpClient client(rig.port());
    QByteArray request = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n";
    const QByteArray body = ServeRig::body(R"(,"max_tokens":1)");
    for (qsizetype at = 0; at < body.size(); at += 7) {
        const QByteArray piece = body.mid(at, 7);
        request += QByteArray::number(piece.size(), 16) + ";x=y\r\n" + piece + "\r\n";
    }
    request += "0\r\nTrailer: t\r\n\r\n";
    for (qsizetype at = 0; at < request.size(); at += 100) {
        QVERIFY(client.send(request.mid(at, 100)));
        std::this_thread::sleep_for(1ms);
    }
    QCOMPARE(client.read().status, 200);
}

void ServeTest::continuesOnExpectation()
{
    ServeRig rig(quick());
    HttpClient client(rig.port());
    const QByteArray request =
        HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"max_tokens":1)"), "Expect: 100-continue\r\n");
    const qsizetype head = request.indexOf("\r\n\r\n") + 4;
    QVERIFY(client.send(request.left(head)));
    QVERIFY(client.readUntil("HTTP/1.1 100 Continue\r\n\r\n"));
    QVERIFY(client.send(request.mid(head)));
    QVERIFY(client.readUntil("HTTP/1.1 200 OK"));
}

void ServeTest::limitsSizes()
{
    ServeRig rig(quick());
    QByteArray lines;
    for (int i = 0; i < 101; ++i)
        lines += "X-" + QByteArray::number(i) + ": y\r\n";
    QCOMPARE(rig.ask(HttpClient::get("/health", lines)).status, 431);
    QCOMPARE(rig.ask(HttpClient::get("/health", "X: " + QByteArray(40'000, 'y') + "\r\n")).status, 431);
    QCOMPARE(rig.ask(HttpClient::get('/' + QByteArray(1 << 20, 'a'))).status, 431);
    QCOMPARE(rig.ask(HttpClient::post("/tokenize", QByteArray(5 << 20, ' '))).status, 413);
    QByteArray chunked = "POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 80; ++i)
        chunked += "10000\r\n" + QByteArray(0x10000, ' ') + "\r\n";
    QCOMPARE(rig.ask(chunked).status, 413);
    QCOMPARE(rig.ask("GET /health HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n").status, 400);
    QCOMPARE(rig.ask("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked"
                     "\r\n\r\n{}")
                 .status,
             400);
    QByteArray wide = "{";
    for (int i = 0; i < 5000; ++i)
        wide += '"' + QByteArray::number(i) + "\":0,";
    QCOMPARE(rig.ask(HttpClient::post("/tokenize", wide + "\"x\":0}")).status, 400);
    QCOMPARE(rig.ask(HttpClient::post("/tokenize", "{\"a\":" + QByteArray(70, '[') + QByteArray(70, ']') + '}')).status,
             400);
}

void ServeTest::givesUpOnSlowRequests()
{
    serve::ServerOptions options;
    options.limits.stall = 200ms;
    options.limits.request = 600ms;
    ServeRig rig(quick(), options);
    HttpClient half(rig.port());
    QVERIFY(half.send("GET /health HTTP/1.1\r\nHo"));
    QCOMPARE(half.read().status, 408);
    HttpClient body(rig.port());
    QVERIFY(body.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"));
    QCOMPARE(body.read().status, 408);
    // A byte now and then keeps no request open beyond the time for all of it.
    HttpClient dribble(rig.port());
    const QByteArray request = HttpClient::get("/health", "X: " + QByteArray(200, 'x') + "\r\n");
    qsizetype sent = 0;
    while (sent < request.size() && dribble.send(request.mid(sent, 1))) {
        ++sent;
        std::this_thread::sleep_for(20ms);
    }
    QVERIFY2(sent < request.size(), "a request of 4 seconds was let through");
}

void ServeTest::closesIdleConnections()
{
    serve::ServerOptions options;
    options.limits.idle = 200ms;
    ServeRig rig(quick(), options);
    HttpClient client(rig.port());
    QVERIFY(client.send(HttpClient::get("/health")));
    QCOMPARE(client.read().status, 200);
    QVERIFY(client.isClosedByServer());
    QTRY_COMPARE(rig.server.connections(), 0);
}

void ServeTest::turnsClientsAway()
{
    serve::ServerOptions options;
    options.limits.connections = 3;
    ServeRig rig(quick(), options);
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(std::make_unique<HttpClient>(rig.port()));
        QVERIFY(clients.back()->send(HttpClient::get("/health")));
        QCOMPARE(clients.back()->read().status, 200);
    }
    HttpClient more(rig.port());
    const auto response = more.read();
    QCOMPARE(response.status, 503);
    QVERIFY(response.header("Retry-After").toInt() >= 1);
    clients.pop_back();
    QTRY_COMPARE(rig.server.connections(), 2);
    QCOMPARE(rig.ask(HttpClient::get("/health")).status, 200);
}

void ServeTest::tellsOfAFullQueue()
{
    engine::EngineConfig config;
    config.limits.maxNumSeqs = 1;
    config.maxNumQueuedReqs = 1;
    FakeEngineScript script; // makes no steps by itself
    ServeRig rig(script, {}, config);
    HttpClient running(rig.port());
    HttpClient waiting(rig.port());
    const QByteArray chat = HttpClient::post("/v1/chat/completions", ServeRig::body({}));
    QVERIFY(running.send(chat));
    QTRY_COMPARE(rig.engine.submitted().size(), std::size_t{1});
    QVERIFY(waiting.send(chat));
    QTRY_COMPARE(rig.engine.submitted().size(), std::size_t{2});
    for (const QByteArray &members : {QByteArray(), QByteArray(R"(,"stream":true)")}) {
        const auto response = rig.chat(members);
        QCOMPARE(response.status, 429);
        QVERIFY(response.header("Retry-After").toInt() >= 1);
        QCOMPARE(object(response.body)["error"].toObject()["type"].toString(), "rate_limit_error");
    }
}

void ServeTest::tellsOfAFailure()
{
    ServeRig rig{FakeEngineScript()};
    const auto fail = [&](engine::ErrorCode code) {
        const std::size_t before = rig.engine.submitted().size();
        HttpClient client(rig.port());
        client.send(HttpClient::post("/v1/chat/completions", ServeRig::body({})));
        while (rig.engine.submitted().size() == before)
            std::this_thread::sleep_for(1ms);
        engine::RequestFinished finished;
        finished.id = before + 1;
        finished.reason = engine::FinishReason::Failed;
        finished.code = code;
        finished.error = "why";
        rig.engine.push(finished);
        return client.read();
    };
    QCOMPARE(fail(engine::ErrorCode::Refused).status, 400);
    QCOMPARE(fail(engine::ErrorCode::OutOfMemory).status, 503);
    const auto internal = fail(engine::ErrorCode::Internal);
    QCOMPARE(internal.status, 500);
    QCOMPARE(errorOf(internal), "why");
}

void ServeTest::cancelsWhenTheClientLeaves_data()
{
    QTest::addColumn<QByteArray>("members");
    QTest::addColumn<bool>("reset");
    QTest::newRow("stream, closed") << QByteArray(R"(,"stream":true,"n":3)") << false;
    QTest::newRow("stream, reset") << QByteArray(R"(,"stream":true)") << true;
    QTest::newRow("whole, closed") << QByteArray() << false;
    QTest::newRow("whole, reset") << QByteArray(R"(,"n":2)") << true;
}

void ServeTest::cancelsWhenTheClientLeaves()
{
    QFETCH(QByteArray, members);
    QFETCH(bool, reset);
    FakeEngineScript script = quick();
    script.answerTokens = 1'000'000;
    ServeRig rig(script);
    HttpClient client(rig.port());
    QVERIFY(client.send(HttpClient::post("/v1/chat/completions", ServeRig::body(members))));
    QTRY_VERIFY(rig.engine.totals().running > 0);
    if (reset)
        client.reset();
    else
        client.close();
    QVERIFY(rig.becomesIdle(5));
    QTRY_COMPARE(rig.server.connections(), 0);
}

void ServeTest::boundsASlowReader()
{
    FakeEngineScript script = quick();
    script.answer = std::string(20'000, 'x') + ' '; // a token
    script.answerTokens = 1'000'000;
    serve::ServerOptions options;
    ServeRig rig(script, options);
    HttpClient slow(rig.port(), 20'000, 4096);
    QVERIFY(slow.send(HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"stream":true)"))));
    QTRY_VERIFY(rig.engine.totals().running > 0);
    // Others are served meanwhile, and the slow one loses its answer once its limit is reached.
    QCOMPARE(rig.chat(R"(,"max_tokens":2)").status, 200);
    QVERIFY(rig.becomesIdle());
    QTRY_COMPARE(rig.server.connections(), 0);
    QVERIFY(slow.isClosedByServer());
}

void ServeTest::pingsASilentStream()
{
    serve::ServerOptions options;
    options.limits.ping = 100ms;
    ServeRig rig(FakeEngineScript(), options); // never makes a step
    HttpClient client(rig.port());
    QVERIFY(client.send(HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"stream":true)"))));
    QVERIFY(client.readUntil("text/event-stream")); // the head is there, the first output is not
    QVERIFY(client.readUntil(": still working"));
}

/// The requests of `vllm bench serve`, which takes the first event for the first token.
void ServeTest::answersBenchmarkClients()
{
    FakeEngineScript script = quick();
    script.answerTokens = 12;
    ServeRig rig(script);
    const QByteArray common =
        R"(,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"temperature":0.0})";
    for (const QByteArray prompt : {R"("once")", "[5,6,7]", R"(["once"])", "[[5,6,7]]"}) {
        const auto response = rig.ask(
            HttpClient::post("/v1/completions",
                             R"({"model":"tiny","prompt":)" + prompt
                                 + R"(,"best_of":1,"repetition_penalty":1.0,"max_tokens":7,"logprobs":null)" + common));
        QCOMPARE(response.status, 200);
        const QList<QByteArray> events = HttpClient::events(response.body);
        QCOMPARE(events.size(), 7 + 3); // the reason, usage, [DONE]
        QVERIFY(!object(events[0])["choices"].toArray()[0].toObject()["text"].toString().isEmpty());
        QVERIFY(object(events[8])["choices"].toArray().isEmpty());
        QCOMPARE(object(events[8])["usage"].toObject()["completion_tokens"].toInt(), 7);
        QVERIFY(rig.engine.submitted().back().sampling.ignoreEos);
    }
    const auto chat = rig.ask(HttpClient::post(
        "/v1/chat/completions",
        R"({"model":"tiny","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_completion_tokens":7)"
            + common));
    QCOMPARE(HttpClient::events(chat.body).size(), 1 + 7 + 3);
}

void ServeTest::endsStreamsWhenItStops()
{
    FakeEngineScript script = quick();
    script.answerTokens = 1'000'000;
    ServeRig rig(script);
    HttpClient stream(rig.port());
    HttpClient whole(rig.port());
    HttpClient idle(rig.port());
    QVERIFY(stream.send(HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"stream":true)"))));
    QVERIFY(whole.send(HttpClient::post("/v1/chat/completions", ServeRig::body({}))));
    QVERIFY(stream.readUntil("block"));
    QTRY_COMPARE(rig.engine.totals().running, 2);
    const auto begin = std::chrono::steady_clock::now();
    rig.server.stop();
    QVERIFY(std::chrono::steady_clock::now() - begin < 2s);
    QVERIFY(stream.readUntil("shutting down"));
    QCOMPARE(whole.read().status, 503);
    QVERIFY(idle.isClosedByServer());
    QVERIFY(rig.becomesIdle(5));
}

void ServeTest::tellsOfATakenPort()
{
    ServeRig rig(quick());
    serve::ServerOptions options;
    options.port = rig.port();
    serve::Server second(rig.engine, {}, options);
    QVERIFY_EXCEPTION_THROWN(second.start(), engine::Error);
    QCOMPARE(rig.ask(HttpClient::get("/health")).status, 200);
}

void ServeTest::showsMetricsAndSlots()
{
    serve::ServerOptions options;
    options.vllmMetricNames = true;
    FakeEngineScript script = quick();
    script.answerTokens = 1'000'000;
    ServeRig rig(script, options);
    HttpClient client(rig.port());
    QVERIFY(client.send(HttpClient::post("/v1/chat/completions", ServeRig::body(R"(,"stream":true)"))));
    QVERIFY(client.readUntil("block"));
    const QByteArray text = rig.ask(HttpClient::get("/metrics")).body;
    for (const char *stem :
         {"num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prompt_tokens_total",
          "generation_tokens_total", "num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total",
          "time_to_first_token_seconds_bucket", "inter_token_latency_seconds_sum", "e2e_request_latency_seconds_count",
          "request_queue_time_seconds_bucket", "request_inference_time_seconds_sum",
          "request_time_per_output_token_seconds_count", "request_params_n_bucket", "request_params_max_tokens_sum",
          "request_max_num_generation_tokens_count", "request_prefill_kv_computed_tokens_bucket"}) {
        QVERIFY2(text.contains(QByteArray("\nlathe_") + stem + "{model_name=\"tiny\""), stem);
        QVERIFY2(text.contains(QByteArray("\nvllm:") + stem + "{model_name=\"tiny\""), stem);
    }
    QVERIFY(text.contains("lathe_num_requests_running{model_name=\"tiny\",engine=\"0\"} 1\n"));
    QVERIFY(text.contains("finished_reason=\"stop\""));
    for (const char *older : {"time_per_output_token_seconds_bucket", "gpu_cache_usage_perc", "num_requests_swapped"}) {
        QVERIFY2(text.contains(QByteArray("\nvllm:") + older + '{'), older);
        QVERIFY2(!text.contains(QByteArray("\nlathe_") + older + '{'), older);
    }
    const QJsonArray slots_ = QJsonDocument::fromJson(rig.ask(HttpClient::get("/slots")).body).array();
    QCOMPARE(slots_.size(), 1);
    QVERIFY(slots_[0].toObject()["is_processing"].toBool());
    QVERIFY(slots_[0].toObject()["next_token"].toObject()["n_decoded"].toInt() > 0);
}

QTEST_GUILESS_MAIN(ServeTest)
#include "tst_serve.moc"
