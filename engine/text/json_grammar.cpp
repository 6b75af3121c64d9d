// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_grammar.h"

#include "engine/core/json.h"
#include "engine/text/json_values.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace engine {
namespace {

constexpr int maxDepth = 64;
constexpr std::int64_t maxCount = 4096; // of items or characters that are counted

constexpr std::array<std::string_view, 11> describing{"title",    "description", "default",    "examples",
                                                      "$schema",  "$id",         "$comment",   "deprecated",
                                                      "readOnly", "writeOnly",   "definitions"};
constexpr std::array<std::string_view, 14> understood{"type",      "properties", "required", "additionalProperties",
                                                      "items",     "minItems",   "maxItems", "enum",
                                                      "const",     "anyOf",      "$ref",     "$defs",
                                                      "minLength", "maxLength"};

template<typename List> bool holds(const List &list, std::string_view word)
{
    return std::ranges::find(list, word) != list.end();
}

std::string jsonText(const Json &value)
{
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Makes a rule of every part of a schema that is met; parts wait in a list, so that nothing recurses.
class SchemaCompiler {
public:
    explicit SchemaCompiler(const Json &root)
        : m_root(root)
        , m_values(m_grammar)
    {
    }

    Grammar compile()
    {
        (void)ruleOf(m_root, "#");
        while (!m_open.empty()) {
            const Part part = std::move(m_open.back());
            m_open.pop_back();
            build(part);
        }
        if (m_grammar.isLeftRecursive())
            throw Error(ErrorCode::Refused, "schema: a $ref leads back to itself with nothing between");
        return std::move(m_grammar);
    }

private:
    struct Part {
        const Json *schema = nullptr;
        std::string place; ///< "#/properties/name"
        Grammar::Rule rule;
    };

    [[noreturn]] static void refuse(const std::string &place, const std::string &why)
    {
        throw Error(ErrorCode::Refused, "schema at " + place.substr(0, 200) + ": " + why);
    }

    int ruleOf(const Json &schema, const std::string &place)
    {
        const auto [at, isNew] = m_rules.try_emplace(&schema, 0);
        if (isNew) {
            at->second = m_grammar.addRule();
            m_open.push_back({&schema, place, m_grammar.rule(at->second)});
        }
        return at->second;
    }

    void build(const Part &part)
    {
        const Json &schema = *part.schema;
        if (schema == Json(true)) {
            m_grammar.addCall(part.rule.start, m_values.value(), part.rule.end);
            return;
        }
        if (!schema.is_object())
            refuse(part.place, std::string("found a value of type ") + schema.type_name() + ", wanted an object");
        checkKeywords(part);
        if (schema.contains("$ref"))
            m_grammar.addCall(part.rule.start, refRule(part), part.rule.end);
        else if (schema.contains("const"))
            addLiteral(part, schema["const"]);
        else if (schema.contains("enum"))
            addEnum(part);
        else if (schema.contains("anyOf"))
            addAlternatives(part);
        else
            addTypes(part);
    }

    /// What a schema says and we do not read would be broken in the answer, so it is refused.
    static void checkKeywords(const Part &part)
    {
        const Json &schema = *part.schema;
        for (const auto &[key, value] : schema.items())
            if (!holds(describing, key) && !holds(understood, key))
                refuse(part.place, "the keyword \"" + key.substr(0, 64) + "\" is not supported");
        for (const char *alone : {"$ref", "const", "enum", "anyOf"}) {
            if (!schema.contains(alone))
                continue;
            for (const auto &[key, value] : schema.items())
                if (key != alone && key != "type" && key != "$defs" && !holds(describing, key))
                    refuse(part.place, std::string(alone) + " together with \"" + key + "\" is not supported");
            if (schema.contains("type") && std::string_view(alone) == "anyOf")
                refuse(part.place, "anyOf together with \"type\" is not supported");
            return;
        }
    }

    int refRule(const Part &part)
    {
        const Json &ref = (*part.schema)["$ref"];
        if (!ref.is_string() || !ref.get_ref<const std::string &>().starts_with('#'))
            refuse(part.place,
                   "$ref: found " + jsonText(ref).substr(0, 100) + ", wanted a place in the schema, \"#/...\"");
        const std::string text = ref.get<std::string>();
        try {
            return ruleOf(m_root.at(Json::json_pointer(text.substr(1))), text);
        } catch (const Json::exception &) {
            refuse(part.place, "$ref: found \"" + text.substr(0, 100) + "\", but the schema has no such place");
        }
    }

    void addLiteral(const Part &part, const Json &value)
    {
        m_grammar.addEmpty(m_grammar.literal(part.rule.start, jsonText(value)), part.rule.end);
    }

    void addEnum(const Part &part)
    {
        const Json &values = (*part.schema)["enum"];
        if (!values.is_array() || values.empty())
            refuse(part.place, "enum: wanted a list of at least one value");
        for (const Json &value : values)
            addLiteral(part, value);
    }

    void addAlternatives(const Part &part)
    {
        const Json &list = (*part.schema)["anyOf"];
        if (!list.is_array() || list.empty())
            refuse(part.place, "anyOf: wanted a list of at least one schema");
        for (std::size_t i = 0; i < list.size(); ++i)
            m_grammar.addCall(part.rule.start, ruleOf(list[i], part.place + "/anyOf/" + std::to_string(i)),
                              part.rule.end);
    }

    /// The types a schema allows, else those that its other keywords speak of, else all.
    void addTypes(const Part &part)
    {
        const Json &schema = *part.schema;
        if (const auto type = schema.find("type"); type != schema.end()) {
            for (const Json &one : type->is_array() ? *type : Json::array({*type})) {
                if (!one.is_string())
                    refuse(part.place, "type: found " + jsonText(one).substr(0, 64) + ", wanted the name of a type");
                addType(part, one.get<std::string>());
            }
        } else if (schema.contains("properties") || schema.contains("required")
                   || schema.contains("additionalProperties")) {
            addObject(part);
        } else if (schema.contains("items") || schema.contains("minItems") || schema.contains("maxItems")) {
            addArray(part);
        } else if (schema.contains("minLength") || schema.contains("maxLength")) {
            addString(part);
        } else {
            m_grammar.addCall(part.rule.start, m_values.value(), part.rule.end);
        }
    }

    void addType(const Part &part, const std::string &type)
    {
        const auto word = [&](const char *text) {
            m_grammar.addEmpty(m_grammar.literal(part.rule.start, text), part.rule.end);
        };
        if (type == "object")
            addObject(part);
        else if (type == "array")
            addArray(part);
        else if (type == "string")
            addString(part);
        else if (type == "integer")
            m_grammar.addCall(part.rule.start, m_values.integer(), part.rule.end);
        else if (type == "number")
            m_grammar.addCall(part.rule.start, m_values.number(), part.rule.end);
        else if (type == "null")
            word("null");
        else if (type == "boolean")
            word("true"), word("false");
        else
            refuse(part.place,
                   "type: found \"" + type.substr(0, 64)
                       + "\", wanted object, array, string, integer, number, boolean or null");
    }

    /// `minimum` to `maximum` of a counted thing; the maximum may be absent.
    std::pair<std::int64_t, std::optional<std::int64_t>> counts(const Part &part, const char *least, const char *most)
    {
        const auto read = [&](const char *key) -> std::optional<std::int64_t> {
            const auto value = part.schema->find(key);
            if (value == part.schema->end())
                return std::nullopt;
            if (!value->is_number_integer() || *value < 0 || *value > maxCount)
                refuse(part.place,
                       std::string(key) + ": found " + jsonText(*value).substr(0, 32)
                           + ", wanted a whole number from 0 to " + std::to_string(maxCount));
            return value->get<std::int64_t>();
        };
        const std::int64_t low = read(least).value_or(0);
        const auto high = read(most);
        if (high && *high < low)
            refuse(part.place,
                   std::string(most) + ": found " + std::to_string(*high) + ", which is below " + std::to_string(low)
                       + " (" + least + ")");
        return {low, high};
    }

    void addString(const Part &part)
    {
        const auto [low, high] = counts(part, "minLength", "maxLength");
        if (low == 0 && !high) {
            m_grammar.addCall(part.rule.start, m_values.string(), part.rule.end);
            return;
        }
        int at = m_grammar.byte(part.rule.start, '"', '"');
        for (std::int64_t i = 0; i < high.value_or(low); ++i) {
            if (i >= low)
                m_grammar.addEdge(at, '"', '"', part.rule.end);
            at = m_grammar.call(at, m_values.character());
        }
        if (!high)
            m_grammar.addCall(at, m_values.character(), at);
        m_grammar.addEdge(at, '"', '"', part.rule.end);
    }

    void addArray(const Part &part)
    {
        const auto [low, high] = counts(part, "minItems", "maxItems");
        const auto items = part.schema->find("items");
        const int item = items == part.schema->end() ? m_values.value() : ruleOf(*items, part.place + "/items");
        const int open = m_grammar.byte(part.rule.start, '[', '[');
        if (low == 0)
            m_grammar.addEdge(open, ']', ']', part.rule.end);
        if (high == 0)
            return;
        int before = m_values.space(open);
        for (std::int64_t i = 1;; ++i) {
            const int after = m_grammar.call(before, item);
            const bool last = high && i == *high;
            if (i >= low)
                m_grammar.addEdge(m_values.space(after), ']', ']', part.rule.end);
            if (last)
                return;
            const int next = m_values.space(m_grammar.byte(after, ',', ','));
            if (!high && i >= low) { // the rest needs no counting
                m_grammar.addEmpty(next, before);
                return;
            }
            before = next;
        }
    }

    /// Members in the order of the schema. Two tracks lead through them: before the first one written, and behind one,
    /// where a comma is due.
    void addObject(const Part &part)
    {
        const Json &schema = *part.schema;
        const Json none = Json::object();
        const auto given = schema.find("properties");
        const Json &properties = given == schema.end() ? none : *given;
        if (!properties.is_object())
            refuse(part.place,
                   std::string("properties: found a value of type ") + properties.type_name() + ", wanted an object");
        const std::unordered_set<std::string> required = requiredOf(part, properties);
        const int open = m_grammar.byte(part.rule.start, '{', '{');
        Tracks tracks{m_values.space(open), -1};
        std::vector<std::string> names;
        for (const auto &[name, value] : properties.items()) {
            names.push_back(name);
            const int rule = ruleOf(value, part.place + "/properties/" + name);
            addMember(
                tracks, rule, [&](int from) { return m_grammar.literal(from, jsonText(name)); },
                !required.contains(name));
        }
        addOthers(part, tracks, names);
        if (tracks.first >= 0)
            m_grammar.addEdge(open, '}', '}', part.rule.end);
        if (tracks.later >= 0)
            m_grammar.addEdge(m_values.space(tracks.later), '}', '}', part.rule.end);
    }

    struct Tracks {
        int first = -1; ///< where the first member may begin, or -1 when one was needed
        int later = -1; ///< behind a member, or -1 when none can have been
    };

    std::unordered_set<std::string> requiredOf(const Part &part, const Json &properties)
    {
        std::unordered_set<std::string> names;
        const auto list = part.schema->find("required");
        if (list == part.schema->end())
            return names;
        if (!list->is_array())
            refuse(part.place, "required: wanted a list of names");
        std::unordered_set<std::string> known;
        for (const auto &[name, value] : properties.items())
            known.insert(name);
        for (const Json &name : *list) {
            if (!name.is_string() || !known.contains(name.get<std::string>()))
                refuse(part.place, "required: found " + jsonText(name).substr(0, 64) + ", wanted names of properties");
            names.insert(name.get<std::string>());
        }
        return names;
    }

    template<typename Key> void addMember(Tracks &tracks, int rule, const Key &key, bool optional)
    {
        const int begin = m_grammar.addState();
        if (tracks.first >= 0)
            m_grammar.addEmpty(tracks.first, begin);
        if (tracks.later >= 0)
            m_grammar.addEmpty(m_values.space(m_grammar.byte(tracks.later, ',', ',')), begin);
        const int colon = m_grammar.byte(key(begin), ':', ':');
        const int after = m_grammar.call(m_values.gap(colon), rule);
        if (optional && tracks.later >= 0)
            m_grammar.addEmpty(tracks.later, after);
        if (!optional)
            tracks.first = -1;
        tracks.later = after;
    }

    /// Members beside the named ones: any number, when the schema says so, or says nothing of members at all.
    void addOthers(const Part &part, Tracks &tracks, const std::vector<std::string> &names)
    {
        const auto others = part.schema->find("additionalProperties");
        const bool absent = others == part.schema->end();
        if (absent ? !names.empty() : *others == Json(false))
            return;
        const int rule = absent ? m_values.value() : ruleOf(*others, part.place + "/additionalProperties");
        addMember(tracks, rule, [&](int from) { return m_values.otherKey(from, names); }, true);
        const int again = m_values.space(m_grammar.byte(tracks.later, ',', ','));
        const int colon = m_grammar.byte(m_values.otherKey(again, names), ':', ':');
        m_grammar.addCall(m_values.gap(colon), rule, tracks.later);
    }

    const Json &m_root;
    Grammar m_grammar;
    JsonValues m_values;
    std::unordered_map<const Json *, int> m_rules;
    std::vector<Part> m_open;
};

} // namespace

Grammar jsonSchemaGrammar(std::string_view schema)
{
    const Json root = parseJson(schema, "schema", maxDepth);
    return SchemaCompiler(root).compile();
}

} // namespace engine
