// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_format.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_text_tools.h"
#include "engine/text/jinja_unicode.h"
#include "engine/text/jinja_urlize.h"

#include <algorithm>

namespace engine::jinja {
namespace {

// jinja2's policy truncate.leeway.
constexpr std::int64_t kTruncateLeeway = 5;

Value requireText(Interpreter &, const Value &input, const char *filter)
{
    requireDefined(input);
    if (!input.isString())
        fail(std::string(filter) + " needs text, not " + typeName(input));
    return input;
}

Value center(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("center", arguments, {"width"});
    return centered(owner, asText(owner, input), bound.integer(0, 80), " ");
}

Value indent(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("indent", arguments, {"width", "first", "blank"});
    const Value text = requireText(owner, input, "indent");
    Text indention(owner.budget());
    if (bound.has(0) && bound[0].isString())
        indention.append(bound[0].text());
    else
        indention.repeat(" ", bound.has(0) ? sizeArgument(owner.heap(), bound[0], "width of indent") : 4);
    const bool blank = bound.boolean(owner.heap(), 2, false);
    Text out(owner.budget());
    if (bound.boolean(owner.heap(), 1, false))
        out.append(indention.text());
    // Jinja adds a newline before it splits, so that a newline at the end is kept as an empty line.
    const std::string source = text.text() + "\n";
    const auto all = lines(owner.budget(), source, false);
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (i != 0) {
            out.append('\n');
            if (blank || !all[i].empty())
                out.append(indention.text());
        }
        out.append(all[i]);
    }
    return owner.heap().string(out.release(), text.as<StringObject>().safe);
}

Value truncate(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("truncate", arguments, {"length", "killwords", "end", "leeway"});
    if (input.isUndefined())
        return owner.heap().string("");
    const std::int64_t length = bound.integer(0, 255);
    const std::string end = bound.has(2) ? bound.text(2) : "...";
    const std::int64_t leeway = bound.isSet(3) ? bound.integer(3, 0) : kTruncateLeeway;
    const std::int64_t endLength = countChars(end);
    if (length < endLength)
        fail("truncate: expected length >= " + std::to_string(endLength) + ", got " + std::to_string(length));
    if (leeway < 0)
        fail("truncate: expected leeway >= 0, got " + std::to_string(leeway));
    const std::optional<std::int64_t> size = lengthOf(owner.heap(), input);
    if (size && (*size <= length || *size - length <= leeway))
        return input; // whatever it is
    const Value text = requireText(owner, input, "truncate");
    std::string_view kept = std::string_view(text.text()).substr(0, byteOffset(text.text(), length - endLength));
    if (!bound.boolean(owner.heap(), 1, false))
        kept = kept.substr(0, kept.rfind(' '));
    Text out(owner.budget());
    out.append(kept);
    out.append(end);
    return owner.heap().string(out.release());
}

/// Greedy line filling of one paragraph, as Python's textwrap does it with expand_tabs and replace_whitespace off.
class Wrapper {
public:
    Wrapper(Budget &budget, std::int64_t width, bool breakLong, bool breakHyphens)
        : m_budget(budget)
        , m_width(width)
        , m_breakLong(breakLong)
        , m_breakHyphens(breakHyphens)
    {
    }

    std::vector<std::string> wrap(std::string_view text)
    {
        std::vector<std::string> out;
        std::vector<std::string_view> chunks = split(text);
        std::reverse(chunks.begin(), chunks.end());
        while (!chunks.empty()) {
            m_budget.steps(4);
            if (!out.empty() && isBlank(chunks.back())) {
                chunks.pop_back();
                continue;
            }
            std::string line = fillLine(chunks);
            if (!line.empty())
                out.push_back(std::move(line));
        }
        return out;
    }

private:
    static bool isBlank(std::string_view chunk) { return stripSpace(chunk, Ends::Both).empty(); }

    std::vector<std::string_view> split(std::string_view text)
    {
        m_budget.steps(text.size());
        std::vector<std::string_view> out;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t start = at;
            const bool space = isBreak(text[at]);
            while (at < text.size() && isBreak(text[at]) == space)
                ++at;
            const std::string_view word = text.substr(start, at - start);
            if (space || !m_breakHyphens)
                out.push_back(word);
            else
                splitWord(word, out);
        }
        return out;
    }

    /// Python's textwrap takes these alone for white space.
    static bool isBreak(char c) { return std::string_view("\t\n\v\f\r ").find(c) != std::string_view::npos; }

    /// Breaks a word behind hyphens between letters and around dashes ("--").
    void splitWord(std::string_view word, std::vector<std::string_view> &out)
    {
        std::vector<char32_t> chars;
        std::vector<std::size_t> places;
        for (std::size_t at = 0; at < word.size();) {
            places.push_back(at);
            chars.push_back(nextChar(word, at));
        }
        places.push_back(word.size());
        for (std::size_t begin = 0; begin < chars.size();) {
            std::size_t end = dashesEnd(chars, begin);
            for (std::size_t at = begin + 1; end == 0; ++at) {
                m_budget.steps(1);
                if (at == chars.size() || dashesEnd(chars, at) != 0)
                    end = at;
                else if (breaksBehind(chars, at))
                    end = at + 1;
            }
            out.push_back(word.substr(places[begin], places[end] - places[begin]));
            begin = end;
        }
    }

    static bool isLetter(char32_t c) { return isWord(c) && !isDecimal(c); }
    static bool joins(char32_t c)
    {
        return isWord(c)
            || (c < 0x80 && std::string_view("!\"'&.,?").find(static_cast<char>(c)) != std::string_view::npos);
    }

    /// The end of two or more hyphens that begin at `at` between words, or 0.
    static std::size_t dashesEnd(const std::vector<char32_t> &chars, std::size_t at)
    {
        if (at == 0 || chars[at] != '-' || !joins(chars[at - 1]))
            return 0;
        const auto from = chars.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = std::find_if(from, chars.end(), [](char32_t c) { return c != '-'; });
        return end - from >= 2 && end != chars.end() && isWord(*end) ? static_cast<std::size_t>(end - chars.begin())
                                                                     : 0;
    }

    /// Whether the hyphen at `at` joins two parts of a word, each of at least two letters.
    static bool breaksBehind(const std::vector<char32_t> &chars, std::size_t at)
    {
        if (chars[at] != '-')
            return false;
        const bool two = at >= 2 && isLetter(chars[at - 1]) && isLetter(chars[at - 2]);
        const bool hyphened = at >= 3 && isLetter(chars[at - 3]) && chars[at - 2] == '-' && joins(chars[at - 1]);
        if (!two && !hyphened)
            return false;
        const std::size_t next = at + 2 < chars.size() && chars[at + 2] == '-' ? at + 3 : at + 2;
        return next < chars.size() && isLetter(chars[at + 1]) && isLetter(chars[next]);
    }

    std::string fillLine(std::vector<std::string_view> &chunks)
    {
        std::vector<std::string_view> line;
        std::int64_t used = 0;
        while (!chunks.empty()) {
            const std::int64_t size = countChars(chunks.back());
            m_budget.steps(1 + chunks.back().size() / 8);
            if (used + size > m_width)
                break;
            line.push_back(chunks.back());
            used += size;
            chunks.pop_back();
        }
        if (!chunks.empty() && countChars(chunks.back()) > m_width)
            breakChunk(chunks, line, used);
        // Only the last piece is dropped when it is blank; that piece may be empty, and then a space before it stays.
        if (!line.empty() && isBlank(line.back()))
            line.pop_back();
        std::string out;
        for (const std::string_view piece : line)
            out += piece;
        return out;
    }

    void breakChunk(std::vector<std::string_view> &chunks, std::vector<std::string_view> &line, std::int64_t used)
    {
        if (m_breakLong) {
            std::size_t bytes = byteOffset(chunks.back(), m_width - used);
            const std::size_t hyphen = chunks.back().substr(0, bytes).rfind('-');
            const bool breaks =
                m_breakHyphens && hyphen != std::string_view::npos && chunks.back().find_first_not_of('-') < hyphen;
            if (breaks)
                bytes = hyphen + 1;
            line.push_back(chunks.back().substr(0, bytes));
            chunks.back().remove_prefix(bytes);
        } else if (line.empty()) {
            line.push_back(chunks.back());
            chunks.pop_back();
        }
    }

    Budget &m_budget;
    std::int64_t m_width;
    bool m_breakLong;
    bool m_breakHyphens;
};

Value wordWrap(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
    const Value text = requireText(owner, input, "wordwrap");
    const std::int64_t width = bound.integer(0, 79);
    if (width <= 0 && !text.text().empty())
        fail("wordwrap: invalid width " + std::to_string(width) + " (must be > 0)");
    const std::string separator = bound.isSet(2) ? bound.text(2) : "\n";
    Wrapper wrapper(owner.budget(), width, bound.boolean(owner.heap(), 1, true), bound.boolean(owner.heap(), 3, true));
    Text out(owner.budget());
    bool first = true;
    for (const std::string_view paragraph : lines(owner.budget(), text.text(), false)) {
        if (!std::exchange(first, false))
            out.append(separator);
        bool firstLine = true;
        for (const std::string &line : wrapper.wrap(paragraph)) {
            if (!std::exchange(firstLine, false))
                out.append(separator);
            out.append(line);
        }
    }
    return owner.heap().string(out.release());
}

/// Python's pprint.pformat: on one line where that fits 80 columns, else one element a line; keys are sorted.
class PrettyPrinter {
public:
    explicit PrettyPrinter(Interpreter &owner)
        : m_owner(owner)
    {
    }

    void append(Text &out, const Value &value, std::size_t indent, std::size_t after)
    {
        const std::string line = oneLine(value);
        const bool isContainer = value.isSequence() || value.is(Kind::Dict);
        if (!isContainer || static_cast<std::size_t>(countChars(line)) + indent + after <= kWidth)
            return out.append(line);
        const Budget::Level level(m_owner.budget());
        const bool isDict = value.is(Kind::Dict);
        const std::string_view closing =
            value.is(Kind::List) ? "]" : (isDict ? "}" : (value.items().size() == 1 ? ",)" : ")"));
        out.append(value.is(Kind::List) ? '[' : (isDict ? '{' : '('));
        const Items items(m_owner.heap(), sortedPairs(value));
        for (std::size_t i = 0; i < items.size(); ++i) {
            const bool isLast = i + 1 == items.size();
            if (i != 0)
                newLine(out, indent + 1);
            const std::size_t room = isLast ? after + closing.size() : 1;
            if (isDict)
                appendPair(out, items.at(i).items(), indent + 1, room);
            else
                append(out, items.at(i), indent + 1, room);
            if (!isLast)
                out.append(',');
        }
        out.append(closing);
    }

private:
    static constexpr std::size_t kWidth = 80;

    void appendPair(Text &out, const std::vector<Value> &pair, std::size_t indent, std::size_t after)
    {
        const std::string key = oneLine(pair[0]) + ": ";
        out.append(key);
        append(out, pair[1], indent + static_cast<std::size_t>(countChars(key)), after);
    }
    void newLine(Text &out, std::size_t indent)
    {
        out.append('\n');
        out.repeat(" ", indent);
    }
    /// The pairs of a dictionary in the order of their keys; other values as they are.
    Value sortedPairs(const Value &value)
    {
        if (!value.is(Kind::Dict))
            return value;
        Arguments caseSensitive;
        caseSensitive.named.emplace_back("case_sensitive", Value::boolean(true));
        return m_owner.filter("dictsort", value, caseSensitive);
    }
    std::string oneLine(const Value &value)
    {
        if (!value.is(Kind::Dict) && !value.isSequence())
            return reprOf(m_owner.heap(), value);
        const Budget::Level level(m_owner.budget());
        const bool isDict = value.is(Kind::Dict);
        const Items items(m_owner.heap(), sortedPairs(value));
        std::string out(1, value.is(Kind::List) ? '[' : (isDict ? '{' : '('));
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i != 0)
                out += ", ";
            const Value item = items.at(i);
            out += isDict ? oneLine(item.items()[0]) + ": " + oneLine(item.items()[1]) : oneLine(item);
            m_owner.budget().steps(1 + out.size() / 16);
        }
        if (value.is(Kind::Tuple) && items.size() == 1)
            out += ',';
        return out + (value.is(Kind::List) ? ']' : (isDict ? '}' : ')'));
    }

    Interpreter &m_owner;
};

Value prettyPrint(Interpreter &owner, const Value &input, Arguments &arguments)
{
    requireNoArguments("pprint", arguments);
    Text out(owner.budget());
    PrettyPrinter(owner).append(out, input, 0, 0);
    return owner.heap().string(out.release());
}

Value fileSize(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("filesizeformat", arguments, {"binary"});
    Arguments otherwise;
    otherwise.positional.push_back(Value::none());
    const Value size = owner.filter("float", input, otherwise);
    if (size.isNone())
        fail(std::string("filesizeformat needs a number, not ") + typeName(input));
    const double bytes = toDouble(size);
    const bool binary = bound.boolean(owner.heap(), 0, false);
    const double base = binary ? 1024 : 1000;
    if (bytes == 1)
        return owner.heap().string("1 Byte");
    if (bytes < base)
        return owner.heap().string(textOf(owner.heap(), jinja::truncate(owner.heap(), bytes)) + " Bytes");
    static constexpr std::string_view prefixes = "kMGTPEZY";
    double unit = base;
    std::size_t i = 0;
    while (i + 1 < prefixes.size() && bytes >= unit * base) {
        unit *= base;
        ++i;
    }
    FieldStyle style;
    style.type = 'f';
    style.precision = 1;
    Text out(owner.budget());
    appendFloat(out, bytes / unit, style);
    out.append(' ');
    out.append(binary && i == 0 ? 'K' : prefixes[i]);
    out.append(binary ? "iB" : "B");
    return owner.heap().string(out.release());
}

} // namespace

std::span<const Filter> layoutFilters()
{
    static constexpr Filter all[] = {
        {"center", center},           {"indent", indent},      {"truncate", truncate}, {"wordwrap", wordWrap},
        {"filesizeformat", fileSize}, {"pprint", prettyPrint}, {"urlize", urlize},
    };
    return all;
}

} // namespace engine::jinja
