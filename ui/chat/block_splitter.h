// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringView>

#include <vector>

namespace ui {

/// What the splitter takes a top-level block for.
enum class BlockKind : quint8 { Text, Quote, List, Table, Indented, Fence };

/// One top-level block, as a range of its message's source.
struct SourceRange {
    qsizetype begin = 0;
    qsizetype end = 0;
    BlockKind kind = BlockKind::Text;
    bool continues = false; ///< a later part of a block that was cut for its length
    qsizetype head = 0;     ///< lines that a later part needs: a table's header, a cut fence's opening line
    qsizetype headEnd = 0;
    int indent = 0; ///< of the first line of a later part of a list, in characters
};

/// Cuts a growing Markdown source into top-level blocks. Each line is looked at once; a closed block never changes.
/// A block that grows past a limit is cut where the reader sees it least, so that the open block, which is parsed
/// again whenever it grows, stays short.
class BlockSplitter {
public:
    /// Takes the whole source, grown at its end since the last call.
    void append(QStringView source);
    /// Blocks closed since the last call, in order.
    [[nodiscard]] std::vector<SourceRange> takeClosed();
    /// The block still growing; empty when begin == size.
    [[nodiscard]] SourceRange open(qsizetype size) const;
    /// Link definitions seen so far, one a line.
    [[nodiscard]] const QString &references() const { return m_references; }

    static constexpr int textLimit = 3072;
    static constexpr int listLimit = 6144;
    static constexpr int hardLimit = 16384; ///< no open block except a fence grows past this and a line

private:
    void takeLine(QStringView source, qsizetype begin, qsizetype end);
    bool takeFenceLine(QStringView text, int indent, qsizetype end);
    bool opensBlock(QStringView text, int indent, bool first, qsizetype begin, qsizetype end);
    void noteTable(QStringView source, QStringView text, qsizetype begin, qsizetype end);
    void noteReference(QStringView line, QStringView text);
    bool continuesAfterBlank(QStringView text, int indent) const;
    bool tooLong(QStringView text, int indent, qsizetype begin) const;
    void cutInnerFence(qsizetype at);
    void cutUnfinishedLine(QStringView source);
    void close(qsizetype at, bool continues = false);

    std::vector<SourceRange> m_closed;
    QString m_references;
    qsizetype m_begin = 0;     ///< of the open block
    qsizetype m_lineStart = 0; ///< of the first line not yet taken
    qsizetype m_searched = 0;  ///< no line end before this
    qsizetype m_head = 0;
    qsizetype m_headEnd = 0;
    int m_indent = 0;
    int m_lines = 0; ///< non-blank lines of the open block
    BlockKind m_kind = BlockKind::Text;
    bool m_blank = false; ///< the last line of the open block is blank
    bool m_continues = false;
    bool m_innerFence = false; ///< inside a fence that belongs to a list item
    QChar m_fenceChar;
    qsizetype m_fenceLength = 0;
};

} // namespace ui
