// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/member_text.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "engine/api/text.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct RenderOptions {
    std::string model;
    std::string messages;
    std::string tools;
    std::string documents;
    std::string kwargs;
    std::string date;
    std::string templateName = "default";
    bool noGenerationPrompt = false;
    bool jsonl = false;
};

engine::RenderRequest defaults(const RenderOptions &o)
{
    engine::RenderRequest request;
    if (!o.tools.empty())
        request.toolsJson = readFile(o.tools);
    if (!o.documents.empty())
        request.documentsJson = readFile(o.documents);
    if (!o.kwargs.empty())
        request.kwargsJson = o.kwargs;
    request.addGenerationPrompt = !o.noGenerationPrompt;
    request.date = o.date;
    return request;
}

/// Members of a request line replace what the command line said.
engine::RenderRequest requestFrom(const Json &line, const std::string &text, engine::RenderRequest request)
{
    const std::optional<std::string> messages = memberText(text, "messages");
    if (!messages)
        throw Error(ErrorCode::Refused, "messages: not in the request, wanted a list of messages");
    request.messagesJson = *messages;
    if (auto tools = memberText(text, "tools"))
        request.toolsJson = std::move(tools);
    if (auto documents = memberText(text, "documents"))
        request.documentsJson = std::move(documents);
    if (auto kwargs = memberText(text, "kwargs"))
        request.kwargsJson = std::move(kwargs);
    request.addGenerationPrompt = boolMember(line, "add_generation_prompt", request.addGenerationPrompt);
    if (line.contains("date") && !line["date"].is_null())
        request.date = textMember(line, "date");
    return request;
}

std::string renderBare(const Json &line, const std::string &text, const std::string &date)
{
    const std::optional<std::string> context = memberText(text, "context");
    const bool ownDate = line.contains("date") && !line["date"].is_null();
    return engine::renderTemplate(textMember(line, "template"), context.value_or("{}"),
                                  ownDate ? textMember(line, "date") : date);
}

std::string templateOf(const Json &line, const std::string &fallback)
{
    const bool named = line.contains("template_name") && !line["template_name"].is_null();
    return named ? textMember(line, "template_name") : fallback;
}

void renderLines(const RenderOptions &o, Context &context)
{
    const auto model = o.model.empty() ? nullptr : openModel(o.model, engine::openTemplates);
    const engine::RenderRequest base = defaults(o);
    forEachLine([&context] { return context.stop.stop_requested(); },
                [&](const Json &line, const std::string &text) {
                    if (!model || line.contains("template"))
                        return Json{{"prompt", renderBare(line, text, o.date)}};
                    return Json{
                        {"prompt", model->render(requestFrom(line, text, base), templateOf(line, o.templateName))}};
                });
}

void render(const RenderOptions &o, Context &context)
{
    if (o.messages.empty() != o.jsonl)
        throw Error(ErrorCode::InvalidArgument, "render: wanted exactly one of --messages and --jsonl");
    if (o.jsonl)
        return renderLines(o, context);
    if (o.model.empty())
        throw Error(ErrorCode::InvalidArgument,
                    "render: --messages needs a MODEL; bare templates are read with --jsonl");
    const auto model = openModel(o.model, engine::openTemplates);
    const std::string text = readFile(o.messages);
    const Json parsed = parseJson(text, o.messages);
    engine::RenderRequest request = defaults(o);
    if (parsed.is_object())
        request = requestFrom(parsed, text, request);
    else
        request.messagesJson = text;
    const std::string prompt = model->render(request, o.templateName);
    if (context.json)
        printJson(Json{{"prompt", prompt}});
    else
        printText(prompt);
}

} // namespace

void addRender(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<RenderOptions>();
    CLI::App *command = app.add_subcommand("render", "chat template to prompt; needs no tokenizer");
    command->add_option("MODEL", o->model,
                        "a .gguf file, a folder or file with a chat template, or an installed model");
    command->add_option("--messages", o->messages,
                        "JSON list of messages, or an object with messages, tools, ...; - for standard input");
    command->add_flag(
        "--jsonl", o->jsonl,
        "one request object a line on standard input: messages, tools, documents, add_generation_prompt, date, kwargs; "
        "without MODEL: template, context");
    command->add_option("--tools", o->tools, "JSON list of tools, from a file");
    command->add_option("--documents", o->documents, "JSON list of documents, from a file");
    command->add_flag("--no-generation-prompt", o->noGenerationPrompt, "end after the last message");
    command->add_option("--date", o->date, "YYYY-MM-DD[Thh:mm:ss] that the template sees (default: now)");
    command->add_option("--kwargs", o->kwargs, "JSON object whose members become template variables");
    command->add_option("--template", o->templateName, "which template, where a model has several")
        ->capture_default_str();
    command->callback([o, select] { select([o](Context &context) { render(*o, context); }); });
}

} // namespace cli
