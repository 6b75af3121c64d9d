// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/code_lines.h"

#include "ui/chat/highlight.h"

#include <algorithm>

namespace ui {

void CodeLines::readFence(QStringView line)
{
    while (m_fenceIndent < line.size() && line[m_fenceIndent] == u' ')
        ++m_fenceIndent;
    QStringView text = line.trimmed();
    if (text.isEmpty())
        return;
    m_fenceChar = text[0];
    while (!text.isEmpty() && text[0] == m_fenceChar)
        text = text.mid(1);
    text = text.trimmed();
    const auto end =
        std::find_if(text.begin(), text.end(), [](QChar c) { return c.isSpace() || c == u'{' || c == u','; });
    m_languageName = text.left(std::min<qsizetype>(end - text.begin(), 40)).toString();
    m_language = highlight::find(m_languageName);
}

bool CodeLines::start(QStringView source, const SourceRange &range)
{
    qsizetype first = range.begin;
    if (range.continues) {
        readFence(source.mid(range.head, range.headEnd - range.head));
    } else {
        const qsizetype newline = source.indexOf(u'\n', range.begin);
        if (newline < 0 || newline >= range.end)
            return false;
        readFence(source.mid(range.begin, newline - range.begin));
        first = newline + 1;
    }
    m_starts.push_back(first);
    m_states.push_back(0);
    return true;
}

/// Where a line that ends at `lineEnd` must be broken, or -1.
qsizetype CodeLines::breakOf(QStringView source, qsizetype lineEnd) const
{
    const qsizetype at = m_starts.back() + longestLine;
    if (lineEnd <= at)
        return -1;
    return source[at].isLowSurrogate() ? at - 1 : at;
}

void CodeLines::addLine(QStringView source, qsizetype end, qsizetype next)
{
    const QStringView line = source.mid(m_starts.back(), end - m_starts.back());
    m_states.push_back(m_language ? highlight::lexLine(*m_language, line, m_states.back(), nullptr) : 0);
    m_starts.push_back(next);
}

bool CodeLines::isFenceLine(QStringView line) const
{
    const QStringView text = line.trimmed();
    return !text.isEmpty() && std::all_of(text.begin(), text.end(), [this](QChar c) { return c == m_fenceChar; });
}

/// The end of a closed block and its closing fence are no lines of code.
void CodeLines::dropClosing(QStringView source, qsizetype end)
{
    m_closed = true;
    const auto drop = [this] {
        m_starts.pop_back();
        m_states.pop_back();
    };
    if (m_starts.back() >= end)
        drop();
    if (m_starts.empty())
        return;
    const QStringView last = source.mid(m_starts.back(), end - m_starts.back()).trimmed();
    if (isFenceLine(last) && last.size() >= 3) {
        m_end = m_starts.back();
        drop();
    }
}

void CodeLines::extend(QStringView source, const SourceRange &range, bool open)
{
    if (m_closed || (m_starts.empty() && !start(source, range))) {
        return;
    }
    for (;;) {
        const qsizetype newline = source.indexOf(u'\n', m_starts.back());
        const bool whole = newline >= 0 && newline < range.end;
        const qsizetype end = whole ? newline : range.end;
        if (const qsizetype cut = breakOf(source, end); cut >= 0)
            addLine(source, cut, cut);
        else if (whole)
            addLine(source, newline, newline + 1);
        else
            break;
    }
    m_end = range.end;
    if (!open)
        dropClosing(source, range.end);
    m_count = static_cast<int>(m_starts.size());
    if (open) { // a last line that is empty or may become the closing fence is held back
        const QStringView last = source.mid(m_starts.back(), range.end - m_starts.back());
        m_count -= last.isEmpty() || isFenceLine(last) ? 1 : 0;
    }
}

QStringView CodeLines::line(QStringView source, int index) const
{
    const auto i = static_cast<std::size_t>(index);
    const qsizetype from = m_starts[i];
    const qsizetype to = i + 1 < m_starts.size() ? m_starts[i + 1] : m_end;
    QStringView text = source.mid(from, to - from);
    if (text.endsWith(u'\n'))
        text.chop(1);
    if (text.endsWith(u'\r'))
        text.chop(1);
    const bool atLineStart = from == 0 || source[from - 1] == u'\n';
    for (int n = 0; atLineStart && n < m_fenceIndent && text.startsWith(u' '); ++n)
        text = text.mid(1);
    return text;
}

bool CodeLines::isBroken(QStringView source, int index) const
{
    const auto next = static_cast<std::size_t>(index) + 1;
    return next < m_starts.size() && source[m_starts[next] - 1] != u'\n';
}

QString CodeLines::text(QStringView source) const
{
    QString out;
    for (int i = 0; i < m_count; ++i) {
        out += line(source, i);
        if (!isBroken(source, i) && (i + 1 < m_count || m_end > m_starts.back()))
            out += u'\n';
    }
    return out;
}

} // namespace ui
