// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/json_grammar.h"

#include "engine/text/json_restricted.h"
#include "engine/text/schema_compiler.h"
#include "engine/text/schema_pattern.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace engine {
namespace {

constexpr int mostSchemaDepth = 64;
constexpr std::int64_t maxCount = 4096; // of items, members or characters that are counted

constexpr std::array<std::string_view, 16> describing{
    "title",         "description", "default",   "examples",    "example",       "$schema",          "$id",
    "$comment",      "readOnly",    "writeOnly", "definitions", "discriminator", "contentMediaType", "contentEncoding",
    "contentSchema", "deprecated"};
constexpr std::array<std::string_view, 30> understood{"type",
                                                      "properties",
                                                      "required",
                                                      "additionalProperties",
                                                      "patternProperties",
                                                      "propertyNames",
                                                      "items",
                                                      "prefixItems",
                                                      "uniqueItems",
                                                      "additionalItems",
                                                      "minItems",
                                                      "maxItems",
                                                      "enum",
                                                      "const",
                                                      "anyOf",
                                                      "oneOf",
                                                      "allOf",
                                                      "$ref",
                                                      "$defs",
                                                      "minLength",
                                                      "maxLength",
                                                      "pattern",
                                                      "format",
                                                      "minimum",
                                                      "maximum",
                                                      "exclusiveMinimum",
                                                      "exclusiveMaximum",
                                                      "multipleOf",
                                                      "minProperties",
                                                      "maxProperties"};

template<typename List> bool holds(const List &list, std::string_view word)
{
    return std::any_of(list.begin(), list.end(), [&](const auto &entry) { return entry == word; });
}

/// What programs add for themselves.
bool isDescribing(std::string_view key)
{
    return holds(describing, key) || key.starts_with("x-");
}

/// Whether a value is of one of the types that a schema allows.
bool hasType(const Json &value, const Json &types)
{
    for (const Json &type : types.is_array() ? types : Json::array({types})) {
        const bool whole =
            value.is_number_integer() || (value.is_number() && std::floor(value.get<double>()) == value.get<double>());
        if ((type == Json("object") && value.is_object()) || (type == Json("array") && value.is_array())
            || (type == Json("string") && value.is_string()) || (type == Json("boolean") && value.is_boolean())
            || (type == Json("null") && value.is_null()) || (type == Json("number") && value.is_number())
            || (type == Json("integer") && whole))
            return true;
    }
    return false;
}

} // namespace

std::string schemaText(const Json &value)
{
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const Json *SchemaCompiler::Part::find(const char *key) const
{
    const auto at = schema->find(key);
    return at == schema->end() ? nullptr : &*at;
}

Grammar SchemaCompiler::compile()
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

void SchemaCompiler::refuse(const std::string &place, const std::string &why)
{
    throw Error(ErrorCode::Refused, "schema at " + place.substr(0, 200) + ": " + why);
}

int SchemaCompiler::ruleOf(const Json &schema, const std::string &place, const Tags &tags)
{
    const auto [at, isNew] = m_rules.try_emplace({&schema, tags}, 0);
    if (isNew) {
        at->second = m_grammar.addRule();
        m_open.push_back({&schema, place, tags, m_grammar.rule(at->second)});
    }
    return at->second;
}

void SchemaCompiler::build(const Part &part)
{
    const Json &schema = *part.schema;
    if (schema == Json(true)) {
        m_grammar.addCall(part.rule.start, m_values.value(), part.rule.end);
        return;
    }
    if (!schema.is_object())
        refuse(part.place, std::string("found a value of type ") + schema.type_name() + ", wanted an object");
    checkKeywords(part);
    if (const Json *ref = part.find("$ref")) {
        const auto [meant, place] = target(*ref, part.place);
        m_grammar.addCall(part.rule.start, ruleOf(*meant, place, part.tags), part.rule.end);
    } else if (const Json *value = part.find("const")) {
        addLiteral(part, *value);
    } else if (part.has("enum")) {
        addEnum(part);
    } else if (part.has("anyOf")) {
        addAlternatives(part, "anyOf");
    } else if (part.has("oneOf")) {
        addAlternatives(part, "oneOf");
    } else if (part.has("allOf")) {
        addAlternatives(part, "allOf");
    } else {
        addTypes(part);
    }
}

/// What a schema says and we do not read would be broken in the answer, so it is refused.
void SchemaCompiler::checkKeywords(const Part &part)
{
    const Json &schema = *part.schema;
    for (const auto &[key, value] : schema.items())
        if (!isDescribing(key) && !holds(understood, key))
            refuse(part.place, "the keyword \"" + key.substr(0, 64) + "\" is not supported");
    for (const char *alone : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
        if (!schema.contains(alone))
            continue;
        for (const auto &[key, value] : schema.items())
            if (key != alone && key != "type" && key != "$defs" && !isDescribing(key))
                refuse(part.place, std::string(alone) + " together with \"" + key + "\" is not supported");
        const bool isValue = std::string_view(alone) == "const" || std::string_view(alone) == "enum";
        if (schema.contains("type") && !isValue)
            refuse(part.place, std::string(alone) + " together with \"type\" is not supported");
        return;
    }
}

std::pair<const Json *, std::string> SchemaCompiler::target(const Json &ref, const std::string &place)
{
    if (!ref.is_string() || !ref.get_ref<const std::string &>().starts_with('#'))
        refuse(place, "$ref: found " + schemaText(ref).substr(0, 100) + ", wanted a place in the schema, \"#/...\"");
    const std::string text = ref.get<std::string>();
    try {
        return {&m_root.at(Json::json_pointer(text.substr(1))), text};
    } catch (const Json::exception &) {
        refuse(place, "$ref: found \"" + text.substr(0, 100) + "\", but the schema has no such place");
    }
}

const Json &SchemaCompiler::resolved(const Json &schema, const std::string &place)
{
    const Json *meant = &schema;
    for (int i = 0; i < mostSchemaDepth && meant->is_object() && meant->contains("$ref"); ++i)
        meant = target((*meant)["$ref"], place).first;
    return *meant;
}

void SchemaCompiler::addLiteral(const Part &part, const Json &value)
{
    if (const Json *type = part.find("type"); type && !hasType(value, *type))
        refuse(part.place, "const: found " + schemaText(value).substr(0, 64) + ", which is not of its type");
    m_grammar.addEmpty(m_grammar.literal(part.rule.start, schemaText(value)), part.rule.end);
}

void SchemaCompiler::addEnum(const Part &part)
{
    const Json &values = *part.find("enum");
    if (!values.is_array() || values.empty())
        refuse(part.place, "enum: wanted a list of at least one value");
    const Json *type = part.find("type");
    bool any = false;
    for (const Json &value : values) {
        if (type && !hasType(value, *type))
            continue;
        m_grammar.addEmpty(m_grammar.literal(part.rule.start, schemaText(value)), part.rule.end);
        any = true;
    }
    if (!any)
        refuse(part.place, "enum: found no value that is of its type");
}

void SchemaCompiler::addAlternatives(const Part &part, const std::string &key)
{
    const Json &list = *part.find(key.c_str());
    if (!list.is_array() || list.empty())
        refuse(part.place, key + ": wanted a list of at least one schema");
    if (key == "allOf" && list.size() > 1)
        refuse(part.place, "allOf: found " + std::to_string(list.size()) + " schemas, one alone is supported");
    Tags tags = part.tags;
    if (key == "oneOf" && list.size() > 1)
        if (const std::string tag = tagOf(part, list); !tag.empty() && !holds(tags, tag))
            tags.push_back(tag);
    for (std::size_t i = 0; i < list.size(); ++i)
        m_grammar.addCall(part.rule.start, ruleOf(list[i], part.place + '/' + key + '/' + std::to_string(i), tags),
                          part.rule.end);
}

/// The types a schema allows, else those that its other keywords speak of, else all.
void SchemaCompiler::addTypes(const Part &part)
{
    const auto hasAny = [&part](std::initializer_list<const char *> keys) {
        return std::any_of(keys.begin(), keys.end(), [&](const char *key) { return part.has(key); });
    };
    if (const Json *type = part.find("type")) {
        for (const Json &one : type->is_array() ? *type : Json::array({*type})) {
            if (!one.is_string())
                refuse(part.place, "type: found " + schemaText(one).substr(0, 64) + ", wanted the name of a type");
            addType(part, one.get<std::string>());
        }
    } else if (hasAny({"properties", "required", "additionalProperties", "patternProperties", "propertyNames",
                       "minProperties", "maxProperties"})) {
        addObject(part);
    } else if (hasAny({"items", "prefixItems", "minItems", "maxItems", "uniqueItems"})) {
        addArray(part);
    } else if (hasAny({"minLength", "maxLength", "format", "pattern"})) {
        addString(part);
    } else if (hasAny({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})) {
        addNumber(part);
    } else {
        m_grammar.addCall(part.rule.start, m_values.value(), part.rule.end);
    }
}

void SchemaCompiler::addWords(const Part &part, std::initializer_list<const char *> words)
{
    for (const char *word : words)
        m_grammar.addEmpty(m_grammar.literal(part.rule.start, word), part.rule.end);
}

void SchemaCompiler::addType(const Part &part, const std::string &type)
{
    if (type == "object")
        addObject(part);
    else if (type == "array")
        addArray(part);
    else if (type == "string")
        addString(part);
    else if (type == "integer")
        addInteger(part);
    else if (type == "number")
        addNumber(part);
    else if (type == "null")
        addWords(part, {"null"});
    else if (type == "boolean")
        addWords(part, {"true", "false"});
    else
        refuse(part.place,
               "type: found \"" + type.substr(0, 64)
                   + "\", wanted object, array, string, integer, number, boolean or null");
}

SchemaCompiler::Counts SchemaCompiler::counts(const Part &part, const char *least, const char *most)
{
    const auto read = [&](const char *key) -> std::optional<std::int64_t> {
        const Json *value = part.find(key);
        if (!value)
            return std::nullopt;
        if (!value->is_number_integer() || *value < 0 || *value > maxCount)
            refuse(part.place,
                   std::string(key) + ": found " + schemaText(*value).substr(0, 32)
                       + ", wanted a whole number from 0 to " + std::to_string(maxCount));
        return value->get<std::int64_t>();
    };
    const std::int64_t low = read(least).value_or(0);
    const auto high = read(most);
    if (high && *high < low)
        refuse(part.place,
               std::string(most) + ": found " + std::to_string(*high) + ", which is below " + std::to_string(low) + " ("
                   + least + ")");
    return {low, high};
}

// Numbers.

namespace {

struct Bounds {
    std::optional<NumberBound> low;
    std::optional<NumberBound> high;
};

/// The narrower of two bounds; `sign` is -1 for upper ones.
void narrow(std::optional<NumberBound> &bound, NumberBound other, double sign)
{
    const bool same = bound && bound->value == other.value;
    if (!bound || other.value * sign > bound->value * sign)
        bound = other;
    else if (same)
        bound->exclusive = bound->exclusive || other.exclusive;
}

} // namespace

/// A bound that no number here reaches is none.
static Bounds boundsOf(const Json &schema, const std::string &place)
{
    Bounds bounds;
    for (const char *key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}) {
        const auto value = schema.find(key);
        if (value == schema.end())
            continue;
        const std::string_view name = key;
        const double sign = name.ends_with("inimum") ? 1 : -1;
        const double number = value->is_number() ? value->get<double>() : std::numeric_limits<double>::quiet_NaN();
        const auto farthest = static_cast<double>(mostInteger);
        if (number * sign <= -farthest)
            continue;
        if (!(number * sign < farthest))
            throw Error(ErrorCode::Refused,
                        "schema at " + place.substr(0, 200) + ": " + key + ": found " + schemaText(*value).substr(0, 32)
                            + ", wanted a number within " + std::to_string(mostInteger) + " from 0");
        narrow(sign > 0 ? bounds.low : bounds.high, {number, name.starts_with("exclusive")}, sign);
    }
    return bounds;
}

void SchemaCompiler::addInteger(const Part &part)
{
    Bounds bounds = boundsOf(*part.schema, part.place);
    if (const Json *format = part.find("format"); format && *format == Json("int32")) {
        narrow(bounds.low, {static_cast<double>(std::numeric_limits<std::int32_t>::min()), false}, 1);
        narrow(bounds.high, {static_cast<double>(std::numeric_limits<std::int32_t>::max()), false}, -1);
    }
    const Json *factor = part.find("multipleOf");
    if (!bounds.low && !bounds.high && !factor) {
        m_grammar.addCall(part.rule.start, m_values.integer(), part.rule.end);
        return;
    }
    std::int64_t low = -mostInteger;
    std::int64_t high = mostInteger;
    if (bounds.low) {
        low = static_cast<std::int64_t>(std::ceil(bounds.low->value));
        low += bounds.low->exclusive && static_cast<double>(low) == bounds.low->value ? 1 : 0;
    }
    if (bounds.high) {
        high = static_cast<std::int64_t>(std::floor(bounds.high->value));
        high -= bounds.high->exclusive && static_cast<double>(high) == bounds.high->value ? 1 : 0;
    }
    if (low > high)
        refuse(part.place, "minimum and maximum: found no whole number between them");
    if (!factor) {
        addIntegers(m_grammar, part.rule.start, low, high, part.rule.end);
        return;
    }
    const double step = factor->is_number() ? factor->get<double>() : 0;
    if (!(step >= 1) || step > static_cast<double>(mostFactor) || std::floor(step) != step)
        refuse(part.place,
               "multipleOf: found " + schemaText(*factor).substr(0, 32) + ", supported are whole numbers from 1 to "
                   + std::to_string(mostFactor));
    if (!addMultiples(m_grammar, part.rule.start, low, high, static_cast<std::int64_t>(step), part.rule.end))
        refuse(part.place, "multipleOf: found no multiple between minimum and maximum");
}

void SchemaCompiler::addNumber(const Part &part)
{
    if (part.has("multipleOf")) { // of a whole number, so that it is one
        addInteger(part);
        return;
    }
    const Bounds bounds = boundsOf(*part.schema, part.place);
    if (!bounds.low && !bounds.high)
        m_grammar.addCall(part.rule.start, m_values.number(), part.rule.end);
    else if (!addDecimals(m_grammar, part.rule.start, bounds.low, bounds.high, part.rule.end))
        refuse(part.place, "minimum and maximum: found no number between them");
}

// Strings.

const TextLanguage &SchemaCompiler::patternOf(const Json &pattern)
{
    if (!pattern.is_string())
        throw Error(ErrorCode::Refused, "pattern: found a value of type " + std::string(pattern.type_name()));
    const std::string text = pattern.get<std::string>();
    try {
        const auto known = m_patterns.find(text);
        return known != m_patterns.end() ? known->second
                                         : m_patterns.emplace(text, patternLanguage(text, m_budget)).first->second;
    } catch (const Error &error) {
        throw Error(ErrorCode::Refused, "pattern: found " + utf8::quoted(text) + ": " + error.what());
    }
}

const TextLanguage &SchemaCompiler::formatOf(const Json &format)
{
    const std::string name = format.is_string() ? format.get<std::string>() : schemaText(format);
    if (const auto known = m_formats.find(name); known != m_formats.end())
        return known->second;
    auto language = formatLanguage(name, m_budget);
    if (!language)
        throw Error(
            ErrorCode::Refused,
            "format: found \"" + name.substr(0, 64)
                + "\", supported are date, time, date-time, duration, uuid, email, hostname, ipv4, ipv6 and uri");
    return m_formats.emplace(name, std::move(*language)).first->second;
}

namespace {

/// As long as asked for, where the language is not so anyway.
TextLanguage cut(TextLanguage language, std::int64_t least, std::optional<std::int64_t> most, TextBudget &budget)
{
    if (language.empty())
        return language;
    const auto longest = language.longest();
    const bool isLong = language.shortest() >= least;
    const bool isShort = !most || (longest && *longest <= *most);
    if (isLong && isShort)
        return language;
    return language.intersected(TextLanguage::ofLength(isLong ? 0 : least, isShort ? std::nullopt : most), budget);
}

} // namespace

std::optional<TextLanguage> SchemaCompiler::languageOf(const Part &part)
{
    const auto [least, most] = counts(part, "minLength", "maxLength");
    const Json *pattern = part.find("pattern");
    const Json *format = part.find("format");
    if (format && format->is_string() && isFreeFormat(format->get_ref<const std::string &>()))
        format = nullptr;
    if (!pattern && !format)
        return std::nullopt;
    try {
        TextLanguage language = format ? formatOf(*format) : patternOf(*pattern);
        if (format && pattern)
            language = language.intersected(patternOf(*pattern), m_budget);
        language = cut(std::move(language), least, most, m_budget);
        if (language.empty())
            throw Error(ErrorCode::Refused, "pattern, format and lengths: found no string that fits");
        return language;
    } catch (const Error &error) {
        refuse(part.place, error.what());
    }
}

void SchemaCompiler::addString(const Part &part)
{
    const Counts limits = counts(part, "minLength", "maxLength");
    if (const auto language = languageOf(part))
        m_texts.add(part.rule.start, *language, part.rule.end);
    else if (limits.first == 0 && !limits.second)
        m_grammar.addCall(part.rule.start, m_values.string(), part.rule.end);
    else
        addCounted(part, limits);
}

void SchemaCompiler::addCounted(const Part &part, const Counts &limits)
{
    const auto [low, high] = limits;
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

Grammar jsonSchemaGrammar(std::string_view schema)
{
    const Json root = parseJson(schema, "schema", mostSchemaDepth);
    return SchemaCompiler(root).compile();
}

} // namespace engine
