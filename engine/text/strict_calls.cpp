// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/json.h"
#include "engine/text/json_grammar.h"

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

} // namespace

std::optional<std::string> strictCallSchema(std::string_view toolsJson)
{
    const Json tools = parseJson(toolsJson, "tools", maxDepth);
    Json calls = Json::array();
    bool strict = false;
    for (const Json &tool : tools) {
        const Json &function = functionOf(tool);
        const auto flag = function.find("strict");
        const bool isStrict = flag != function.end() && *flag == Json(true);
        Json arguments{{"type", "object"}};
        if (isStrict && function.contains("parameters") && function["parameters"].is_object()) {
            arguments = function["parameters"];
            moveReferences(arguments, "#/anyOf/" + std::to_string(calls.size()) + "/properties/arguments");
        }
        strict = strict || isStrict;
        calls.push_back({{"type", "object"},
                         {"properties", {{"name", {{"const", function["name"]}}}, {"arguments", arguments}}},
                         {"required", {"name", "arguments"}},
                         {"additionalProperties", false}});
    }
    if (!strict)
        return std::nullopt;
    return Json{{"anyOf", std::move(calls)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace engine
