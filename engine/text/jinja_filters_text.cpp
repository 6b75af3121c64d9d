// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_parser.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_text_tools.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

template<std::string (*map)(std::string_view)>
Value mapFilter(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("the filter", arguments);
    return mapped(owner, asText(owner, input), map);
}

/// Words begin after white space, -, (, {, [ and <; unlike str.title() the filter leaves digits and quotes inside.
Value title(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("title", arguments);
    const Value text = asText(owner, input);
    return mapped(owner, text, [](std::string_view source) {
        std::string out;
        const auto isBreak = [](char32_t c) {
            return isSpace(c)
                || (c < 0x80 && std::string_view("-({[<").find(static_cast<char>(c)) != std::string_view::npos);
        };
        for (std::size_t at = 0; at < source.size();) {
            const std::size_t start = at;
            std::size_t end = at;
            const bool breaks = isBreak(nextChar(source, at));
            for (end = at; at < source.size() && isBreak(nextChar(source, at)) == breaks; end = at) {
            }
            at = end;
            if (breaks) {
                out += source.substr(start, end - start);
                continue;
            }
            std::size_t second = start;
            static_cast<void>(nextChar(source, second));
            out += toUpper(source.substr(start, second - start));
            out += toLower(source.substr(second, end - second));
        }
        return out;
    });
}

Value trim(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("trim", arguments, {"chars"});
    return stripped(owner, asText(owner, input), bound[0], static_cast<int>(Ends::Both));
}

Value replace(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
    const Value text = owner.heap().string(textOf(owner.heap(), input));
    const std::int64_t count = bound.isSet(2) ? bound.count(2, -1) : -1;
    return replaced(owner, text, textOf(owner.heap(), bound[0]), textOf(owner.heap(), bound[1]), count);
}

Value string(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("string", arguments);
    return asText(owner, input);
}

Value escape(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("escape", arguments);
    return escapeHtml(owner.heap(), input);
}

Value forceEscape(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("forceescape", arguments);
    return escapeHtml(owner.heap(), owner.heap().string(textOf(owner.heap(), input)));
}

Value safe(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("safe", arguments);
    return owner.heap().string(textOf(owner.heap(), input), true);
}

Value format(Interpreter &owner, const Value &input, Arguments &arguments)
{
    if (!arguments.positional.empty() && !arguments.named.empty())
        fail("format: can't handle positional and keyword arguments at the same time");
    const Value text = asText(owner, input);
    if (arguments.named.empty())
        return formatPercent(owner.heap(), text, owner.heap().tuple(std::move(arguments.positional)));
    const Ref<DictObject> members = owner.heap().make<DictObject>(0);
    for (auto &[name, value] : arguments.named)
        members->insert(owner.heap().string(name), value);
    return formatPercent(owner.heap(), text, Value(members.get()));
}

Value wordCount(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("wordcount", arguments);
    const Value text = asText(owner, input);
    owner.budget().steps(text.text().size());
    std::int64_t out = 0;
    bool inWord = false;
    for (std::size_t at = 0; at < text.text().size();) {
        const bool isWordChar = isWord(nextChar(text.text(), at));
        out += isWordChar && !inWord ? 1 : 0;
        inWord = isWordChar;
    }
    return Value::integer(out);
}

/// Takes out comments and tags, reads entities, and leaves single spaces.
Value stripTags(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("striptags", arguments);
    const std::string text = textOf(owner.heap(), input);
    owner.budget().steps(text.size());
    std::string plain;
    for (std::size_t at = 0; at < text.size();) {
        const bool isComment = text.compare(at, 4, "<!--") == 0;
        const std::size_t end =
            isComment ? text.find("-->", at) : (text[at] == '<' ? text.find('>', at) : std::string::npos);
        owner.budget().steps(text[at] == '<' && end == std::string::npos ? (text.size() - at) / 16 : 0);
        if (end == std::string::npos)
            plain += text[at++];
        else
            at = end + (isComment ? 3 : 1);
    }
    static constexpr std::pair<std::string_view, char> entities[] = {{"&amp;", '&'},  {"&lt;", '<'},  {"&gt;", '>'},
                                                                     {"&quot;", '"'}, {"&#34;", '"'}, {"&#39;", '\''}};
    Text out(owner.budget());
    bool space = false;
    for (std::size_t at = 0; at < plain.size();) {
        const std::size_t start = at;
        const char32_t c = nextChar(plain, at);
        if (isSpace(c)) {
            space = true;
            continue;
        }
        if (std::exchange(space, false) && out.size() != 0)
            out.append(' ');
        const auto *entity = std::find_if(std::begin(entities), std::end(entities), [&](const auto &known) {
            return std::string_view(plain).substr(start).starts_with(known.first);
        });
        if (entity == std::end(entities)) {
            out.append(std::string_view(plain).substr(start, at - start));
        } else {
            out.append(entity->second);
            at = start + entity->first.size();
        }
    }
    return owner.heap().string(out.release());
}

void appendQuotedUrl(Text &out, std::string_view text, bool inQuery)
{
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
            || std::string_view("_.-~").find(c) != std::string_view::npos || (c == '/' && !inQuery);
        if (plain) {
            out.append(c);
        } else if (c == ' ' && inQuery) {
            out.append('+');
        } else {
            out.append('%');
            out.append("0123456789ABCDEF"[byte >> 4U]);
            out.append("0123456789ABCDEF"[byte & 0xFU]);
        }
    }
}

Value urlEncode(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("urlencode", arguments);
    Text out(owner.budget());
    if (input.isString() || !isIterable(input)) {
        appendQuotedUrl(out, textOf(owner.heap(), input), false);
        return owner.heap().string(out.release());
    }
    Value pairs = input;
    if (input.is(Kind::Dict))
        pairs = Value(owner.heap().make<DictViewObject>(0, input, DictViewObject::Part::Items).get());
    const Items items(owner.heap(), pairs);
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Items pair(owner.heap(), items.at(i));
        if (pair.size() != 2)
            fail("urlencode: element " + std::to_string(i) + " is not a pair of key and value");
        if (i != 0)
            out.append('&');
        appendQuotedUrl(out, textOf(owner.heap(), pair.at(0)), true);
        out.append('=');
        appendQuotedUrl(out, textOf(owner.heap(), pair.at(1)), true);
    }
    return owner.heap().string(out.release());
}

Value xmlAttributes(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("xmlattr", arguments, {"autospace"});
    requireDefined(input);
    if (!input.is(Kind::Dict))
        fail(std::string("xmlattr: '") + typeName(input) + "' object has no attribute 'items'");
    Text out(owner.budget());
    for (const auto &[key, value] : input.as<DictObject>().entries()) {
        if (value.isNone() || value.isUndefined())
            continue;
        if (!key.isString())
            fail(std::string("xmlattr: a name must be text, not ") + typeName(key));
        const std::string &name = key.text();
        if (name.find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
            fail("invalid character in attribute name: " + reprText(name));
        if (out.size() != 0 || bound.boolean(owner.heap(), 0, true))
            out.append(' ');
        appendHtml(out, name);
        out.append("=\"");
        out.append(escapeHtml(owner.heap(), value).text());
        out.append('"');
    }
    return owner.heap().string(out.release());
}

std::string indentOf(Interpreter &owner, const Value &indent)
{
    if (indent.isString())
        return indent.text();
    Text out(owner.budget());
    out.repeat(" ", sizeArgument(owner.heap(), indent, "indent of tojson"));
    return out.release();
}

/// tojson of chat templates: json.dumps with its keyword arguments, and no escaping for HTML.
Value toJson(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ensureAscii = bound.boolean(owner.heap(), 0, false);
    style.sortKeys = bound.boolean(owner.heap(), 3, false);
    if (bound.isSet(1)) {
        style.multiLine = true;
        style.indent = indentOf(owner, bound[1]);
        style.itemSeparator = ",";
    }
    if (bound.isSet(2)) {
        const Items pair(owner.heap(), bound[2]);
        if (pair.size() != 2 || !pair.at(0).isString() || !pair.at(1).isString())
            fail("tojson: separators must be two texts");
        style.itemSeparator = pair.at(0).text();
        style.keySeparator = pair.at(1).text();
    }
    Text out(owner.budget());
    appendJson(out, owner.heap(), input, style);
    return owner.heap().string(out.release());
}

} // namespace

std::span<const Filter> textFilters()
{
    static constexpr Filter all[] = {
        {"upper", mapFilter<toUpper>},
        {"lower", mapFilter<toLower>},
        {"capitalize", mapFilter<toCapitalized>},
        {"title", title},
        {"trim", trim},
        {"replace", replace},
        {"string", string},
        {"e", escape},
        {"escape", escape},
        {"forceescape", forceEscape},
        {"safe", safe},
        {"format", format},
        {"wordcount", wordCount},
        {"striptags", stripTags},
        {"urlencode", urlEncode},
        {"xmlattr", xmlAttributes},
        {"tojson", toJson},
    };
    return all;
}

namespace {

const Filter *findFilter(std::string_view name)
{
    for (const auto &table : {textFilters(), layoutFilters(), sequenceFilters(), selectionFilters(), numberFilters()}) {
        for (const Filter &filter : table) {
            if (filter.name == name)
                return &filter;
        }
    }
    return nullptr;
}

} // namespace

bool hasFilter(std::string_view name)
{
    return findFilter(name) != nullptr;
}

Value Interpreter::filter(std::string_view name, const Value &input, Arguments &arguments)
{
    const Filter *found = findFilter(name);
    if (found == nullptr)
        fail("no filter named " + reprText(name.substr(0, 60)) + ": it is unknown");
    budget().steps(8);
    return found->function(*this, input, arguments);
}

} // namespace engine::jinja
