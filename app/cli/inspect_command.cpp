// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/command.h"
#include "app/cli/options.h"
#include "app/cli/output.h"
#include "engine/api/inspect.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace cli {
namespace {

struct InspectOptions {
    std::string model;
    bool tensors = false;
    bool metadata = false;
};

Json toJson(const engine::ModelDescription &d, const InspectOptions &options)
{
    Json result{{"format", d.format},
                {"architecture", d.architecture},
                {"name", d.name},
                {"parameters", d.parameters},
                {"file_bytes", d.fileBytes},
                {"context_length", d.contextLength},
                {"vocab_size", d.vocabSize},
                {"layers", d.layers},
                {"tensor_types", d.tensorTypes},
                {"has_chat_template", d.hasChatTemplate},
                {"warnings", d.warnings}};
    if (options.tensors) {
        result["tensors"] = Json::array();
        for (const engine::InspectedTensor &t : d.tensors)
            result["tensors"].push_back(
                {{"name", t.name}, {"type", t.type}, {"shape", t.shape}, {"offset", t.offset}, {"bytes", t.bytes}});
    }
    if (options.metadata) {
        result["metadata"] = Json::object();
        for (const auto &[key, value] : d.metadataJson)
            result["metadata"][key] = Json::parse(value);
    }
    return result;
}

std::string shapeText(const std::vector<std::int64_t> &shape)
{
    std::string text;
    for (const std::int64_t size : shape)
        text += (text.empty() ? "" : " x ") + std::to_string(size);
    return text;
}

std::string toText(const engine::ModelDescription &d, const InspectOptions &options)
{
    std::string text = "format        " + d.format + "\narchitecture  " + d.architecture + "\nname          " + d.name
        + "\nparameters    " + std::to_string(d.parameters) + "\nfile bytes    " + std::to_string(d.fileBytes)
        + "\ncontext       " + std::to_string(d.contextLength) + " tokens\nvocabulary    " + std::to_string(d.vocabSize)
        + " tokens\nlayers        " + std::to_string(d.layers) + "\nchat template " + (d.hasChatTemplate ? "yes" : "no")
        + "\ntensor types ";
    for (const auto &[type, count] : d.tensorTypes)
        text += " " + type + ":" + std::to_string(count);
    text += "\n";
    for (const std::string &warning : d.warnings)
        text += "warning: " + warning + "\n";
    if (options.metadata)
        for (const auto &[key, value] : d.metadataJson)
            text += key + " = " + (value.size() > 200 ? value.substr(0, 200) + " ..." : value) + "\n";
    if (options.tensors)
        for (const engine::InspectedTensor &t : d.tensors)
            text += t.name + "  " + t.type + "  " + shapeText(t.shape) + "  " + std::to_string(t.bytes) + " bytes at "
                + std::to_string(t.offset) + "\n";
    return text;
}

} // namespace

void addInspect(CLI::App &app, const Select &select)
{
    const auto options = std::make_shared<InspectOptions>();
    CLI::App *command = app.add_subcommand("inspect", "what a model is, without loading its weights");
    command
        ->add_option("MODEL", options->model,
                     "a .gguf file, a Hugging Face folder, a .safetensors file or index, or an installed model")
        ->required();
    command->add_flag("--tensors", options->tensors, "list every tensor");
    command->add_flag("--metadata", options->metadata, "list every metadata key");
    command->callback([options, select] {
        select([options](Context &context) {
            const engine::ModelDescription d = openModel(options->model, [&](const std::string &path) {
                return engine::inspectModel(path, options->tensors, options->metadata);
            });
            if (context.json)
                printJson(toJson(d, *options));
            else
                printText(toText(d, *options));
        });
    });
}

} // namespace cli
