// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_urlize.h"

#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_text_tools.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <set>

namespace engine::jinja {
namespace {

/// The parts of one word: the address, and brackets and punctuation around it.
struct Word {
    std::string head;
    std::string middle;
    std::string tail;
};

bool isLabelChar(char32_t c)
{
    return isWord(c) || c == '%' || c == '-';
}

/// The labels between dots that a host begins with, and where the host ends.
std::vector<std::string_view> hostLabels(std::string_view text, std::size_t &end)
{
    std::vector<std::string_view> labels;
    end = 0;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t begin = at;
        for (std::size_t next = at; next < text.size(); at = next) {
            if (!isLabelChar(nextChar(text, next)))
                break;
        }
        if (at == begin)
            break;
        labels.push_back(text.substr(begin, at - begin));
        end = at;
        if (at >= text.size() || text[at] != '.')
            break;
        ++at;
    }
    return labels;
}

bool isTopLevel(std::string_view label)
{
    const bool letters =
        std::all_of(label.begin(), label.end(), [](char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; });
    return (letters && label.size() >= 2 && label.size() <= 63) || label.starts_with("xn--");
}

bool isCommonDomain(std::string_view label)
{
    static const std::set<std::string, std::less<>> common = {"com", "net", "int", "edu", "gov", "org", "info", "mil"};
    return common.contains(toLower(label));
}

bool isIpv4(const std::vector<std::string_view> &labels)
{
    return labels.size() == 4 && std::all_of(labels.begin(), labels.end(), [](std::string_view label) {
               return label.size() <= 3 && label.find_first_not_of("0123456789") == std::string_view::npos;
           });
}

/// After the host an address ends, or goes on with a port, a path, a query or a fragment.
bool isRest(std::string_view rest)
{
    if (rest.starts_with(':')) {
        const std::size_t digits = std::min(rest.find_first_not_of("0123456789", 1), rest.size());
        if (digits < 2 || digits > 6)
            return false;
        rest.remove_prefix(digits);
    }
    return rest.empty() || rest[0] == '/' || rest[0] == '?' || rest[0] == '#';
}

bool isAddress(std::string_view text)
{
    const std::string lower = toLower(text.substr(0, 8));
    const bool hasScheme = lower.starts_with("http://") || lower.starts_with("https://");
    std::string_view host = text;
    if (hasScheme)
        host.remove_prefix(text.find("//") + 2);
    else if (lower.starts_with("www."))
        host.remove_prefix(4);
    std::size_t end = 0;
    const auto labels = hostLabels(host, end);
    if (labels.empty() || !isRest(host.substr(end)))
        return false;
    if (hasScheme && isIpv4(labels))
        return true;
    if (hasScheme || host.size() != text.size())
        return isTopLevel(labels.back());
    return labels.size() >= 2 && isCommonDomain(labels.back());
}

/// name@host.top
bool isMail(std::string_view text)
{
    const std::size_t mark = text.rfind('@');
    if (mark == std::string_view::npos || mark == 0)
        return false;
    const std::string_view host = text.substr(mark + 1);
    const std::size_t dot = host.rfind('.');
    const auto isHost = [](std::string_view part, bool mayPunctuate) {
        for (std::size_t at = 0; at < part.size();) {
            const char32_t c = nextChar(part, at);
            if (!isWord(c) && !(mayPunctuate && (c == '.' || c == '-')))
                return false;
        }
        return !part.empty();
    };
    std::size_t first = 0;
    return dot != std::string_view::npos && dot > 0 && isWord(nextChar(host, first))
        && isHost(host.substr(0, dot), true) && isHost(host.substr(dot + 1), false);
}

bool cutStart(std::string &from, std::string &to)
{
    for (const std::string_view sign : {"(", "<", "&lt;"}) {
        if (from.starts_with(sign)) {
            to += sign;
            from.erase(0, sign.size());
            return true;
        }
    }
    return false;
}

bool cutEnd(std::string &from, std::string &to)
{
    for (const std::string_view sign : {")", ">", ".", ",", "\n", "&gt;"}) {
        if (from.ends_with(sign)) {
            to.insert(0, sign);
            from.resize(from.size() - sign.size());
            return true;
        }
    }
    return false;
}

std::size_t occurrences(std::string_view text, std::string_view sign)
{
    std::size_t out = 0;
    for (std::size_t at = 0; (at = text.find(sign, at)) != std::string_view::npos; at += sign.size())
        ++out;
    return out;
}

/// Brackets that open inside the address take their closing ones back from the tail.
void balance(Word &word)
{
    static constexpr std::pair<std::string_view, std::string_view> pairs[] = {{"(", ")"}, {"<", ">"}, {"&lt;", "&gt;"}};
    for (const auto &[open, close] : pairs) {
        const std::size_t opened = occurrences(word.middle, open);
        if (opened <= occurrences(word.middle, close))
            continue;
        for (std::size_t left = std::min(opened, occurrences(word.tail, close)); left > 0; --left) {
            const std::size_t end = word.tail.find(close) + close.size();
            word.middle += word.tail.substr(0, end);
            word.tail.erase(0, end);
        }
    }
}

struct LinkStyle {
    std::int64_t limit = -1;
    std::string attributes; ///< rel and target, ready to insert
    std::vector<std::string> schemes;
};

std::string shown(const std::string &address, const LinkStyle &style)
{
    if (style.limit < 0 || countChars(address) <= style.limit)
        return address;
    return address.substr(0, byteOffset(address, style.limit)) + "...";
}

std::string linked(const std::string &text, const LinkStyle &style)
{
    if (isAddress(text)) {
        const bool hasScheme = text.starts_with("https://") || text.starts_with("http://");
        return "<a href=\"" + std::string(hasScheme ? "" : "https://") + text + "\"" + style.attributes + ">"
            + shown(text, style) + "</a>";
    }
    if (text.starts_with("mailto:") && isMail(std::string_view(text).substr(7)))
        return "<a href=\"" + text + "\">" + text.substr(7) + "</a>";
    const bool mayBeMail = !text.starts_with("www.") && !text.starts_with("@") && text.find(':') == std::string::npos;
    if (mayBeMail && isMail(text))
        return "<a href=\"mailto:" + text + "\">" + text + "</a>";
    std::string out = text;
    for (const std::string &scheme : style.schemes) {
        if (out != scheme && out.starts_with(scheme))
            out = "<a href=\"" + out + "\"" + style.attributes + ">" + out + "</a>";
    }
    return out;
}

LinkStyle styleOf(Interpreter &owner, const Bound &bound)
{
    LinkStyle style;
    if (bound.isSet(0))
        style.limit = std::max<std::int64_t>(0, bound.integer(0, 0));
    // noopener is Jinja's own policy for links.
    std::set<std::string> relations = {"noopener"};
    if (bound.boolean(owner.heap(), 1, false))
        relations.insert("nofollow");
    if (bound.isSet(3)) {
        const Value words = owner.heap().string(textOf(owner.heap(), bound[3]));
        Arguments none;
        const Items parts(owner.heap(), owner.call(owner.attribute(words, "split"), none));
        for (std::size_t i = 0; i < parts.size(); ++i)
            relations.insert(parts.at(i).text());
    }
    Text attributes(owner.budget());
    for (const std::string &relation : relations) {
        attributes.append(attributes.size() == 0 ? " rel=\"" : " ");
        appendHtml(attributes, relation);
    }
    attributes.append('"');
    if (bound.isSet(2)) {
        attributes.append(" target=\"");
        appendHtml(attributes, textOf(owner.heap(), bound[2]));
        attributes.append('"');
    }
    style.attributes = attributes.release();
    if (bound.isSet(4)) {
        const Items schemes(owner.heap(), bound[4]);
        for (std::size_t i = 0; i < schemes.size(); ++i)
            style.schemes.push_back(textOf(owner.heap(), schemes.at(i)));
    }
    return style;
}

} // namespace

Value urlize(Interpreter &owner, const Value &input, Arguments &arguments)
{
    const Bound bound("urlize", arguments, {"trim_url_limit", "nofollow", "target", "rel", "extra_schemes"});
    const LinkStyle style = styleOf(owner, bound);
    const Value escaped = escapeHtml(owner.heap(), input);
    const std::string_view text = escaped.text();
    Text out(owner.budget());
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t begin = at;
        const bool space = isSpace(nextChar(text, at));
        for (std::size_t next = at; next < text.size(); at = next) {
            if (isSpace(nextChar(text, next)) != space)
                break;
        }
        const std::string_view piece = text.substr(begin, at - begin);
        // Cutting signs off the ends of one long word costs its length each time.
        owner.budget().steps(16 + piece.size() * (1 + piece.size() / 256));
        if (space) {
            out.append(piece);
            continue;
        }
        Word word;
        word.middle = piece;
        while (cutStart(word.middle, word.head)) {
        }
        while (cutEnd(word.middle, word.tail)) {
        }
        balance(word);
        out.append(word.head);
        out.append(linked(word.middle, style));
        out.append(word.tail);
    }
    return owner.heap().string(out.release());
}

} // namespace engine::jinja
