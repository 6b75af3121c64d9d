// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/markdown.h"

#include "ui/chat/markdown_text.h"

#include <QRegularExpression>
#include <QUrl>

#include <md4c.h>

#include <algorithm>
#include <utility>

namespace ui {
namespace {

/// Receives md4c's events and makes pieces of them.
class PieceBuilder {
public:
    int enterBlock(MD_BLOCKTYPE type, void *detail);
    int leaveBlock(MD_BLOCKTYPE type);
    void enterSpan() { m_starts.push_back(static_cast<int>(piece().text.size())); }
    void leaveSpan(MD_SPANTYPE type, void *detail);
    void text(MD_TEXTTYPE type, QStringView s);
    std::vector<Piece> takePieces();

private:
    Piece &piece(Piece::Role role = Piece::Role::Body);
    void enterItem(const MD_BLOCK_LI_DETAIL &detail);
    void enterCell(MD_BLOCKTYPE type, const MD_BLOCK_TD_DETAIL &detail);
    void enterCode(const MD_BLOCK_CODE_DETAIL &detail);
    void end() { m_inPiece = false; }

    std::vector<Piece> m_pieces;
    std::vector<std::pair<bool, int>> m_lists; ///< ordered, next number
    std::vector<int> m_starts;                 ///< of open spans
    QString m_marker;
    int m_quote = 0;
    int m_row = 0;
    int m_column = 0;
    bool m_inPiece = false;
};

QString attributeText(const MD_ATTRIBUTE &attribute)
{
    return attribute.text ? QString::fromUtf8(attribute.text, attribute.size) : QString();
}

Piece &PieceBuilder::piece(Piece::Role role)
{
    if (!m_inPiece) {
        Piece p;
        p.role = role;
        p.depth = std::min(static_cast<int>(m_lists.size()), maxListDepth);
        p.quote = std::min(m_quote, maxQuoteDepth);
        p.marker = std::exchange(m_marker, {});
        m_pieces.push_back(std::move(p));
        m_inPiece = true;
    }
    return m_pieces.back();
}

void PieceBuilder::enterItem(const MD_BLOCK_LI_DETAIL &detail)
{
    end();
    if (!m_marker.isEmpty()) // the item around this one has no text of its own
        piece();
    end();
    auto &[ordered, number] = m_lists.back();
    m_marker = ordered ? QString::number(number++) + u'.' : QStringLiteral("•");
    if (detail.is_task)
        m_marker = detail.task_mark == ' ' ? QStringLiteral("☐") : QStringLiteral("☑");
}

void PieceBuilder::enterCell(MD_BLOCKTYPE type, const MD_BLOCK_TD_DETAIL &detail)
{
    end();
    const int column = m_column++;
    if (column >= maxTableColumns) { // its text lands in a cell that takePieces drops
        piece().column = column;
        return;
    }
    Piece &p = piece(type == MD_BLOCK_TH ? Piece::Role::HeadCell : Piece::Role::Cell);
    p.row = m_row;
    p.column = column;
    p.align = detail.align == MD_ALIGN_RIGHT ? Qt::AlignRight
        : detail.align == MD_ALIGN_CENTER    ? Qt::AlignHCenter
                                             : Qt::AlignLeft;
}

void PieceBuilder::enterCode(const MD_BLOCK_CODE_DETAIL &detail)
{
    end();
    piece(Piece::Role::Code).language = attributeText(detail.lang);
}

int PieceBuilder::enterBlock(MD_BLOCKTYPE type, void *detail)
{
    switch (type) {
    case MD_BLOCK_UL:
        end();
        m_lists.emplace_back(false, 0);
        break;
    case MD_BLOCK_OL:
        end();
        m_lists.emplace_back(true, static_cast<int>(static_cast<MD_BLOCK_OL_DETAIL *>(detail)->start));
        break;
    case MD_BLOCK_LI:
        enterItem(*static_cast<MD_BLOCK_LI_DETAIL *>(detail));
        break;
    case MD_BLOCK_QUOTE:
        end();
        ++m_quote;
        break;
    case MD_BLOCK_H: {
        end();
        const auto level = static_cast<MD_BLOCK_H_DETAIL *>(detail)->level;
        piece(level == 1 ? Piece::Role::Heading1 : level == 2 ? Piece::Role::Heading2 : Piece::Role::Heading3);
        break;
    }
    case MD_BLOCK_HR:
        end();
        piece(Piece::Role::Rule);
        end();
        break;
    case MD_BLOCK_CODE:
        enterCode(*static_cast<MD_BLOCK_CODE_DETAIL *>(detail));
        break;
    case MD_BLOCK_P:
        end();
        piece();
        break;
    case MD_BLOCK_TR:
        m_column = 0;
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD:
        enterCell(type, *static_cast<MD_BLOCK_TD_DETAIL *>(detail));
        break;
    default:
        break;
    }
    return 0;
}

int PieceBuilder::leaveBlock(MD_BLOCKTYPE type)
{
    switch (type) {
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        m_lists.pop_back();
        break;
    case MD_BLOCK_LI:
        if (!m_marker.isEmpty())
            piece();
        break;
    case MD_BLOCK_QUOTE:
        --m_quote;
        break;
    case MD_BLOCK_TR:
        if (m_column > maxTableColumns && m_row == 0)
            for (Piece &p : m_pieces)
                if (p.row == 0 && p.role == Piece::Role::HeadCell && p.column == maxTableColumns - 1)
                    p.text = QStringLiteral("… %1 more columns").arg(m_column - maxTableColumns + 1);
        ++m_row;
        break;
    case MD_BLOCK_CODE:
        if (m_inPiece && m_pieces.back().text.endsWith(u'\n'))
            m_pieces.back().text.chop(1);
        break;
    default:
        break;
    }
    end();
    return 0;
}

void PieceBuilder::leaveSpan(MD_SPANTYPE type, void *detail)
{
    Piece &p = piece();
    TextSpan span;
    span.start = m_starts.back();
    m_starts.pop_back();
    span.length = static_cast<int>(p.text.size()) - span.start;
    switch (type) {
    case MD_SPAN_STRONG:
        span.style = TextSpan::Strong;
        break;
    case MD_SPAN_EM:
        span.style = TextSpan::Emphasis;
        break;
    case MD_SPAN_DEL:
        span.style = TextSpan::Strike;
        break;
    case MD_SPAN_CODE:
        span.style = TextSpan::Code;
        break;
    case MD_SPAN_A:
        span.href = attributeText(static_cast<MD_SPAN_A_DETAIL *>(detail)->href);
        span.style = isSafeLink(span.href) ? TextSpan::Link : 0;
        break;
    default:
        break;
    }
    if (span.style && span.length > 0)
        p.spans.append(span);
}

void PieceBuilder::text(MD_TEXTTYPE type, QStringView s)
{
    Piece &p = piece();
    switch (type) {
    case MD_TEXT_BR:
        p.text += QChar::LineSeparator;
        break;
    case MD_TEXT_SOFTBR:
        p.text += u' ';
        break;
    case MD_TEXT_NULLCHAR:
        p.text += QChar::ReplacementCharacter;
        break;
    case MD_TEXT_ENTITY:
        p.text += decodeEntity(s);
        break;
    case MD_TEXT_CODE:
        p.text += displayText(s, true);
        break;
    default:
        p.text += displayText(s, false);
    }
}

std::vector<Piece> PieceBuilder::takePieces()
{
    std::erase_if(m_pieces, [](const Piece &p) { return p.column >= maxTableColumns; });
    return std::move(m_pieces);
}

int onEnterBlock(MD_BLOCKTYPE type, void *detail, void *builder)
{
    return static_cast<PieceBuilder *>(builder)->enterBlock(type, detail);
}

int onLeaveBlock(MD_BLOCKTYPE type, void *, void *builder)
{
    return static_cast<PieceBuilder *>(builder)->leaveBlock(type);
}

int onEnterSpan(MD_SPANTYPE, void *, void *builder)
{
    static_cast<PieceBuilder *>(builder)->enterSpan();
    return 0;
}

int onLeaveSpan(MD_SPANTYPE type, void *detail, void *builder)
{
    static_cast<PieceBuilder *>(builder)->leaveSpan(type, detail);
    return 0;
}

int onText(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE size, void *builder)
{
    static_cast<PieceBuilder *>(builder)->text(type, QString::fromUtf8(s, size));
    return 0;
}

std::vector<Piece> parse(const QString &source)
{
    // The library takes UTF-8 here; a block is small, so the conversion is too.
    const QByteArray utf8 = source.toUtf8();
    MD_PARSER parser{};
    parser.flags =
        MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS | MD_FLAG_PERMISSIVEURLAUTOLINKS;
    parser.enter_block = onEnterBlock;
    parser.leave_block = onLeaveBlock;
    parser.enter_span = onEnterSpan;
    parser.leave_span = onLeaveSpan;
    parser.text = onText;
    PieceBuilder builder;
    md_parse(utf8.constData(), static_cast<MD_SIZE>(utf8.size()), &parser, &builder);
    return builder.takePieces();
}

/// The lines of a later part of a nested list, moved left so that they are list items again.
QString outdent(QStringView source, int columns)
{
    QString out;
    for (const QStringView line : source.split(u'\n')) {
        qsizetype cut = 0;
        while (cut < columns && cut < line.size() && line[cut] == u' ')
            ++cut;
        out += line.mid(cut);
        out += u'\n';
    }
    return out;
}

/// The same table with at least three dashes in each cell of its second line: fewer are as good, but not to the
/// library.
QString withLongDashes(const QString &table)
{
    static const QRegularExpression few(QStringLiteral("(?<!-)-{1,2}(?!-)"));
    static const QRegularExpression delimiters(QStringLiteral("^[-:| \\t]+$"));
    const qsizetype begin = table.indexOf(u'\n') + 1;
    const qsizetype stop = table.indexOf(u'\n', begin);
    const qsizetype size = (stop < 0 ? table.size() : stop) - begin;
    QString row = table.mid(begin, size);
    if (begin == 0 || !delimiters.match(row).hasMatch())
        return table;
    return QString(table).replace(begin, size, row.replace(few, QStringLiteral("---")));
}

std::vector<Piece> renderTablePart(QStringView source, const SourceRange &range, const QString &part)
{
    const QString head = source.mid(range.head, range.headEnd - range.head).toString();
    std::vector<Piece> pieces = parse(withLongDashes(head) + part);
    std::erase_if(pieces, [](const Piece &p) { return p.role == Piece::Role::HeadCell; });
    return pieces;
}

} // namespace

bool isSafeLink(const QString &address)
{
    const QString scheme = QUrl(address, QUrl::TolerantMode).scheme().toLower();
    return scheme == u"http" || scheme == u"https" || scheme == u"mailto";
}

std::vector<Piece> renderBlock(QStringView source, const SourceRange &range, bool open, const QString &references)
{
    const QStringView raw = source.mid(range.begin, range.end - range.begin);
    QString part = open ? settledSource(raw, range.kind) : raw.toString();
    if (range.kind == BlockKind::Table && range.continues && range.headEnd > range.head)
        return renderTablePart(source, range, part);
    if (range.kind == BlockKind::Table)
        part = withLongDashes(part);
    const bool nested = range.kind == BlockKind::List && range.indent > 0;
    if (nested)
        part = outdent(part, range.indent);
    const bool wantsReferences = !references.isEmpty() && part.contains(u'[');
    std::vector<Piece> pieces = parse(wantsReferences ? references + u'\n' + part : part);
    if (nested)
        for (Piece &p : pieces)
            p.depth = std::min(p.depth + range.indent / 2, maxListDepth);
    return pieces;
}

} // namespace ui
