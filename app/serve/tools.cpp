// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/tools.h"

#include "app/serve/api_error.h"
#include "engine/api/text.h"

#include <string_view>

namespace serve {
namespace {

constexpr std::size_t maxTools = 128;

/// The functions of a list of tools that is well-formed.
std::vector<const Json *> functionsOf(const Fields &fields, const Json &tools)
{
    std::vector<const Json *> functions;
    if (tools.size() > maxTools)
        fields.wrong("tools", std::to_string(tools.size()) + " tools", "at most " + std::to_string(maxTools));
    for (const Json &tool : tools) {
        const Json *function = tool.is_object() ? Fields(tool, "tools.").object("function") : nullptr;
        if (!function || !function->contains("name") || !(*function)["name"].is_string())
            fields.wrong("tools", "an entry without a function that has a name",
                         "objects {\"type\": \"function\", \"function\": {\"name\": ...}}");
        functions.push_back(function);
    }
    return functions;
}

Json parametersOf(const Json &function)
{
    const auto parameters = function.find("parameters");
    return parameters == function.end() || parameters->is_null() ? Json{{"type", "object"}} : *parameters;
}

std::string anyCall(const std::vector<const Json *> &functions)
{
    Json list = Json::array();
    for (const Json *function : functions)
        list.push_back({{"name", (*function)["name"]}, {"parameters", parametersOf(*function)}});
    return engine::anyCallSchema(dump(list));
}

/// The name in {"type": "function", "function": {"name": ...}}.
std::string chosenName(const Fields &fields, const Json &choice)
{
    const Json *function = choice.is_object() ? Fields(choice, "tool_choice.").object("function") : nullptr;
    const auto name = function ? Fields(*function, "tool_choice.function.").text("name") : std::nullopt;
    if (!name)
        fields.wrong("tool_choice", dump(choice).substr(0, 64),
                     "\"none\", \"auto\", \"required\" or the name of a function");
    return *name;
}

void force(const Fields &fields, const Json &choice, std::vector<const Json *> functions, engine::Request &request,
           std::optional<std::string> &forced)
{
    if (request.jsonSchema)
        fields.wrong("tool_choice", dump(choice).substr(0, 64), "\"auto\" or \"none\" with a response_format");
    if (choice != Json("required")) {
        const std::string name = chosenName(fields, choice);
        std::erase_if(functions, [&](const Json *function) { return (*function)["name"] != Json(name); });
        if (functions.empty())
            fields.wrong("tool_choice", '"' + name.substr(0, 64) + '"', "the name of one of the tools");
    }
    const bool single = functions.size() == 1;
    request.jsonSchema = single ? dump(parametersOf(*functions.front())) : anyCall(functions);
    forced = single ? (*functions.front())["name"].get<std::string>() : std::string();
}

} // namespace

void readTools(const Fields &fields, engine::Request &request, std::optional<std::string> &forced)
{
    const Json *tools = fields.list("tools");
    const Json *choice = fields.find("tool_choice");
    const bool hasTools = tools && !tools->empty();
    const bool free = !choice || *choice == Json("auto") || *choice == Json("none");
    if (!hasTools && !free)
        fields.wrong("tool_choice", dump(*choice).substr(0, 64), "\"auto\" or \"none\" without tools");
    if (!hasTools)
        return;
    const std::vector<const Json *> functions = functionsOf(fields, *tools);
    if (free && fields.boolean("parallel_tool_calls") == false)
        fields.wrong("parallel_tool_calls", "false", "true, as the model decides how many calls it makes");
    if (!choice || *choice != Json("none"))
        request.toolsJson = dump(*tools);
    if (!free)
        force(fields, *choice, functions, request, forced);
}

} // namespace serve
