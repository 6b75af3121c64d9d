// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_text_tools.h"

#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>

namespace engine::jinja {
namespace {

// A special case maps one character of two bytes to three of two.
constexpr std::size_t kCaseGrowth = 3;

} // namespace

std::size_t search(Budget &budget, std::string_view text, std::string_view needle, std::size_t from)
{
    const std::size_t found = findText(text, needle, from);
    const std::size_t seen = std::min(found, text.size()) - std::min(from, text.size());
    budget.steps(1 + (seen + needle.size()) / kBytesPerStep);
    return found;
}

Value similar(Interpreter &owner, const Value &like, std::string_view text)
{
    Text out(owner.budget());
    out.append(text);
    return owner.heap().string(out.release(), like.as<StringObject>().safe);
}

Value asText(Interpreter &owner, const Value &value)
{
    return value.isString() ? value : owner.heap().string(textOf(owner.heap(), value));
}

Value mapped(Interpreter &owner, const Value &text, std::string (*map)(std::string_view))
{
    const std::size_t size = text.text().size();
    owner.budget().steps(size);
    owner.budget().take(kCaseGrowth * size);
    owner.budget().giveBack(kCaseGrowth * size);
    return owner.heap().string(map(text.text()), text.as<StringObject>().safe);
}

Value stripped(Interpreter &owner, const Value &text, const Value &chars, int ends)
{
    const auto side = static_cast<Ends>(ends);
    if (chars.isNone() || (chars.isUndefined() && chars.object() == nullptr)) {
        owner.budget().steps(text.text().size() / kBytesPerStep);
        return similar(owner, text, stripSpace(text.text(), side));
    }
    requireDefined(chars);
    if (!chars.isString())
        fail(std::string("strip arg must be None or str, not ") + typeName(chars));
    const std::string_view out = stripChars(text.text(), chars.text(), side);
    owner.budget().steps((text.text().size() - out.size() + 1) * (1 + chars.text().size() / kBytesPerStep));
    return similar(owner, text, out);
}

Value replaced(Interpreter &owner, const Value &text, std::string_view from, std::string_view to, std::int64_t count)
{
    const std::string_view source = text.text();
    Text out(owner.budget());
    std::size_t at = 0;
    for (; count != 0; --count) {
        const std::size_t found = search(owner.budget(), source, from, at);
        if (found == std::string_view::npos || (from.empty() && at > source.size()))
            break;
        out.append(source.substr(at, found - at));
        out.append(to);
        at = found + from.size();
        if (!from.empty())
            continue;
        // An empty text stands before every character and at the end.
        if (at == source.size())
            return owner.heap().string(out.release(), text.as<StringObject>().safe);
        const std::size_t start = at;
        static_cast<void>(nextChar(source, at));
        out.append(source.substr(start, at - start));
    }
    out.append(source.substr(at));
    return owner.heap().string(out.release(), text.as<StringObject>().safe);
}

Value centered(Interpreter &owner, const Value &text, std::int64_t width, std::string_view fill)
{
    const std::int64_t missing = std::max<std::int64_t>(0, width - codePoints(owner.heap(), text));
    // Where the padding is odd Python's choice of side depends on the width too.
    const std::int64_t left = missing / 2 + (missing & width & 1);
    Text out(owner.budget());
    out.repeat(fill, static_cast<std::size_t>(left));
    out.append(text.text());
    out.repeat(fill, static_cast<std::size_t>(missing - left));
    return owner.heap().string(out.release(), text.as<StringObject>().safe);
}

std::vector<std::string_view> lines(Budget &budget, std::string_view text, bool keepEnds)
{
    budget.steps(text.size());
    std::vector<std::string_view> out;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = at;
        const char32_t c = nextChar(text, at);
        if (!isLineEnd(c))
            continue;
        if (c == '\r' && at < text.size() && text[at] == '\n')
            ++at;
        out.push_back(text.substr(begin, (keepEnds ? at : end) - begin));
        begin = at;
    }
    if (begin < text.size())
        out.push_back(text.substr(begin));
    return out;
}

} // namespace engine::jinja
