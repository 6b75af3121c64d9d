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
#include <optional>
#include <unistd.h>
#include <utility>

namespace cli {
namespace {

struct ChatOptions {
    ModelOptions model;
    SamplingOptions sampling;
    std::optional<std::string> prompt;
    std::string system;
    std::string tools;
};

/// What every turn of a conversation is asked with.
struct TurnSettings {
    engine::SamplingParams sampling;
    std::optional<std::string> toolsJson;
};

/// Prints an answer for people: reasoning between two lines that name it, content, and each call on a line.
class AnswerPrinter {
public:
    void append(const engine::TokenEvent &event)
    {
        if (!event.reasoning.empty()) {
            if (!std::exchange(m_reasons, true))
                printText("[reasoning]\n");
            printText(event.reasoning);
        }
        if (!event.text.empty()) {
            if (std::exchange(m_reasons, false))
                printText("\n[answer]\n");
            printText(event.text);
        }
    }
    static void finish(const RequestResult &result)
    {
        printText("\n");
        for (const engine::ToolCall &call : result.toolCalls)
            printText("[call] " + call.name + " " + call.arguments + "\n");
    }

private:
    bool m_reasons = false;
};

/// One turn: sends the conversation, prints the answer and adds it.
void turn(Session &session, std::vector<engine::ChatMessage> &messages, const TurnSettings &settings, Context &context)
{
    engine::Request request;
    request.messages = messages;
    request.sampling = settings.sampling;
    request.toolsJson = settings.toolsJson;
    std::vector<engine::Request> requests;
    requests.push_back(std::move(request));
    AnswerPrinter printer;
    const auto onText = [&](std::size_t, const engine::TokenEvent &event) {
        if (!context.json)
            printer.append(event);
    };
    session.run(std::move(requests), onText, [&](std::size_t, const RequestResult &result) {
        throwIfFailed(result);
        messages.push_back({"assistant", result.text, result.reasoning, result.toolCalls});
        if (context.json)
            printJson(answerJson(result));
        else
            AnswerPrinter::finish(result);
        if (!context.quiet && result.finished.reason == engine::FinishReason::ContextFull)
            printWarning("the context is full; /new starts a new conversation");
    });
}

void converse(Session &session, std::vector<engine::ChatMessage> messages, const TurnSettings &settings,
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
            turn(session, messages, settings, context);
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
    TurnSettings settings{samplingParams(o.sampling, o.model.seed), std::nullopt};
    if (!o.tools.empty())
        settings.toolsJson = readFile(o.tools);
    Session session(o.model, config, context);
    std::vector<engine::ChatMessage> messages;
    if (!o.system.empty())
        messages.push_back({"system", o.system});
    if (o.prompt) {
        messages.push_back({"user", *o.prompt});
        turn(session, messages, settings, context);
    } else {
        converse(session, std::move(messages), settings, context);
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
    command->add_option("--tools", o->tools, "JSON list of tools that the model may call, from a file");
    command->callback([o, select] { select([o](Context &context) { chat(*o, context); }); });
}

} // namespace cli
