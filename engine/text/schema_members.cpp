// SPDX-License-Identifier: GPL-3.0-or-later
// Lists and objects of a schema.
#include "engine/text/schema_compiler.h"

#include <algorithm>
#include <functional>
#include <limits>

namespace engine {

/// Things between brackets with commas between them, counted as far as it matters. One state stands for each count;
/// no state is kept from which the least count cannot be reached, or what must come would be too much.
class SchemaCompiler::Tracks {
public:
    using Write = std::function<int(int from)>; ///< returns the state after

    /// What is still to come.
    struct Ahead {
        std::int64_t offered = 0; ///< things that may come
        std::int64_t needed = 0;  ///< of those, the ones that must
    };
    static constexpr std::int64_t endless = std::numeric_limits<std::int32_t>::max();

    Tracks(Grammar &grammar, JsonValues &values, Counts limits, int open)
        : m_grammar(grammar)
        , m_values(values)
        , m_limits(std::move(limits))
        , m_open(open)
        , m_at(static_cast<std::size_t>(m_limits.second.value_or(std::max<std::int64_t>(m_limits.first, 1))) + 1, none)
    {
        m_at.front() = m_values.space(open);
    }

    /// One thing that must come or may be left out.
    void offer(const Write &write, bool required, const Ahead &ahead)
    {
        std::vector<int> begins(m_at.size(), none);
        std::vector<int> next(m_at.size(), none);
        for (std::size_t count = 0; count < m_at.size(); ++count) {
            if (m_at[count] == none)
                continue;
            if (!required && fits(count, ahead))
                next[count] = m_at[count];
            const std::size_t after = std::min(count + 1, m_limits.second ? count + 1 : m_at.size() - 1);
            if (after < m_at.size() && fits(after, ahead))
                m_grammar.addEmpty(behindComma(count), stateOf(begins[after]));
        }
        for (std::size_t count = 0; count < m_at.size(); ++count) {
            if (begins[count] == none)
                continue;
            const int after = write(begins[count]);
            if (next[count] != none)
                m_grammar.addEmpty(next[count], after);
            next[count] = after;
        }
        m_at = std::move(next);
    }

    /// Any number of things, each one of `writes`.
    void offerMany(const std::vector<Write> &writes)
    {
        for (std::size_t count = 0; count < m_at.size() && !writes.empty(); ++count) {
            const bool last = count + 1 == m_at.size();
            if (m_at[count] == none || (last && m_limits.second))
                continue;
            const int begin = behindComma(count);
            int &next = m_at[last ? count : count + 1];
            const int after = last ? next : m_grammar.addState();
            for (const Write &write : writes)
                m_grammar.addEmpty(write(begin), after);
            if (!last && next != none)
                m_grammar.addEmpty(next, after);
            next = after;
        }
    }

    /// False when nothing can have come to its end.
    bool close(std::uint8_t bracket, int end)
    {
        bool any = false;
        for (std::size_t count = 0; count < m_at.size(); ++count) {
            if (m_at[count] == none || static_cast<std::int64_t>(count) < m_limits.first)
                continue;
            m_grammar.addEdge(count == 0 ? m_open : m_values.space(m_at[count]), bracket, bracket, end);
            any = true;
        }
        return any;
    }

private:
    static constexpr int none = -1;

    [[nodiscard]] bool fits(std::size_t count, const Ahead &ahead) const
    {
        const auto number = static_cast<std::int64_t>(count);
        return number + ahead.offered >= m_limits.first
            && (!m_limits.second || number + ahead.needed <= *m_limits.second);
    }
    int stateOf(int &state) { return state == none ? state = m_grammar.addState() : state; }
    int behindComma(std::size_t count)
    {
        return count == 0 ? m_at[0] : m_values.space(m_grammar.byte(m_at[count], ',', ','));
    }

    Grammar &m_grammar;
    JsonValues &m_values;
    Counts m_limits;
    int m_open;
    std::vector<int> m_at; ///< by count; the last one stands for more too where there is no limit
};

namespace {

/// "enum" or "const" of strings, as a list; null when it is neither.
Json listed(const Json &schema)
{
    if (schema.is_object() && schema.contains("const"))
        return Json::array({schema["const"]});
    if (schema.is_object() && schema.contains("enum") && schema["enum"].is_array())
        return schema["enum"];
    return {};
}

} // namespace

void SchemaCompiler::addArray(const Part &part)
{
    auto [low, high] = counts(part, "minItems", "maxItems");
    const Json *items = part.find("items");
    const Json *first = part.find("prefixItems");
    const char *firstKey = "prefixItems";
    const char *restKey = "items";
    if (!first && items && items->is_array()) { // as older drafts say it
        first = items;
        firstKey = "items";
        restKey = "additionalItems";
        items = part.find(restKey);
    }
    if (first && !first->is_array())
        refuse(part.place, std::string(firstKey) + ": wanted a list of schemas");
    const auto given = static_cast<std::int64_t>(first ? first->size() : 0);
    const bool closed = items && *items == Json(false);
    if (closed)
        high = std::min(high.value_or(given), given);
    if (high && low > *high)
        refuse(part.place, "minItems: found " + std::to_string(low) + ", but there are " + std::to_string(*high));
    if (const Json *unique = part.find("uniqueItems"); unique && *unique == Json(true) && high.value_or(2) > 1) {
        addDistinct(part, {low, high});
        return;
    }
    const int open = m_grammar.byte(part.rule.start, '[', '[');
    if (low == 0)
        m_grammar.addEdge(open, ']', ']', part.rule.end);
    if (high == 0)
        return;
    int before = m_values.space(open);
    int rest = -1;
    for (std::int64_t i = 1;; ++i) {
        if (i > given && rest < 0)
            rest = items ? ruleOf(*items, part.place + '/' + restKey) : m_values.value();
        const int item = i > given ? rest
                                   : ruleOf((*first)[static_cast<std::size_t>(i - 1)],
                                            part.place + '/' + firstKey + '/' + std::to_string(i - 1));
        const int after = m_grammar.call(before, item);
        if (i >= low)
            m_grammar.addEdge(m_values.space(after), ']', ']', part.rule.end);
        if (high && i == *high)
            return;
        const int next = m_values.space(m_grammar.byte(after, ',', ','));
        if (!high && i >= low && i > given) { // the rest needs no counting
            m_grammar.addEmpty(next, before);
            return;
        }
        before = next;
    }
}

/// Lists without equal items can be told where all that an item may be is listed: each value comes once or not at all,
/// in the order of the list.
void SchemaCompiler::addDistinct(const Part &part, const Counts &limits)
{
    const Json *items = part.find("items");
    Json values = items && !part.has("prefixItems") ? listed(resolved(*items, part.place)) : Json();
    if (items && resolved(*items, part.place) == Json{{"type", "boolean"}})
        values = Json::array({false, true});
    if (!values.is_array())
        refuse(part.place, "uniqueItems is supported where items is an enum alone");
    std::vector<std::string> texts;
    for (const Json &value : values)
        if (std::string text = schemaText(value); std::ranges::find(texts, text) == texts.end())
            texts.push_back(std::move(text));
    const auto size = static_cast<std::int64_t>(texts.size());
    if (limits.first > size)
        refuse(part.place,
               "minItems: found " + std::to_string(limits.first) + ", but items has " + std::to_string(size)
                   + " different values");
    Tracks tracks(m_grammar, m_values, {limits.first, std::min(limits.second.value_or(size), size)},
                  m_grammar.byte(part.rule.start, '[', '['));
    for (std::int64_t i = 0; i < size; ++i)
        tracks.offer([&](int from) { return m_grammar.literal(from, texts[static_cast<std::size_t>(i)]); }, false,
                     {size - 1 - i, 0});
    (void)tracks.close(']', part.rule.end);
}

/// Names that propertyNames lists.
std::optional<SchemaCompiler::Tags> SchemaCompiler::listedNames(const Part &part)
{
    const Json *names = part.find("propertyNames");
    const Json list = names ? listed(resolved(*names, part.place + "/propertyNames")) : Json();
    if (!list.is_array())
        return std::nullopt;
    Tags texts;
    for (const Json &name : list)
        if (name.is_string())
            texts.push_back(name.get<std::string>());
    return texts;
}

/// What propertyNames says of names in other ways.
std::optional<TextLanguage> SchemaCompiler::nameLanguage(const Part &part)
{
    const Json *names = part.find("propertyNames");
    if (!names || *names == Json(true))
        return std::nullopt;
    const std::string place = part.place + "/propertyNames";
    const Part inner{&resolved(*names, place), place, {}, {}};
    if (!inner.schema->is_object())
        refuse(place, "wanted an object");
    checkKeywords(inner);
    for (const auto &[key, value] : inner.schema->items())
        if (key.find("Of") != std::string::npos)
            refuse(place, key + " is not supported for names");
    if (auto language = languageOf(inner))
        return language;
    const auto [least, most] = counts(inner, "minLength", "maxLength");
    if (least == 0 && !most)
        return std::nullopt;
    return TextLanguage::ofLength(least, most);
}

std::vector<SchemaCompiler::Others> SchemaCompiler::patternMembers(const Part &part)
{
    std::vector<Others> members;
    const Json *patterns = part.find("patternProperties");
    if (!patterns)
        return members;
    if (!patterns->is_object())
        refuse(part.place, "patternProperties: wanted an object");
    const auto names = nameLanguage(part);
    for (const auto &[pattern, schema] : patterns->items()) {
        const std::string place = part.place + "/patternProperties/" + pattern;
        const Json text{{"pattern", pattern}};
        TextLanguage keys = *languageOf({&text, place, {}, {}});
        for (const Others &other : members)
            if (!other.keys.intersected(keys, m_budget).empty())
                refuse(place, "found a name that another pattern fits too, which is not supported");
        if (names)
            keys = keys.intersected(*names, m_budget);
        members.push_back({std::move(keys), ruleOf(schema, place)});
    }
    return members;
}

int SchemaCompiler::ruleOfOther(const Part &part)
{
    const Json *others = part.find("additionalProperties");
    return others ? ruleOf(*others, part.place + "/additionalProperties") : m_values.value();
}

/// Members in the order of the schema, behind them those that it only requires, or that are all it allows.
std::vector<SchemaCompiler::Member> SchemaCompiler::namedMembers(const Part &part, const std::vector<Others> &patterns)
{
    const Json none = Json::object();
    const Json *given = part.find("properties");
    const Json &properties = given ? *given : none;
    if (!properties.is_object())
        refuse(part.place,
               std::string("properties: found a value of type ") + properties.type_name() + ", wanted an object");
    std::vector<std::string> required = part.tags;
    if (const Json *list = part.find("required")) {
        if (!list->is_array())
            refuse(part.place, "required: wanted a list of names");
        for (const Json &name : *list) {
            if (!name.is_string())
                refuse(part.place, "required: found " + schemaText(name).substr(0, 64) + ", wanted names");
            required.push_back(name.get<std::string>());
        }
    }
    const std::unordered_set<std::string> needed(required.begin(), required.end());
    const auto listedAlone = listedNames(part);
    const auto names = listedAlone ? std::nullopt : nameLanguage(part);
    const auto isAllowed = [&](const std::string &name) {
        return listedAlone ? std::ranges::find(*listedAlone, name) != listedAlone->end()
                           : !names || names->contains(name);
    };
    std::vector<Member> members;
    std::unordered_set<std::string> known;
    const auto add = [&](const std::string &name, int rule) {
        if (known.insert(name).second)
            members.push_back({name, rule, needed.contains(name)});
    };
    for (const auto &[name, schema] : properties.items()) {
        for (const Others &pattern : patterns)
            if (pattern.keys.contains(name))
                refuse(part.place,
                       "patternProperties: found one that fits the property \"" + name.substr(0, 64)
                           + "\" too, which is not supported");
        if (isAllowed(name))
            add(name, ruleOf(schema, part.place + "/properties/" + name));
    }
    if (listedAlone)
        required.insert(required.end(), listedAlone->begin(), listedAlone->end());
    for (const std::string &name : required) {
        if (known.contains(name))
            continue;
        const auto pattern = std::ranges::find_if(patterns, [&](const Others &one) { return one.keys.contains(name); });
        const Json *others = part.find("additionalProperties");
        if (!isAllowed(name) || (pattern == patterns.end() && others && *others == Json(false)))
            refuse(part.place, "required: found \"" + name.substr(0, 64) + "\", which the schema allows nowhere");
        add(name, pattern != patterns.end() ? pattern->rule : ruleOfOther(part));
    }
    return members;
}

/// Keys and values of members beside the named ones, as rules: any number, when the schema says so, or says nothing of
/// members at all.
std::vector<std::pair<int, int>> SchemaCompiler::otherMembers(const Part &part, const std::vector<Member> &named,
                                                              std::vector<Others> patterns)
{
    std::vector<std::pair<int, int>> members;
    if (listedNames(part))
        return members;
    auto keys = nameLanguage(part);
    const Json *properties = part.find("properties");
    const Json *others = part.find("additionalProperties");
    const bool open = others ? *others != Json(false) : (!properties || properties->empty()) && patterns.empty();
    Tags names;
    for (const Member &member : named)
        names.push_back(member.name);
    if (open && !patterns.empty()) {
        TextLanguage free = keys ? *keys : TextLanguage::ofLength(0, std::nullopt);
        for (const Others &pattern : patterns)
            free = free.intersected(pattern.keys.complement(), m_budget);
        keys = std::move(free);
    }
    const auto addKeys = [&](TextLanguage language, int rule) {
        for (const std::string &name : names)
            if (language.contains(name))
                language = language.intersected(TextLanguage::ofText(name, m_budget).complement(), m_budget);
        if (language.empty())
            return;
        const int key = m_grammar.addRule();
        m_texts.add(m_grammar.rule(key).start, language, m_grammar.rule(key).end);
        members.emplace_back(key, rule);
    };
    try {
        for (Others &pattern : patterns)
            addKeys(std::move(pattern.keys), pattern.rule);
        if (open && keys) {
            addKeys(std::move(*keys), ruleOfOther(part));
        } else if (open) {
            const int key = m_grammar.addRule();
            m_grammar.addEmpty(m_values.otherKey(m_grammar.rule(key).start, names), m_grammar.rule(key).end);
            members.emplace_back(key, ruleOfOther(part));
        }
    } catch (const Error &error) {
        refuse(part.place, std::string("the names of members: ") + error.what());
    }
    return members;
}

void SchemaCompiler::addObject(const Part &part)
{
    const std::vector<Others> patterns = patternMembers(part);
    const std::vector<Member> named = namedMembers(part, patterns);
    const auto others = otherMembers(part, named, patterns);
    auto limits = counts(part, "minProperties", "maxProperties");
    const auto needed = std::ranges::count_if(named, &Member::required);
    if (!others.empty() && limits.first > needed + 1)
        refuse(part.place,
               "minProperties: found " + std::to_string(limits.first) + ", supported are at most "
                   + std::to_string(needed + 1) + " where names are not listed, as those may come twice");
    const auto size = static_cast<std::int64_t>(named.size());
    if (others.empty() && limits.first > size)
        refuse(part.place, "minProperties: found more than all properties");
    if (others.empty() && limits.second)
        limits.second = std::min(*limits.second, size);
    Tracks tracks(m_grammar, m_values, limits, m_grammar.byte(part.rule.start, '{', '{'));
    const auto writeValue = [this](int behindKey, int rule) {
        return m_grammar.call(m_values.gap(m_grammar.byte(behindKey, ':', ':')), rule);
    };
    Tracks::Ahead ahead{others.empty() ? size : Tracks::endless, needed};
    for (const Member &member : named) {
        ahead.offered -= 1;
        ahead.needed -= member.required ? 1 : 0;
        tracks.offer(
            [&](int from) { return writeValue(m_grammar.literal(from, schemaText(member.name)), member.rule); },
            member.required, ahead);
    }
    std::vector<Tracks::Write> writes;
    for (const auto &[key, rule] : others)
        writes.emplace_back(
            [&, key = key, rule = rule](int from) { return writeValue(m_grammar.call(from, key), rule); });
    tracks.offerMany(writes);
    if (!tracks.close('}', part.rule.end))
        refuse(part.place, "minProperties and maxProperties: found no object that has all it must");
}

} // namespace engine
