// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/input.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "app/cli/result_json.h"
#include "engine/api/text.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <unordered_map>
#include <utility>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

struct TextOptions {
    std::string model;
    std::optional<std::string> text;
    std::string file;
    std::string ids;
    bool jsonl = false;
    bool addSpecial = false;
    bool parseSpecial = false;
    bool skipSpecial = false;
    std::string promptIds;
    bool fields = false;
    bool offersTools = false;
};

Json tokenized(const engine::TextModel &model, const std::string &text, const engine::EncodeOptions &options)
{
    const std::vector<int> ids = model.encode(text, options);
    Json pieces = Json::array();
    for (const int id : ids)
        pieces.push_back(model.piece(id));
    return Json{{"ids", ids}, {"pieces", std::move(pieces)}};
}

std::string joined(const std::vector<int> &ids, char separator)
{
    std::string line;
    for (const int id : ids)
        line.append(line.empty() ? 0 : 1, separator).append(std::to_string(id));
    return line;
}

/// The same as one line of JSON; written directly, as long texts have millions of tokens.
std::string tokenizedLine(const engine::TextModel &model, const std::vector<int> &ids)
{
    std::string line = "{\"ids\":[" + joined(ids, ',') + "],\"pieces\":[";
    std::unordered_map<int, std::string> pieces; // a text repeats its tokens
    bool first = true;
    for (const int id : ids) {
        const auto [piece, isNew] = pieces.try_emplace(id);
        if (isNew)
            piece->second = jsonText(model.piece(id));
        line.append(std::exchange(first, false) ? 0 : 1, ',').append(piece->second);
    }
    return line + "]}\n";
}

void tokenize(const TextOptions &o, Context &context)
{
    if ((o.text.has_value() ? 1 : 0) + (o.file.empty() ? 0 : 1) + (o.jsonl ? 1 : 0) != 1)
        throw Error(ErrorCode::InvalidArgument, "tokenize: wanted exactly one of --text, --file and --jsonl");
    const auto model = openModel(o.model, engine::openTextModel);
    if (o.jsonl) {
        forEachLine([&context] { return context.stop.stop_requested(); },
                    [&](const Json &line) {
                        return tokenized(*model, textMember(line, "text"),
                                         {boolMember(line, "add_special", o.addSpecial),
                                          boolMember(line, "parse_special", o.parseSpecial)});
                    });
        return;
    }
    const std::vector<int> ids = model->encode(o.text ? *o.text : readFile(o.file), {o.addSpecial, o.parseSpecial});
    printText(context.json ? tokenizedLine(*model, ids) : joined(ids, ' ') + "\n");
}

Json fields(const engine::TextModel &model, const std::vector<int> &ids, const std::vector<int> &prompt,
            bool offersTools)
{
    const engine::Answer answer = engine::readAnswer(model, ids, prompt, offersTools);
    return Json{
        {"content", answer.content}, {"reasoning", answer.reasoning}, {"tool_calls", toolCallsJson(answer.toolCalls)}};
}

Json detokenized(const engine::TextModel &model, const Json &line, const TextOptions &o)
{
    const std::vector<int> ids = idsMember(line, "ids");
    if (!boolMember(line, "fields", o.fields))
        return Json{{"text", model.decode(ids, boolMember(line, "skip_special", o.skipSpecial))}};
    const bool hasPrompt = line.contains("prompt_ids") && !line["prompt_ids"].is_null();
    return fields(model, ids, hasPrompt ? idsMember(line, "prompt_ids") : std::vector<int>(),
                  boolMember(line, "offers_tools", o.offersTools));
}

void detokenize(const TextOptions &o, bool idsGiven, Context &context)
{
    if (idsGiven == o.jsonl)
        throw Error(ErrorCode::InvalidArgument, "detokenize: wanted exactly one of --ids and --jsonl");
    const auto model = openModel(o.model, engine::openTextModel);
    if (o.jsonl) {
        forEachLine([&context] { return context.stop.stop_requested(); },
                    [&](const Json &line) { return detokenized(*model, line, o); });
        return;
    }
    if (o.fields) {
        const std::vector<int> prompt =
            o.promptIds.empty() ? std::vector<int>() : parseIntList(o.promptIds, "--prompt-ids");
        const Json result = fields(*model, parseIntList(o.ids, "--ids"), prompt, o.offersTools);
        printText(context.json ? result.dump() + "\n" : result.dump(2) + "\n");
        return;
    }
    const std::string text = model->decode(parseIntList(o.ids, "--ids"), o.skipSpecial);
    if (context.json)
        printJson(Json{{"text", text}});
    else
        printText(text + "\n");
}

} // namespace

void addTokenize(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<TextOptions>();
    CLI::App *command = app.add_subcommand("tokenize", "text to token ids");
    command->add_option("MODEL", o->model, "a .gguf file, a folder or file with tokenizer.json, or an installed model")
        ->required();
    command->add_option("--text", o->text, "the text");
    command->add_option("--file", o->file, "read the text from a file, - for standard input");
    command->add_flag("--jsonl", o->jsonl,
                      "one request object a line on standard input: text, add_special, parse_special");
    command->add_flag("--add-special", o->addSpecial, "add BOS and EOS as the model does");
    command->add_flag("--parse-special", o->parseSpecial, "read special tokens written in the text");
    command->callback([o, select] { select([o](Context &context) { tokenize(*o, context); }); });
}

void addDetokenize(CLI::App &app, const Select &select)
{
    const auto o = std::make_shared<TextOptions>();
    CLI::App *command = app.add_subcommand("detokenize", "token ids to text");
    command->add_option("MODEL", o->model, "a .gguf file, a folder or file with tokenizer.json, or an installed model")
        ->required();
    CLI::Option *ids = command->add_option("--ids", o->ids, "token ids separated by commas");
    command->add_flag("--jsonl", o->jsonl,
                      "one request object a line on standard input: ids, skip_special, fields, prompt_ids, "
                      "offers_tools");
    command->add_flag("--skip-special", o->skipSpecial, "leave special tokens out");
    command->add_flag("--fields", o->fields,
                      "sort an answer into content, reasoning and tool_calls by the family's marker tokens");
    command->add_option("--prompt-ids", o->promptIds, "with --fields: the prompt that the answer followed");
    command->add_flag("--offers-tools", o->offersTools, "with --fields: the request named tools");
    command->callback([o, ids, select] {
        select([o, given = ids->count() > 0](Context &context) { detokenize(*o, given, context); });
    });
}

} // namespace cli
