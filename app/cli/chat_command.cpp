// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/options.h"
#include "app/cli/result_json.h"
#include "app/cli/session.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <unistd.h>

namespace cli {
namespace {

struct ChatOptions {
    ModelOptions model;
    SamplingOptions sampling;
    std::optional<std::string> prompt;
    std::string system;
};

/// One turn: sends the conversation, prints the answer and adds it.
void turn(Session &session, std::vector<engine::ChatMessage> &messages, const engine::SamplingParams &sampling,
          Context &context)
{
    engine::Request request;
    request.messages = messages;
    request.sampling = sampling;
    std::vector<engine::Request> requests;
    requests.push_back(std::move(request));
    const auto onText = [&context](std::size_t, const std::string &text) {
        if (!context.json)
            printText(text);
    };
    session.run(std::move(requests), onText, [&](std::size_t, const RequestResult &result) {
        throwIfFailed(result);
        messages.push_back({"assistant", result.text});
        if (context.json)
            printJson(resultJson(result));
        else
            printText("\n");
        if (!context.quiet && result.finished.reason == engine::FinishReason::ContextFull)
            printWarning("the context is full; /new starts a new conversation");
    });
}

void converse(Session &session, std::vector<engine::ChatMessage> messages, const engine::SamplingParams &sampling,
              Context &context)
{
    const std::vector<engine::ChatMessage> start = messages;
    const bool terminal = isatty(STDIN_FILENO) == 1;
    if (terminal && !context.quiet)
        std::fputs("Type a message and press Enter. /new starts over, /exit or Ctrl+D ends.\n", stderr);
    while (!context.stop.stop_requested()) {
        if (terminal)
            std::fputs("> ", stderr);
        const std::optional<std::string> line = readLine();
        if (!line || *line == "/exit")
            return;
        if (*line == "/new") {
            messages = start;
            continue;
        }
        if (line->find_first_not_of(" \t\r") == std::string::npos)
            continue;
        messages.push_back({"user", *line});
        try {
            turn(session, messages, sampling, context);
        } catch (const engine::Error &error) {
            if (error.code() != engine::ErrorCode::Refused)
                throw;
            printError(error.what()); // the conversation goes on without the refused message
            messages.pop_back();
        }
    }
}

void chat(const ChatOptions &o, Context &context)
{
    const engine::EngineConfig config = engineConfig(o.model);
    const engine::SamplingParams sampling = samplingParams(o.sampling, o.model.seed);
    Session session(o.model, config, context);
    std::vector<engine::ChatMessage> messages;
    if (!o.system.empty())
        messages.push_back({"system", o.system});
    if (o.prompt) {
        messages.push_back({"user", *o.prompt});
        turn(session, messages, sampling, context);
    } else {
        converse(session, std::move(messages), sampling, context);
    }
    session.finish();
}

} // namespace

void addChat(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<ChatOptions>();
    CLI::App *command = app.add_subcommand("chat", "a conversation in the terminal, or one turn with -p");
    addModelOptions(*command, o->model);
    addSamplingOptions(*command, o->sampling);
    command->add_option("-p,--prompt", o->prompt, "one message; print the answer and end");
    command->add_option("--system", o->system, "system prompt");
    command->callback([o, select] { select([o](Context &context) { chat(*o, context); }); });
}

} // namespace cli
