// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/block_splitter.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace ui {
namespace {

constexpr int maxReferences = 65536; // characters; later definitions are shown as text only

int indentOf(QStringView line)
{
    int columns = 0;
    for (const QChar c : line) {
        if (c == u' ')
            ++columns;
        else if (c == u'\t')
            columns += 4 - columns % 4;
        else
            break;
    }
    return columns;
}

/// Length of the fence marker that begins `text`, 0 when it is none.
qsizetype fenceRun(QStringView text)
{
    if (text.isEmpty() || (text[0] != u'`' && text[0] != u'~'))
        return 0;
    qsizetype run = 0;
    while (run < text.size() && text[run] == text[0])
        ++run;
    return run < 3 || (text[0] == u'`' && text.mid(run).contains(u'`')) ? 0 : run;
}

bool isItem(QStringView text)
{
    if (text.isEmpty())
        return false;
    qsizetype digits = 0;
    while (digits < text.size() && digits < 9 && text[digits] >= u'0' && text[digits] <= u'9')
        ++digits;
    const bool bullet = text[0] == u'-' || text[0] == u'*' || text[0] == u'+';
    if (digits > 0 && (digits >= text.size() || (text[digits] != u'.' && text[digits] != u')')))
        return false;
    if (digits == 0 && !bullet)
        return false;
    const qsizetype after = digits > 0 ? digits + 1 : 1;
    return after >= text.size() || text[after] == u' ' || text[after] == u'\t';
}

/// Only a bullet with content or number one may follow a paragraph's line without a blank line between.
bool interruptsParagraph(QStringView text)
{
    return text.size() > 1 && (!text[0].isDigit() || text.startsWith(u"1.") || text.startsWith(u"1)"));
}

bool isHeading(QStringView text)
{
    qsizetype run = 0;
    while (run < text.size() && text[run] == u'#')
        ++run;
    return run >= 1 && run <= 6 && (run == text.size() || text[run] == u' ' || text[run] == u'\t');
}

bool isDelimiterRow(QStringView text)
{
    const auto allowed = [](QChar c) { return c == u'-' || c == u':' || c == u'|' || c == u' '; };
    return text.contains(u'-') && text.contains(u'|') && std::all_of(text.begin(), text.end(), allowed);
}

} // namespace

std::vector<SourceRange> BlockSplitter::takeClosed()
{
    return std::exchange(m_closed, {});
}

SourceRange BlockSplitter::open(qsizetype size) const
{
    return {m_begin, size, m_kind, m_continues, m_head, m_headEnd, m_indent};
}

void BlockSplitter::close(qsizetype at, bool continues)
{
    if (at > m_begin)
        m_closed.push_back(open(at));
    m_begin = at;
    m_continues = continues;
    if (!continues) {
        m_kind = BlockKind::Text;
        m_head = m_headEnd = 0;
    }
    m_indent = 0;
    m_lines = 0;
    m_blank = m_innerFence = false;
}

/// Consumes a line inside a fence; false when the open block is none.
bool BlockSplitter::takeFenceLine(QStringView text, int indent, qsizetype end)
{
    if (m_kind != BlockKind::Fence && !m_innerFence)
        return false;
    const bool closing = fenceRun(text) >= m_fenceLength && fenceRun(text) == text.size() && text[0] == m_fenceChar;
    if (closing && m_innerFence)
        m_innerFence = false;
    else if (closing && (indent <= 3 || m_continues))
        close(end);
    return true;
}

bool BlockSplitter::continuesAfterBlank(QStringView text, int indent) const
{
    if (m_kind == BlockKind::List)
        return indent >= 2 || isItem(text);
    return m_kind == BlockKind::Indented && indent >= 4;
}

/// Handles a line that begins a fence or heading; true when the line is consumed.
bool BlockSplitter::opensBlock(QStringView text, int indent, bool first, qsizetype begin, qsizetype end)
{
    const bool inList = m_kind == BlockKind::List && !first;
    const qsizetype run = indent <= 3 || inList ? fenceRun(text) : 0;
    if (run > 0) {
        m_fenceChar = text[0];
        m_fenceLength = run;
        if (inList && indent >= 2) {
            m_innerFence = true;
            m_head = begin;
            m_headEnd = end;
            m_blank = false;
            return true;
        }
        close(begin);
        m_kind = BlockKind::Fence;
        return true;
    }
    if (indent <= 3 && isHeading(text) && !inList) {
        close(begin);
        close(end);
        return true;
    }
    return false;
}

void BlockSplitter::noteTable(QStringView source, QStringView text, qsizetype begin, qsizetype end)
{
    if (m_lines == 0 && text.startsWith(u'|')) {
        m_kind = BlockKind::Table;
        m_head = begin;
    } else if (m_lines == 1 && m_headEnd == 0 && isDelimiterRow(text)
               && (m_kind == BlockKind::Table
                   || (m_kind == BlockKind::Text && source.mid(m_begin, begin - m_begin).contains(u'|')))) {
        m_kind = BlockKind::Table;
        m_head = m_begin;
        m_headEnd = end;
    }
}

void BlockSplitter::noteReference(QStringView line, QStringView text)
{
    if (!text.startsWith(u'[') || !text.contains(u"]:") || m_references.size() + line.size() > maxReferences)
        return;
    m_references += line;
    if (!line.endsWith(u'\n'))
        m_references += u'\n';
}

/// Whether the open block is cut before this line because of its length.
bool BlockSplitter::tooLong(QStringView text, int indent, qsizetype begin) const
{
    const qsizetype length = begin - m_begin;
    switch (m_kind) {
    case BlockKind::Text:
        return length > textLimit;
    case BlockKind::Table:
        return length > textLimit && m_lines >= 2;
    case BlockKind::List:
        return (length > listLimit && indent == 0 && isItem(text)) || length > hardLimit;
    default:
        return length > hardLimit;
    }
}

/// A fence inside a list item has grown too long: the rest becomes a code block of its own.
void BlockSplitter::cutInnerFence(qsizetype at)
{
    const auto opening = std::pair(m_head, m_headEnd);
    close(at, true);
    m_kind = BlockKind::Fence;
    std::tie(m_head, m_headEnd) = opening;
}

void BlockSplitter::takeLine(QStringView source, qsizetype begin, qsizetype end)
{
    const QStringView line = source.mid(begin, end - begin);
    const QStringView text = line.trimmed();
    const int indent = indentOf(line);
    if (m_innerFence && begin - m_begin > hardLimit)
        cutInnerFence(begin);
    if (takeFenceLine(text, indent, end))
        return;
    if (text.isEmpty()) {
        m_blank = m_lines > 0 || m_blank;
        return;
    }
    if (m_blank && !continuesAfterBlank(text, indent))
        close(begin);
    const bool first = m_lines == 0 && !m_continues;
    if (opensBlock(text, indent, first, begin, end))
        return;
    const bool item = indent <= 3 && isItem(text);
    if (item && (first || (m_kind == BlockKind::Text && interruptsParagraph(text)))) {
        if (!first)
            close(begin);
        m_kind = BlockKind::List;
    } else if (first && text.startsWith(u'>') && indent <= 3) {
        m_kind = BlockKind::Quote;
    } else if (first && indent >= 4) {
        m_kind = BlockKind::Indented;
    } else if (m_kind == BlockKind::Text || m_kind == BlockKind::Table) {
        noteTable(source, text, begin, end);
        noteReference(line, text);
    }
    m_blank = false;
    if (tooLong(text, indent, begin)) {
        close(begin, true);
        m_indent = indent;
    }
    ++m_lines;
}

/// A line without an end that would let the open block grow without bound is cut at a space, or anywhere.
void BlockSplitter::cutUnfinishedLine(QStringView source)
{
    while (m_kind != BlockKind::Fence && !m_innerFence) {
        const qsizetype limit = m_kind == BlockKind::Text ? textLimit + 512 : hardLimit;
        const qsizetype from = std::max(m_begin, m_lineStart);
        if (source.size() - m_begin <= limit || source.size() - from <= 512)
            return;
        if (from - m_begin > limit / 2) {
            close(from, true);
            m_indent = indentOf(source.mid(from));
            continue;
        }
        const qsizetype wanted = std::min(m_begin + limit - 512, source.size() - 1);
        qsizetype at = source.lastIndexOf(u' ', wanted) + 1;
        if (at <= from + 1)
            at = source[wanted].isLowSurrogate() ? wanted - 1 : wanted;
        close(at, true);
        m_kind = BlockKind::Text;
        m_lineStart = at;
    }
}

void BlockSplitter::append(QStringView source)
{
    for (qsizetype newline; (newline = source.indexOf(u'\n', m_searched)) >= 0;) {
        m_searched = newline + 1;
        cutUnfinishedLine(source.left(m_searched));
        takeLine(source, m_lineStart, m_searched);
        m_lineStart = m_searched;
    }
    m_searched = source.size();
    // After a blank line the first character of an unfinished line often decides already; waiting for its end would
    // show the new paragraph inside the old block.
    const QStringView tail = source.mid(m_lineStart);
    const bool decided = !tail.isEmpty() && !tail[0].isSpace() && (m_kind != BlockKind::List || tail[0].isLetter());
    if (m_blank && m_kind != BlockKind::Fence && !m_innerFence && decided)
        close(m_lineStart);
    cutUnfinishedLine(source);
}

} // namespace ui
