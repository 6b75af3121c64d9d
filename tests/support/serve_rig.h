// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/server.h"
#include "tests/support/fake_engine.h"
#include "tests/support/http_client.h"

#include <QTest>

#include <chrono>
#include <thread>

/// A server on a fake engine of fixed speed.
struct ServeRig {
    explicit ServeRig(FakeEngineScript script = {}, serve::ServerOptions options = {},
                      const engine::EngineConfig &config = {})
        : engine(std::move(script))
        , server(engine, load(config), withFreePort(std::move(options)))
    {
        server.start();
    }

    [[nodiscard]] int port() const { return server.port(); }
    HttpClient::Response ask(const QByteArray &request) { return HttpClient::ask(port(), request); }
    HttpClient::Response chat(const QByteArray &members)
    {
        return ask(HttpClient::post("/v1/chat/completions", body(members)));
    }
    /// A chat's body with further members, ", \"n\": 2".
    static QByteArray body(const QByteArray &members)
    {
        return R"({"model":"m","messages":[{"role":"user","content":"hi"}])" + members + '}';
    }
    /// Whether no request is left in the engine, at the latest after some seconds.
    [[nodiscard]] bool becomesIdle(int seconds = 20)
    {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
        while (engine.totals().running + engine.totals().waiting > 0) {
            if (std::chrono::steady_clock::now() > deadline)
                return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return engine.totals().blocksFree == engine.totals().blocksTotal;
    }

    FakeEngine engine;
    serve::Server server;

private:
    serve::ServedModel load(const engine::EngineConfig &config)
    {
        engine.loadModel("tiny.gguf", config);
        serve::ServedModel model;
        model.name = "tiny";
        for (const engine::Event &event : engine.takeEvents())
            if (const auto *loaded = std::get_if<engine::ModelLoaded>(&event))
                model.info = loaded->info;
        return model;
    }
    static serve::ServerOptions withFreePort(serve::ServerOptions options)
    {
        options.port = 0;
        return options;
    }
};
