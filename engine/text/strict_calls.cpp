// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/text.h"
#include "engine/core/json.h"
#include "engine/text/json_grammar.h"

#include <algorithm>

namespace engine {
namespace {

constexpr int maxDepth = 64;

/// Moves references within a schema to where the schema stands in another one. What only holds values is left alone.
void moveReferences(Json &schema, const std::string &place)
{
    if (schema.is_array())
        for (Json &one : schema)
            moveReferences(one, place);
    if (!schema.is_object())
        return;
    for (auto &[key, value] : schema.items()) {
        if (key == "$ref" && value.is_string() && value.get_ref<const std::string &>().starts_with('#'))
            value = place + value.get<std::string>().substr(1);
        else if (key != "const" && key != "enum")
            moveReferences(value, place);
    }
}

const Json &functionOf(const Json &tool)
{
    const auto function = tool.is_object() ? tool.find("function") : tool.end();
    if (!tool.is_object() || function == tool.end() || !function->is_object() || !function->contains("name"))
        throw Error(ErrorCode::Refused, "tools: found an entry without a function that has a name");
    return *function;
}

/// One call of any of the functions; a reference within parameters is moved to where they stand.
Json anyCall(const Json &functions)
{
    Json calls = Json::array();
    for (const Json &function : functions) {
        Json arguments{{"type", "object"}};
        if (const auto found = function.find("parameters"); found != function.end() && !found->is_null())
            arguments = *found;
        moveReferences(arguments, "#/anyOf/" + std::to_string(calls.size()) + "/properties/arguments");
        calls.push_back({{"type", "object"},
                         {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", std::move(arguments)}}},
                         {"required", {"name", "arguments"}},
                         {"additionalProperties", false}});
    }
    return {{"anyOf", std::move(calls)}};
}

std::string dumped(const Json &json)
{
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace

std::string anyCallSchema(std::string_view functionsJson)
{
    const Json functions = parseJson(functionsJson, "tools", maxDepth);
    const auto named = [](const Json &function) { return function.is_object() && function.contains("name"); };
    if (!functions.is_array() || !std::all_of(functions.begin(), functions.end(), named))
        throw Error(ErrorCode::Refused, "tools: found something else, wanted a list of functions with names");
    return dumped(anyCall(functions));
}

std::optional<std::string> strictCallSchema(std::string_view toolsJson)
{
    const Json tools = parseJson(toolsJson, "tools", maxDepth);
    Json functions = Json::array();
    bool strict = false;
    for (const Json &tool : tools) {
        const Json &function = functionOf(tool);
        const auto flag = function.find("strict");
        const bool isStrict = flag != function.end() && *flag == Json(true);
        functions.push_back({{"name", function["name"]}});
        if (isStrict && function.contains("parameters") && function["parameters"].is_object())
            functions.back()["parameters"] = function["parameters"];
        strict = strict || isStrict;
    }
    if (!strict)
        return std::nullopt;
    return dumped(anyCall(functions));
}

} // namespace engine
