// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/markdown_text.h"

#include "ui/chat/markdown.h"

#include <QHash>

#include <algorithm>

namespace ui {
namespace {

constexpr int maxMarkRun = 8; // combining marks on one character; more take quadratic time to place

const QHash<QString, char32_t> &namedEntities()
{
    static const QHash<QString, char32_t> names{
        {"amp", U'&'},      {"lt", U'<'},       {"gt", U'>'},       {"quot", U'"'},    {"apos", U'\''},
        {"nbsp", 0x00A0},   {"copy", 0x00A9},   {"reg", 0x00AE},    {"deg", 0x00B0},   {"plusmn", 0x00B1},
        {"times", 0x00D7},  {"divide", 0x00F7}, {"ndash", 0x2013},  {"mdash", 0x2014}, {"lsquo", 0x2018},
        {"rsquo", 0x2019},  {"ldquo", 0x201C},  {"rdquo", 0x201D},  {"bull", 0x2022},  {"hellip", 0x2026},
        {"euro", 0x20AC},   {"trade", 0x2122},  {"larr", 0x2190},   {"uarr", 0x2191},  {"rarr", 0x2192},
        {"darr", 0x2193},   {"le", 0x2264},     {"ge", 0x2265},     {"ne", 0x2260},    {"infin", 0x221E},
        {"sum", 0x2211},    {"radic", 0x221A},  {"alpha", 0x03B1},  {"beta", 0x03B2},  {"gamma", 0x03B3},
        {"delta", 0x03B4},  {"lambda", 0x03BB}, {"mu", 0x03BC},     {"pi", 0x03C0},    {"sigma", 0x03C3},
        {"frac12", 0x00BD}, {"sup2", 0x00B2},   {"middot", 0x00B7}, {"laquo", 0x00AB}, {"raquo", 0x00BB}};
    return names;
}

bool isDirectionMark(char16_t c)
{
    return (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0x200E || c == 0x200F || c == 0x061C;
}

bool isInvisible(char16_t c)
{
    return (c >= 0x200B && c <= 0x200D) || c == 0x2060 || c == 0xFEFF;
}

/// A character as it is shown; empty when it needs no change.
QString visibleForm(QChar c, bool showMarks)
{
    const char16_t u = c.unicode();
    if (u < 0x20 && u != u'\n' && u != u'\t')
        return QString(QChar(0x2400 + u));
    if (u == 0x7F)
        return QString(QChar(0x2421));
    if (showMarks && (isDirectionMark(u) || isInvisible(u)))
        return QStringLiteral("<U+%1>").arg(u, 4, 16, QLatin1Char('0')).toUpper();
    return {};
}

/// Whether a last line may still turn into a list item, heading, rule, table, quote or fence.
bool isUndecidedLine(QStringView line)
{
    const QStringView text = line.trimmed();
    if (text.isEmpty() || text.size() > 12)
        return false;
    if (std::all_of(text.begin(), text.end(), [](QChar c) { return QStringView(u"-=*_+#|`~>:").contains(c); }))
        return true;
    const QStringView number = text.endsWith(u'.') || text.endsWith(u')') ? text.chopped(1) : text;
    return number.size() <= 3 && std::all_of(number.begin(), number.end(), [](QChar c) { return c.isDigit(); });
}

qsizetype countOf(QStringView text, QStringView mark)
{
    return text.count(mark);
}

} // namespace

QString decodeEntity(QStringView entity)
{
    if (entity.startsWith(u"&#") && entity.size() > 3) {
        const QStringView digits = entity.mid(2).chopped(1);
        const bool hex = digits[0] == u'x' || digits[0] == u'X';
        bool ok = false;
        const uint code = (hex ? digits.mid(1) : digits).toUInt(&ok, hex ? 16 : 10);
        const bool valid = ok && code != 0 && code <= 0x10FFFF && !QChar::isSurrogate(code);
        const char32_t one = valid ? code : U'\uFFFD';
        return displayText(QString::fromUcs4(&one, 1), false);
    }
    const auto found = namedEntities().constFind(entity.mid(1).chopped(1).toString());
    return found == namedEntities().constEnd() ? entity.toString() : QString::fromUcs4(&found.value(), 1);
}

QString displayText(QStringView text, bool showMarks)
{
    const auto special = [&](QChar c) {
        const char16_t u = c.unicode();
        return (u < 0x20 && u != u'\n' && u != u'\t') || u == 0x7F || c.isMark() || c.isSurrogate()
            || (showMarks && (isDirectionMark(u) || isInvisible(u)));
    };
    if (std::none_of(text.begin(), text.end(), special))
        return text.toString();
    QString out;
    out.reserve(text.size());
    int marks = 0;
    for (qsizetype i = 0; i < text.size(); ++i) {
        const QChar c = text[i];
        const bool pair = c.isHighSurrogate() && i + 1 < text.size() && text[i + 1].isLowSurrogate();
        const char32_t code = pair ? QChar::surrogateToUcs4(c, text[i + 1]) : char32_t(c.unicode());
        marks = QChar::isMark(code) ? marks + 1 : 0;
        i += pair ? 1 : 0;
        if (marks > maxMarkRun)
            continue;
        if (!pair && c.isSurrogate())
            out += QChar::ReplacementCharacter;
        else if (const QString shown = visibleForm(c, showMarks); !shown.isEmpty())
            out += shown;
        else if (pair)
            out += text.mid(i - 1, 2);
        else
            out += c;
    }
    return out;
}

QString settledSource(QStringView source, BlockKind kind)
{
    const qsizetype lineStart = source.lastIndexOf(u'\n') + 1;
    if (kind == BlockKind::Indented)
        return source.toString();
    if (isUndecidedLine(source.mid(lineStart)))
        return source.left(lineStart).toString();
    while (!source.isEmpty() && QStringView(u"*`_~").contains(source.back()))
        source.chop(1);
    QString out = source.toString();
    const QStringView paragraph = QStringView(out).mid(std::max<qsizetype>(0, out.lastIndexOf(QStringLiteral("\n\n"))));
    const QStringView line = QStringView(out).mid(out.lastIndexOf(u'\n') + 1);
    const QStringView scope = kind == BlockKind::Text || kind == BlockKind::Quote ? paragraph : line;
    if (countOf(scope, u"`") % 2)
        return out + u'`';
    const qsizetype strong = countOf(scope, u"**");
    const qsizetype bullet = line.trimmed().startsWith(u"* ") ? 1 : 0;
    const qsizetype emphasis = countOf(scope, u"*") - 2 * strong - bullet;
    QString tail;
    if (emphasis % 2)
        tail += u'*';
    if (strong % 2)
        tail += QStringLiteral("**");
    if (!tail.isEmpty())
        while (out.endsWith(u' '))
            out.chop(1);
    return out + tail;
}

} // namespace ui
