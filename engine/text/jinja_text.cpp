// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_text.h"

#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_unicode.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace engine::jinja {
namespace {

// Python's repr switches to an exponent from 1e16 on and below 1e-4.
constexpr int kMaxPlainExponent = 16;
constexpr int kMinPlainExponent = -4;

void appendHexEscape(std::string &out, char32_t c)
{
    const int digits = c < 0x100 ? 2 : (c < 0x10000 ? 4 : 8);
    out += c < 0x100 ? "\\x" : (c < 0x10000 ? "\\u" : "\\U");
    for (int i = digits; i-- > 0;)
        out.push_back("0123456789abcdef"[(c >> (4U * static_cast<unsigned>(i))) & 0xFU]);
}

std::string quotedBytes(std::string_view octets)
{
    const char quote =
        octets.find('\'') != std::string_view::npos && octets.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out = std::string("b") + quote;
    for (const char c : octets) {
        if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else if (c == '\t')
            out += "\\t";
        else if (c == '\\' || c == quote)
            (out += '\\') += c;
        else if (c < 0x20 || c == 0x7F)
            appendHexEscape(out, static_cast<unsigned char>(c));
        else
            out += c;
    }
    return out + quote;
}

void appendList(Text &out, Heap &heap, const std::vector<Value> &items, char open, char close, bool isTuple)
{
    const Budget::Level level(heap.budget());
    out.append(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
        if (i != 0)
            out.append(", ");
        appendRepr(out, heap, items[i]);
    }
    if (isTuple && items.size() == 1)
        out.append(',');
    out.append(close);
}

template<class Pairs> void appendPairs(Text &out, Heap &heap, const Pairs &pairs, bool quoteKeys)
{
    const Budget::Level level(heap.budget());
    out.append('{');
    bool first = true;
    for (const auto &[key, value] : pairs) {
        if (!std::exchange(first, false))
            out.append(", ");
        if constexpr (std::is_same_v<std::decay_t<decltype(key)>, std::string>)
            out.append(quoteKeys ? reprText(key) : key);
        else
            appendRepr(out, heap, key);
        out.append(": ");
        appendRepr(out, heap, value);
    }
    out.append('}');
}

void appendView(Text &out, Heap &heap, const Value &view)
{
    static constexpr const char *names[] = {"dict_keys(", "dict_values(", "dict_items("};
    out.append(names[static_cast<int>(view.as<DictViewObject>().part)]);
    appendList(out, heap, Items(heap, view).all(), '[', ']', false);
    out.append(')');
}

void appendRange(Text &out, const RangeObject &range)
{
    out.append("range(" + std::to_string(range.start) + ", " + std::to_string(range.stop));
    if (range.step != 1)
        out.append(", " + std::to_string(range.step));
    out.append(')');
}

std::string builtinText(std::string_view name)
{
    static constexpr std::pair<std::string_view, const char *> classes[] = {
        {"dict", "<class 'dict'>"},
        {"namespace", "<class 'jinja2.utils.Namespace'>"},
        {"cycler", "<class 'jinja2.utils.Cycler'>"},
        {"joiner", "<class 'jinja2.utils.Joiner'>"}};
    for (const auto &[known, text] : classes) {
        if (known == name)
            return text;
    }
    return "<function " + std::string(name) + ">";
}

void appendOther(Text &out, Heap &heap, const Value &value)
{
    switch (value.kind()) {
    case Kind::Namespace:
        out.append("<Namespace ");
        appendPairs(out, heap, value.as<NamespaceObject>().members(), true);
        out.append('>');
        break;
    case Kind::Macro: {
        const MacroNode &node = *value.as<MacroObject>().node;
        out.append("<Macro " + (node.name.empty() ? "anonymous" : reprText(node.name)) + ">");
        break;
    }
    case Kind::Loop: {
        const LoopObject &loop = value.as<LoopObject>();
        out.append("<LoopContext " + std::to_string(std::min(loop.index + 1, loop.items.size())) + "/"
                   + std::to_string(loop.items.size()) + ">");
        break;
    }
    case Kind::Builtin:
        out.append(builtinText(value.as<BuiltinObject>().name));
        break;
    case Kind::Method:
        out.append(std::string("<built-in method ") + value.as<MethodObject>().name + ">");
        break;
    case Kind::Self:
        out.append("<TemplateReference None>");
        break;
    default:
        out.append(std::string("<") + typeName(value) + " object>");
        break;
    }
}

} // namespace

std::string floatText(double value)
{
    if (std::isnan(value))
        return "nan";
    if (std::isinf(value))
        return value < 0 ? "-inf" : "inf";
    char buffer[64];
    const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
    std::string text(buffer, result.ptr);
    const std::size_t mark = text.find('e');
    const int exponent = std::stoi(text.substr(mark + 1));
    const bool negative = text[0] == '-';
    std::string digits = text.substr(negative ? 1 : 0, mark - (negative ? 1 : 0));
    if (exponent < kMinPlainExponent || exponent >= kMaxPlainExponent)
        return text;
    if (digits.size() > 1)
        digits.erase(1, 1);
    if (exponent < 0) {
        digits = "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
    } else {
        const auto whole = static_cast<std::size_t>(exponent) + 1;
        if (digits.size() <= whole)
            digits += std::string(whole - digits.size(), '0') + ".0";
        else
            digits.insert(whole, 1, '.');
    }
    return (negative ? "-" : "") + digits;
}

std::string reprText(std::string_view text)
{
    const char quote =
        text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
    std::string out(1, quote);
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t start = i;
        const char32_t c = nextChar(text, i);
        if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else if (c == '\t')
            out += "\\t";
        else if (c == '\\' || c == static_cast<char32_t>(quote))
            (out += '\\') += static_cast<char>(c);
        else if (isPrintable(c))
            out += text.substr(start, i - start);
        else
            appendHexEscape(out, c);
    }
    return out + quote;
}

void appendText(Text &out, Heap &heap, const Value &value)
{
    if (value.isString())
        out.append(value.text());
    else if (!value.isUndefined())
        appendRepr(out, heap, value);
}

void appendRepr(Text &out, Heap &heap, const Value &value)
{
    switch (value.kind()) {
    case Kind::Undefined:
        return out.append("Undefined");
    case Kind::None:
        return out.append("None");
    case Kind::Bool:
        return out.append(value.asBool() ? "True" : "False");
    case Kind::Int:
    case Kind::BigInt:
        return out.append(digitsOf(heap, value));
    case Kind::Float:
        return out.append(floatText(value.asDouble()));
    case Kind::String:
        heap.budget().steps(value.text().size());
        heap.budget().take(4 * value.text().size());
        heap.budget().giveBack(4 * value.text().size());
        if (value.as<StringObject>().safe)
            return out.append("Markup(" + reprText(value.text()) + ")");
        return out.append(reprText(value.text()));
    case Kind::Bytes:
        return out.append(quotedBytes(value.text()));
    case Kind::List:
        return appendList(out, heap, value.items(), '[', ']', false);
    case Kind::Tuple:
        return appendList(out, heap, value.items(), '(', ')', true);
    case Kind::Dict:
        return appendPairs(out, heap, value.as<DictObject>().entries(), false);
    case Kind::DictView:
        return appendView(out, heap, value);
    case Kind::Range:
        return appendRange(out, value.as<RangeObject>());
    default:
        return appendOther(out, heap, value);
    }
}

std::string textOf(Heap &heap, const Value &value)
{
    Text out(heap.budget());
    appendText(out, heap, value);
    return out.release();
}

std::string reprOf(Heap &heap, const Value &value)
{
    Text out(heap.budget());
    appendRepr(out, heap, value);
    return out.release();
}

void appendHtml(Text &out, std::string_view text)
{
    out.budget().steps(text.size());
    std::size_t plain = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char *entity = nullptr;
        switch (text[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '"':
            entity = "&#34;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        default:
            continue;
        }
        out.append(text.substr(plain, i - plain));
        out.append(entity);
        plain = i + 1;
    }
    out.append(text.substr(plain));
}

void appendEscapedIf(Text &out, const Value &text, bool escape)
{
    if (escape && !text.as<StringObject>().safe)
        appendHtml(out, text.text());
    else
        out.append(text.text());
}

Value escapeHtml(Heap &heap, const Value &value)
{
    if (value.isString() && value.as<StringObject>().safe)
        return value;
    Text out(heap.budget());
    appendHtml(out, value.isString() ? std::string_view(value.text()) : std::string_view(textOf(heap, value)));
    return heap.string(out.release(), true);
}

} // namespace engine::jinja
