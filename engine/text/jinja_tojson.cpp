// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_arithmetic.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_sort.h"
#include "engine/text/jinja_text.h"
#include "engine/text/jinja_unicode.h"

#include <cmath>

namespace engine::jinja {
namespace {

class JsonWriter {
public:
    JsonWriter(Text &out, Heap &heap, const JsonStyle &style)
        : m_out(out)
        , m_heap(heap)
        , m_style(style)
    {
    }

    void write(const Value &value, std::size_t depth)
    {
        m_heap.budget().steps(2);
        switch (value.kind()) {
        case Kind::String:
            return writeText(value.text());
        case Kind::List:
        case Kind::Tuple:
            return writeList(value.items(), depth);
        case Kind::Dict:
            return writeDict(value.as<DictObject>(), depth);
        case Kind::None:
        case Kind::Bool:
        case Kind::Int:
        case Kind::BigInt:
        case Kind::Float:
            return m_out.append(plain(value));
        case Kind::Namespace:
            fail("Object of type Namespace is not JSON serializable (it could even contain itself)");
        default:
            fail(std::string("Object of type ") + typeName(value) + " is not JSON serializable");
        }
    }

private:
    std::string plain(const Value &value) const
    {
        if (value.isNone())
            return "null";
        if (value.is(Kind::Bool))
            return value.asBool() ? "true" : "false";
        if (!value.is(Kind::Float))
            return digitsOf(m_heap, value);
        const double number = value.asDouble();
        if (std::isnan(number))
            return "NaN";
        if (std::isinf(number))
            return number < 0 ? "-Infinity" : "Infinity";
        return floatText(number);
    }

    void newLine(std::size_t depth)
    {
        if (!m_style.multiLine)
            return;
        m_out.append('\n');
        m_out.repeat(m_style.indent, depth);
    }

    void writeText(std::string_view text)
    {
        m_heap.budget().steps(text.size() / 4);
        m_out.append('"');
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t start = at;
            const char32_t c = nextChar(text, at);
            if (c == '"' || c == '\\')
                m_out.append(std::string("\\") + static_cast<char>(c));
            else if (c < 0x20)
                writeControl(c);
            else if (c >= 0x80 && m_style.ensureAscii)
                writeEscapes(c);
            else
                m_out.append(text.substr(start, at - start));
        }
        m_out.append('"');
    }

    void writeControl(char32_t c)
    {
        static constexpr std::string_view letters = "btn?fr";
        const bool isShort = c >= 8 && c <= 13 && c != 11;
        if (isShort)
            m_out.append(std::string("\\") + letters[c - 8]);
        else
            writeUnit(c);
    }

    void writeEscapes(char32_t c)
    {
        if (c < 0x10000)
            return writeUnit(c);
        writeUnit(0xD800 + ((c - 0x10000) >> 10U));
        writeUnit(0xDC00 + ((c - 0x10000) & 0x3FFU));
    }

    void writeUnit(char32_t c)
    {
        std::string out = "\\u";
        for (unsigned i = 4; i-- > 0;)
            out.push_back("0123456789abcdef"[(c >> (4 * i)) & 0xFU]);
        m_out.append(out);
    }

    void writeList(const std::vector<Value> &items, std::size_t depth)
    {
        if (items.empty())
            return m_out.append("[]");
        const Budget::Level level(m_heap.budget());
        m_out.append('[');
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i != 0)
                m_out.append(m_style.itemSeparator);
            newLine(depth + 1);
            write(items[i], depth + 1);
        }
        newLine(depth);
        m_out.append(']');
    }

    void writeKey(const Value &key)
    {
        if (key.isString())
            return writeText(key.text());
        if (!key.isNone() && !key.isNumber())
            fail(std::string("keys must be str, int, float, bool or None, not ") + typeName(key));
        m_out.append('"');
        m_out.append(plain(key));
        m_out.append('"');
    }

    void writeDict(const DictObject &dict, std::size_t depth)
    {
        if (dict.entries().empty())
            return m_out.append("{}");
        const Budget::Level level(m_heap.budget());
        std::vector<std::pair<Value, Value>> sorted;
        if (m_style.sortKeys) {
            sorted = dict.entries();
            sortBy(sorted, [this](const auto &a, const auto &b) { return less(m_heap, a.first, b.first); });
        }
        m_out.append('{');
        bool first = true;
        for (const auto &[key, value] : m_style.sortKeys ? sorted : dict.entries()) {
            if (!std::exchange(first, false))
                m_out.append(m_style.itemSeparator);
            newLine(depth + 1);
            writeKey(key);
            m_out.append(m_style.keySeparator);
            write(value, depth + 1);
        }
        newLine(depth);
        m_out.append('}');
    }

    Text &m_out;
    Heap &m_heap;
    const JsonStyle &m_style;
};

} // namespace

void appendJson(Text &out, Heap &heap, const Value &value, const JsonStyle &style)
{
    JsonWriter(out, heap, style).write(value, 0);
}

} // namespace engine::jinja
