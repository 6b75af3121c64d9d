// SPDX-License-Identifier: GPL-3.0-or-later
// oneOf: a value that two branches allow would be wrong, so branches must be told apart: by their types, by constants,
// or, among objects, by the constants of one member.
#include "engine/text/schema_compiler.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace engine {
namespace {

constexpr int maxNesting = 8;              // of alternatives within alternatives
constexpr std::size_t stepsOfASchema = 16; // that it costs to look at one, in steps of a budget
constexpr const char *allValues = "*";

std::string typeOf(const Json &value)
{
    return value.is_number() ? "number" : value.type_name();
}

/// The schemas of anyOf, oneOf or allOf; null when it has none of them.
const Json *alternativesOf(const Json &schema)
{
    for (const char *key : {"anyOf", "oneOf", "allOf"})
        if (schema.is_object() && schema.contains(key) && schema[key].is_array())
            return &schema[key];
    return nullptr;
}

/// The constants that a schema allows as texts; empty when it allows others.
std::vector<std::string> constantsOf(const Json &schema)
{
    std::vector<std::string> texts;
    if (!schema.is_object())
        return texts;
    if (const auto value = schema.find("const"); value != schema.end())
        texts.push_back(schemaText(*value));
    else if (const auto values = schema.find("enum"); values != schema.end() && values->is_array())
        for (const Json &one : *values)
            texts.push_back(schemaText(one));
    return texts;
}

/// The type that keywords speak of where none is named.
std::string impliedType(const Json &schema)
{
    constexpr std::array<std::pair<const char *, const char *>, 8> keywords{{{"properties", "object"},
                                                                             {"required", "object"},
                                                                             {"additionalProperties", "object"},
                                                                             {"items", "array"},
                                                                             {"prefixItems", "array"},
                                                                             {"pattern", "string"},
                                                                             {"format", "string"},
                                                                             {"minLength", "string"}}};
    for (const auto &[key, type] : keywords)
        if (schema.is_object() && schema.contains(key))
            return type;
    return "any";
}

} // namespace

void SchemaCompiler::collectKinds(const Json &given, const std::string &place, int depth, Kinds &kinds)
{
    m_budget.take(stepsOfASchema);
    const Json &schema = resolved(given, place);
    if (const Json *list = alternativesOf(schema); list && depth < maxNesting) {
        for (const Json &one : *list)
            collectKinds(one, place, depth + 1, kinds);
        return;
    }
    if (!schema.is_object() || alternativesOf(schema)) {
        kinds["any"] = {allValues};
        return;
    }
    if (const auto values = constantsOf(schema); !values.empty()) {
        for (const std::string &text : values)
            kinds[typeOf(Json::parse(text))].push_back(text);
        return;
    }
    const auto type = schema.find("type");
    if (type == schema.end()) {
        kinds[impliedType(schema)].emplace_back(allValues);
        return;
    }
    for (const Json &one : type->is_array() ? *type : Json::array({*type})) {
        const std::string name = one.is_string() ? one.get<std::string>() : "any";
        kinds[name == "integer" ? "number" : name].emplace_back(allValues);
    }
}

/// Members of objects that have constants.
SchemaCompiler::Tags SchemaCompiler::tagNames(const Json &given, const std::string &place, int depth)
{
    m_budget.take(stepsOfASchema);
    const Json &schema = resolved(given, place);
    if (const Json *list = alternativesOf(schema))
        return depth < maxNesting && !list->empty() ? tagNames(list->front(), place, depth + 1) : Tags();
    Tags names;
    if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object())
        for (const auto &[name, value] : schema["properties"].items())
            if (!constantsOf(resolved(value, place)).empty())
                names.push_back(name);
    return names;
}

/// The constants of a member; empty where it may have other values.
std::vector<std::string> SchemaCompiler::tagValues(const Json &given, const std::string &name, const std::string &place,
                                                   int depth)
{
    m_budget.take(stepsOfASchema);
    const Json &schema = resolved(given, place);
    std::vector<std::string> values;
    if (const Json *list = alternativesOf(schema)) {
        for (const Json &one : *list) {
            const auto more = depth < maxNesting ? tagValues(one, name, place, depth + 1) : values;
            if (more.empty())
                return {};
            values.insert(values.end(), more.begin(), more.end());
        }
        return values;
    }
    if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object()
        && schema["properties"].contains(name))
        values = constantsOf(resolved(schema["properties"][name], place));
    return values;
}

/// Whether no two of the objects have a constant of this member in common.
bool SchemaCompiler::tells(const std::string &name, const std::vector<const Json *> &objects, const std::string &place)
{
    std::unordered_set<std::string> seen;
    for (const Json *object : objects) {
        const std::vector<std::string> values = tagValues(*object, name, place, 0);
        const std::unordered_set<std::string> own(values.begin(), values.end());
        if (own.empty() || std::ranges::any_of(own, [&](const std::string &one) { return seen.contains(one); }))
            return false;
        seen.insert(own.begin(), own.end());
    }
    return true;
}

/// The member that tells the objects among the branches apart, when there are several.
std::string SchemaCompiler::tagOf(const Part &part, const Json &list)
{
    std::unordered_set<std::string> seen; // "type" for constants, "type:constant" and "type:*"
    std::vector<const Json *> objects;
    const auto clash = [&](const std::string &what) {
        refuse(part.place,
               "oneOf: found two branches that may both fit (" + what.substr(0, 64)
                   + "), wanted different types, constants, or objects with a member whose constants differ");
    };
    for (const Json &branch : list) {
        Kinds kinds;
        collectKinds(branch, part.place, 0, kinds);
        std::vector<std::string> own;
        for (const auto &[type, values] : kinds) {
            if (type == "any")
                clash("any value");
            if (type == "object") {
                objects.push_back(&branch);
                continue;
            }
            for (const std::string &value : values) {
                const bool all = value == allValues;
                if (seen.contains(type + ':' + value) || seen.contains(type + ':' + allValues)
                    || (all && seen.contains(type)))
                    clash(all ? type : value);
                own.push_back(type + ':' + value);
            }
            own.push_back(type);
        }
        seen.insert(own.begin(), own.end());
    }
    if (objects.size() < 2)
        return {};
    Tags names = tagNames(*objects.front(), part.place, 0);
    if (const Json *discriminator = part.find("discriminator");
        discriminator && discriminator->is_object() && discriminator->contains("propertyName"))
        names.insert(names.begin(),
                     (*discriminator)["propertyName"].is_string() ? (*discriminator)["propertyName"].get<std::string>()
                                                                  : std::string());
    for (const std::string &name : names)
        if (tells(name, objects, part.place))
            return name;
    clash("objects");
    return {};
}

} // namespace engine
