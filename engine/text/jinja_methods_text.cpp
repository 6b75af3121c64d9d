// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_text_tools.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <limits>

namespace engine::jinja {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

template<std::string (*map)(std::string_view)>
Value mapText(Interpreter &owner, const Value &self, Arguments &arguments)
{
    requireNoArguments("a method of str", arguments);
    return mapped(owner, self, map);
}

template<Ends ends> Value strip(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("strip", arguments, {"chars"});
    return stripped(owner, self, bound[0], static_cast<int>(ends));
}

/// The part of a text that optional start and end arguments select.
struct Window {
    std::string_view text;
    std::int64_t first = 0; ///< characters before it
    bool outside = false;   ///< the start lies behind the end of the text
};

Window window(Interpreter &owner, const Value &self, const Bound &bound, std::size_t startIndex)
{
    if (!bound.isSet(startIndex) && !bound.isSet(startIndex + 1))
        return {self.text(), 0, false};
    const std::int64_t length = codePoints(owner.heap(), self);
    const auto clamp = [length](std::int64_t index) {
        return index < 0 ? std::max<std::int64_t>(0, index < -length ? 0 : index + length) : std::min(index, length);
    };
    const std::int64_t wanted = bound.isSet(startIndex) ? bound.integer(startIndex, 0) : 0;
    const std::int64_t start = clamp(wanted);
    const std::int64_t end = bound.isSet(startIndex + 1) ? clamp(bound.integer(startIndex + 1, 0)) : length;
    owner.budget().steps(self.text().size() / 4);
    if (wanted > length || end < start)
        return {{}, start, true};
    const std::size_t from = byteOffset(self.text(), start);
    return {std::string_view(self.text()).substr(from, byteOffset(self.text(), end) - from), start, false};
}

// Longer needles are searched for in reversed copies: searching backwards in place may compare each of them everywhere.
constexpr std::size_t kShortNeedle = 16;

std::size_t searchLast(Budget &budget, std::string_view text, std::string_view needle)
{
    if (needle.size() <= kShortNeedle) {
        const std::size_t found = text.rfind(needle);
        budget.steps(1 + (text.size() - (found == std::string_view::npos ? 0 : found)) / 4);
        return found;
    }
    budget.steps((text.size() + needle.size()) / 4);
    budget.take(text.size() + needle.size());
    const std::string textBack(text.rbegin(), text.rend());
    const std::string needleBack(needle.rbegin(), needle.rend());
    budget.giveBack(text.size() + needle.size());
    const std::size_t found = findText(textBack, needleBack);
    return found == std::string::npos ? found : text.size() - found - needle.size();
}

std::optional<std::int64_t> place(Interpreter &owner, const Value &self, const Arguments &arguments, bool last)
{
    const Bound bound("find", arguments, {"sub", "start", "end"}, 1);
    const Window part = window(owner, self, bound, 1);
    if (part.outside)
        return std::nullopt;
    const std::string &needle = bound.text(0);
    const std::size_t found =
        last ? searchLast(owner.budget(), part.text, needle) : search(owner.budget(), part.text, needle, 0);
    if (found == std::string_view::npos)
        return std::nullopt;
    owner.budget().steps(found / 16);
    return part.first + countChars(part.text.substr(0, found));
}

template<bool last> Value find(Interpreter &owner, const Value &self, Arguments &arguments)
{
    return Value::integer(place(owner, self, arguments, last).value_or(-1));
}

template<bool last> Value index(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const auto found = place(owner, self, arguments, last);
    if (!found)
        fail("substring not found");
    return Value::integer(*found);
}

Value count(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("count", arguments, {"sub", "start", "end"}, 1);
    const Window part = window(owner, self, bound, 1);
    const std::string &needle = bound.text(0);
    if (needle.empty())
        return Value::integer(part.outside ? 0 : countChars(part.text) + 1);
    std::int64_t out = 0;
    for (std::size_t at = 0; (at = search(owner.budget(), part.text, needle, at)) != std::string_view::npos;
         at += needle.size())
        ++out;
    return Value::integer(out);
}

template<bool atEnd> Value hasAffix(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const char *name = atEnd ? "endswith" : "startswith";
    const Bound bound(name, arguments, {"prefix", "start", "end"}, 1);
    const Window part = window(owner, self, bound, 1);
    const auto matches = [&](const Value &affix) {
        requireDefined(affix);
        if (!affix.isString())
            fail(std::string(name) + " first arg must be str or a tuple of str, not " + typeName(affix));
        owner.budget().steps(1 + affix.text().size() / 16);
        return !part.outside && (atEnd ? part.text.ends_with(affix.text()) : part.text.starts_with(affix.text()));
    };
    if (!bound[0].is(Kind::Tuple))
        return Value::boolean(matches(bound[0]));
    const auto &all = bound[0].items();
    return Value::boolean(std::any_of(all.begin(), all.end(), matches));
}

Value makeList(Interpreter &owner, const Value &like, const std::vector<std::string_view> &parts, bool isTuple = false)
{
    std::vector<Value> out;
    out.reserve(parts.size());
    for (const std::string_view part : parts)
        out.push_back(similar(owner, like, part));
    return isTuple ? owner.heap().tuple(std::move(out)) : owner.heap().list(std::move(out));
}

std::vector<std::string_view> splitWords(Budget &budget, std::string_view text, std::int64_t limit, bool fromEnd)
{
    budget.steps(text.size());
    std::vector<std::string_view> out;
    text = stripSpace(text, fromEnd ? Ends::Right : Ends::Left);
    while (!text.empty()) {
        if (limit-- == 0) {
            out.push_back(stripSpace(text, fromEnd ? Ends::Right : Ends::Left));
            break;
        }
        std::size_t at = fromEnd ? text.size() : 0;
        std::size_t end = at;
        while (fromEnd ? at > 0 : at < text.size()) {
            if (isSpace(fromEnd ? previousChar(text, at) : nextChar(text, at)))
                break;
            end = at;
        }
        out.push_back(fromEnd ? text.substr(end) : text.substr(0, end));
        text = stripSpace(fromEnd ? text.substr(0, end) : text.substr(end), fromEnd ? Ends::Right : Ends::Left);
    }
    if (fromEnd)
        std::reverse(out.begin(), out.end());
    return out;
}

std::vector<std::string_view> splitAt(Budget &budget, std::string_view text, std::string_view separator,
                                      std::int64_t limit, bool fromEnd)
{
    std::vector<std::string_view> out;
    while (limit-- != 0) {
        const std::size_t found = fromEnd ? searchLast(budget, text, separator) : search(budget, text, separator, 0);
        if (found == std::string_view::npos)
            break;
        out.push_back(fromEnd ? text.substr(found + separator.size()) : text.substr(0, found));
        text = fromEnd ? text.substr(0, found) : text.substr(found + separator.size());
    }
    out.push_back(text);
    if (fromEnd)
        std::reverse(out.begin(), out.end());
    return out;
}

template<bool fromEnd> Value split(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("split", arguments, {"sep", "maxsplit"});
    const std::int64_t wanted = bound.count(1, -1);
    const std::int64_t limit = wanted < 0 ? kNoLimit : wanted;
    if (!bound.isSet(0))
        return makeList(owner, self, splitWords(owner.budget(), self.text(), limit, fromEnd));
    if (bound.text(0).empty())
        fail("empty separator");
    return makeList(owner, self, splitAt(owner.budget(), self.text(), bound.text(0), limit, fromEnd));
}

Value splitLines(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("splitlines", arguments, {"keepends"});
    return makeList(owner, self, lines(owner.budget(), self.text(), bound.count(0, 0) != 0));
}

template<bool last> Value partition(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("partition", arguments, {"sep"}, 1);
    const std::string_view text = self.text();
    const std::string_view separator = bound.text(0);
    if (separator.empty())
        fail("empty separator");
    const std::size_t found =
        last ? searchLast(owner.budget(), text, separator) : search(owner.budget(), text, separator, 0);
    if (found == std::string_view::npos)
        return makeList(
            owner, self,
            last ? std::vector<std::string_view>{"", "", text} : std::vector<std::string_view>{text, "", ""}, true);
    return makeList(owner, self, {text.substr(0, found), separator, text.substr(found + separator.size())}, true);
}

Value replaceMethod(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("replace", arguments, {"old", "new", "count"}, 2);
    return replaced(owner, self, bound.text(0), bound.text(1), bound.count(2, -1));
}

Value joinMethod(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("join", arguments, {"iterable"}, 1);
    requireDefined(bound[0]);
    const Items items(owner.heap(), bound[0]);
    Text out(owner.budget());
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Value item = items.at(i);
        if (!item.isString())
            fail("sequence item " + std::to_string(i) + ": expected str instance, " + typeName(item) + " found");
        if (i != 0)
            out.append(self.text());
        out.append(item.text());
    }
    return owner.heap().string(out.release(), self.as<StringObject>().safe);
}

Value removePrefix(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("removeprefix", arguments, {"prefix"}, 1);
    std::string_view text = self.text();
    if (text.starts_with(bound.text(0)))
        text.remove_prefix(bound.text(0).size());
    return similar(owner, self, text);
}

Value removeSuffix(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("removesuffix", arguments, {"suffix"}, 1);
    std::string_view text = self.text();
    if (text.ends_with(bound.text(0)))
        text.remove_suffix(bound.text(0).size());
    return similar(owner, self, text);
}

std::string fillOf(const Bound &bound)
{
    if (!bound.has(1))
        return " ";
    if (countChars(bound.text(1)) != 1)
        fail("the fill character must be exactly one character long");
    return bound.text(1);
}

Value centerMethod(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("center", arguments, {"width", "fillchar"}, 1);
    return centered(owner, self, bound.integer(0, 0), fillOf(bound));
}

template<char align> Value justify(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("ljust or rjust", arguments, {"width", "fillchar"}, 1);
    FieldStyle style;
    style.width = bound.integer(0, 0);
    style.fill = fillOf(bound);
    Text out(owner.budget());
    appendField(out, self.text(), style, align);
    return owner.heap().string(out.release(), self.as<StringObject>().safe);
}

Value zeroFill(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("zfill", arguments, {"width"}, 1);
    std::string_view text = self.text();
    const std::int64_t missing = bound.integer(0, 0) - codePoints(owner.heap(), self);
    Text out(owner.budget());
    if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
        out.append(text[0]);
        text.remove_prefix(1);
    }
    out.repeat("0", static_cast<std::size_t>(std::max<std::int64_t>(0, missing)));
    out.append(text);
    return owner.heap().string(out.release(), self.as<StringObject>().safe);
}

Value expandTabs(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("expandtabs", arguments, {"tabsize"});
    const std::int64_t size = bound.integer(0, 8);
    const std::string_view text = self.text();
    Text out(owner.budget());
    std::int64_t column = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t start = at;
        const char32_t c = nextChar(text, at);
        if (c != '\t') {
            out.append(text.substr(start, at - start));
            column = c == '\n' || c == '\r' ? 0 : column + 1;
        } else if (size > 0) {
            const std::int64_t spaces = size - column % size;
            out.repeat(" ", static_cast<std::size_t>(spaces));
            column = 0;
        }
    }
    return owner.heap().string(out.release(), self.as<StringObject>().safe);
}

Value formatMethod(Interpreter &owner, const Value &self, Arguments &arguments)
{
    return formatBraces(owner, self, arguments);
}

Value formatMap(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("format_map", arguments, {"mapping"}, 1);
    if (!bound[0].is(Kind::Dict))
        fail("format_map() needs a mapping");
    Arguments members;
    for (const auto &[key, value] : bound[0].as<DictObject>().entries()) {
        owner.budget().steps(1);
        if (key.isString())
            members.named.emplace_back(key.text(), value);
    }
    return formatBraces(owner, self, members);
}

Value encode(Interpreter &owner, const Value &self, Arguments &arguments)
{
    const Bound bound("encode", arguments, {"encoding", "errors"});
    if (bound.has(0) && toLower(bound.text(0)) != "utf-8" && toLower(bound.text(0)) != "utf8")
        fail("encode(): the encoding " + reprText(bound.text(0)) + " is not supported, only utf-8 is");
    Text out(owner.budget());
    out.append(self.text());
    return owner.heap().bytes(out.release());
}

} // namespace

std::span<const Method> textMethods()
{
    static constexpr Method all[] = {
        {"upper", mapText<toUpper>},
        {"lower", mapText<toLower>},
        {"title", mapText<toTitle>},
        {"capitalize", mapText<toCapitalized>},
        {"swapcase", mapText<swapCase>},
        {"casefold", mapText<caseFold>},
        {"strip", strip<Ends::Both>},
        {"lstrip", strip<Ends::Left>},
        {"rstrip", strip<Ends::Right>},
        {"find", find<false>},
        {"rfind", find<true>},
        {"index", index<false>},
        {"rindex", index<true>},
        {"count", count},
        {"startswith", hasAffix<false>},
        {"endswith", hasAffix<true>},
        {"split", split<false>},
        {"rsplit", split<true>},
        {"splitlines", splitLines},
        {"partition", partition<false>},
        {"rpartition", partition<true>},
        {"replace", replaceMethod},
        {"join", joinMethod},
        {"removeprefix", removePrefix},
        {"removesuffix", removeSuffix},
        {"center", centerMethod},
        {"ljust", justify<'<'>},
        {"rjust", justify<'>'>},
        {"zfill", zeroFill},
        {"expandtabs", expandTabs},
        {"format", formatMethod},
        {"format_map", formatMap},
        {"encode", encode},
    };
    return all;
}

} // namespace engine::jinja
