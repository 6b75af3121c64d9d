// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_grammar.h"

#include "engine/core/json.h"
#include "engine/text/json_restricted.h"
#include "engine/text/json_values.h"

#include <algorithm>
#include <array>
#include <cmath>
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

constexpr std::array<std::string_view, 12> describing{"title",    "description", "default",     "examples",
                                                      "$schema",  "$id",         "$comment",    "deprecated",
                                                      "readOnly", "writeOnly",   "definitions", "discriminator"};
constexpr std::array<std::string_view, 21> understood{"type",
                                                      "properties",
                                                      "required",
                                                      "additionalProperties",
                                                      "items",
                                                      "minItems",
                                                      "maxItems",
                                                      "enum",
                                                      "const",
                                                      "anyOf",
                                                      "$ref",
                                                      "$defs",
                                                      "minLength",
                                                      "maxLength",
                                                      "oneOf",
                                                      "allOf",
                                                      "format",
                                                      "minimum",
                                                      "maximum",
                                                      "exclusiveMinimum",
                                                      "exclusiveMaximum"};
constexpr std::array<const char *, 4> bounds{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"};

template<typename List> bool holds(const List &list, std::string_view word)
{
    return std::any_of(list.begin(), list.end(), [&](const auto &entry) { return entry == word; });
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
            addAlternatives(part, "anyOf");
        else if (schema.contains("oneOf"))
            addAlternatives(part, "oneOf");
        else if (schema.contains("allOf"))
            addAlternatives(part, "allOf");
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
        for (const char *alone : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
            if (!schema.contains(alone))
                continue;
            for (const auto &[key, value] : schema.items())
                if (key != alone && key != "type" && key != "$defs" && !holds(describing, key))
                    refuse(part.place, std::string(alone) + " together with \"" + key + "\" is not supported");
            if (schema.contains("type") && std::string_view(alone).ends_with("Of"))
                refuse(part.place, std::string(alone) + " together with \"type\" is not supported");
            return;
        }
    }

    /// What a reference leads to, with its place.
    std::pair<const Json *, std::string> target(const Part &part)
    {
        const Json &ref = (*part.schema)["$ref"];
        if (!ref.is_string() || !ref.get_ref<const std::string &>().starts_with('#'))
            refuse(part.place,
                   "$ref: found " + jsonText(ref).substr(0, 100) + ", wanted a place in the schema, \"#/...\"");
        const std::string text = ref.get<std::string>();
        try {
            return {&m_root.at(Json::json_pointer(text.substr(1))), text};
        } catch (const Json::exception &) {
            refuse(part.place, "$ref: found \"" + text.substr(0, 100) + "\", but the schema has no such place");
        }
    }

    int refRule(const Part &part)
    {
        const auto [schema, place] = target(part);
        return ruleOf(*schema, place);
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

    void addAlternatives(const Part &part, const std::string &key)
    {
        const Json &list = (*part.schema)[key];
        if (!list.is_array() || list.empty())
            refuse(part.place, key + ": wanted a list of at least one schema");
        if (key == "allOf" && list.size() > 1)
            refuse(part.place, "allOf: found " + std::to_string(list.size()) + " schemas, one alone is supported");
        if (key == "oneOf")
            checkDisjoint(part, list);
        for (std::size_t i = 0; i < list.size(); ++i)
            m_grammar.addCall(part.rule.start, ruleOf(list[i], part.place + '/' + key + '/' + std::to_string(i)),
                              part.rule.end);
    }

    /// A value that two branches of a oneOf allow would be wrong, so they must differ in their types, or in constants
    /// that a member of theirs must have.
    void checkDisjoint(const Part &part, const Json &list)
    {
        std::unordered_set<std::string> seen;
        for (const Json &branch : list) {
            const Json &schema = branch.is_object() && branch.contains("$ref")
                ? *target({&branch, part.place + "/oneOf", {}}).first
                : branch;
            for (const std::string &mark : marksOf(schema))
                if (!seen.insert(mark).second)
                    refuse(part.place,
                           "oneOf: found two branches that may both fit (" + mark.substr(0, 64)
                               + "), wanted different types, or constants in a required member of the same name");
        }
    }

    /// What no other branch may have: a type, or the constant that tells an object.
    static std::vector<std::string> marksOf(const Json &schema)
    {
        if (!schema.is_object())
            return {"any", "any"};
        const auto type = schema.find("type");
        const bool isObject = type != schema.end() && *type == Json("object");
        if (isObject && schema.contains("properties") && schema.contains("required")) {
            for (const auto &[name, value] : schema["properties"].items())
                if (value.is_object() && value.contains("const") && holds(schema["required"], name))
                    return {"object where " + name + " is " + jsonText(value["const"])};
        }
        if (type == schema.end() || !type->is_string())
            return {"any", "any"}; // fits beside nothing
        return {*type == Json("integer") ? "number" : type->get<std::string>()};
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
        } else if (schema.contains("minLength") || schema.contains("maxLength") || schema.contains("format")) {
            addString(part);
        } else {
            refuseBounds(part, "without type");
            m_grammar.addCall(part.rule.start, m_values.value(), part.rule.end);
        }
    }

    static void refuseBounds(const Part &part, const char *where)
    {
        for (const char *key : bounds)
            if (part.schema->contains(key))
                refuse(part.place,
                       std::string("the keyword \"") + key + "\" is not supported " + where
                           + ", only with type integer");
    }

    /// The whole number that a bound stands for, rounded into the range.
    static std::optional<std::int64_t> bound(const Part &part, const char *key)
    {
        const auto value = part.schema->find(key);
        if (value == part.schema->end())
            return std::nullopt;
        const double number = value->is_number() ? value->get<double>() : static_cast<double>(2 * mostInteger);
        if (!(std::abs(number) <= static_cast<double>(mostInteger / 10)))
            refuse(part.place,
                   std::string(key) + ": found " + jsonText(*value).substr(0, 32) + ", wanted a number of at most "
                       + std::to_string(mostInteger / 10));
        const bool isLow = std::string_view(key).ends_with("inimum");
        const auto whole = static_cast<std::int64_t>(isLow ? std::ceil(number) : std::floor(number));
        const bool exclusive = std::string_view(key).starts_with("exclusive") && static_cast<double>(whole) == number;
        return whole + (exclusive ? (isLow ? 1 : -1) : 0);
    }

    void addInteger(const Part &part)
    {
        if (std::ranges::none_of(bounds, [&](const char *key) { return part.schema->contains(key); })) {
            m_grammar.addCall(part.rule.start, m_values.integer(), part.rule.end);
            return;
        }
        const std::int64_t low = std::max(bound(part, "minimum").value_or(-mostInteger),
                                          bound(part, "exclusiveMinimum").value_or(-mostInteger));
        const std::int64_t high = std::min(bound(part, "maximum").value_or(mostInteger),
                                           bound(part, "exclusiveMaximum").value_or(mostInteger));
        if (low > high)
            refuse(part.place, "minimum and maximum: found no whole number between them");
        addIntegers(m_grammar, part.rule.start, low, high, part.rule.end);
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
            addInteger(part);
        else if (type == "number")
            refuseBounds(part, "with type number"),
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
        if (const auto format = part.schema->find("format"); format != part.schema->end()) {
            const std::string name = format->is_string() ? format->get<std::string>() : jsonText(*format);
            if (part.schema->contains("minLength") || part.schema->contains("maxLength"))
                refuse(part.place, "format together with minLength or maxLength is not supported");
            if (!addFormat(m_grammar, part.rule.start, name, part.rule.end))
                refuse(part.place,
                       "format: found \"" + name.substr(0, 64)
                           + "\", supported are date, time, date-time, uuid, ipv4 and email");
            return;
        }
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
