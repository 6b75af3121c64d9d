// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/block_layout.h"

#include "ui/chat/highlight.h"
#include "ui/theme.h"

#include <QFontMetricsF>
#include <QTextCharFormat>

#include <algorithm>
#include <cmath>
#include <utility>

namespace ui {
namespace {

using Role = Piece::Role;
constexpr double unbroken = 1e6;     // a width that no line reaches
constexpr double widestCell = 360;   // natural width of a table's column, at most
constexpr double narrowestCell = 72; // a table with more columns than fit scrolls sideways
constexpr std::size_t keptLines = 400;
constexpr qsizetype shownArguments = 4000; // of a tool's call; more would be laid out with every new token
constexpr qsizetype shownName = 80;

bool isCell(const LaidPiece &laid)
{
    return laid.piece.role == Role::Cell || laid.piece.role == Role::HeadCell;
}

enum class Reads { Right, Left };

/// Which way a piece reads; code always to the right, and the columns of a table keep their places.
Reads reads(const LaidPiece &laid)
{
    const bool fixed = laid.piece.role == Role::Code || isCell(laid);
    return !fixed && laid.piece.text.isRightToLeft() ? Reads::Left : Reads::Right;
}

/// Whether the text has a word of hundreds of characters: looking for a place to break in it, and shaping it with a
/// font that has contextual forms for brackets, take quadratic time.
bool hasLongWord(QStringView text)
{
    constexpr qsizetype longWord = 300;
    qsizetype run = 0;
    for (const QChar c : text) {
        run = c.isSpace() || c == QChar::LineSeparator ? 0 : run + 1;
        if (run > longWord)
            return true;
    }
    return false;
}

bool isAscii(QStringView text)
{
    return std::all_of(text.begin(), text.end(),
                       [](QChar c) { return c.unicode() < 0x80 || c == QChar::LineSeparator; });
}

QColor tokenColor(const Tokens &tokens, highlight::Token token)
{
    switch (token) {
    case highlight::Token::Keyword:
        return tokens.keyword;
    case highlight::Token::Type:
        return tokens.type;
    case highlight::Token::String:
        return tokens.string;
    case highlight::Token::Number:
        return tokens.number;
    case highlight::Token::Comment:
        return tokens.comment;
    case highlight::Token::Inserted:
        return tokens.okText;
    case highlight::Token::Removed:
        return tokens.badText;
    }
    return tokens.text;
}

/// Colours of a code text that may have several lines, from their lexer state `state` on.
QVector<QTextLayout::FormatRange> codeFormats(const Tokens &tokens, const highlight::Language *language,
                                              QStringView text, int state)
{
    QVector<QTextLayout::FormatRange> out;
    if (!language)
        return out;
    for (qsizetype begin = 0; begin <= text.size();) {
        qsizetype end = text.indexOf(u'\n', begin);
        end = end < 0 ? text.size() : end;
        QVector<highlight::Span> spans;
        state = highlight::lexLine(*language, text.mid(begin, end - begin), state, &spans);
        for (const highlight::Span &span : spans) {
            QTextCharFormat format;
            format.setForeground(tokenColor(tokens, span.token));
            out.append({static_cast<int>(begin) + span.start, span.length, format});
        }
        begin = end + 1;
    }
    return out;
}

} // namespace

QFont BlockLayout::codeFont() const
{
    return m_theme.mono(13);
}

QFont BlockLayout::pieceFont(Role role) const
{
    switch (role) {
    case Role::Heading1:
        return m_theme.ui(20, QFont::DemiBold);
    case Role::Heading2:
        return m_theme.ui(17, QFont::DemiBold);
    case Role::Heading3:
        return m_theme.ui(15, QFont::DemiBold);
    case Role::HeadCell:
        return m_theme.ui(13, QFont::DemiBold);
    case Role::Cell:
    case Role::Thought:
        return m_theme.ui(13);
    case Role::Code:
        return codeFont();
    default:
        return m_theme.ui(14);
    }
}

double BlockLayout::lineHeight(Role role) const
{
    switch (role) {
    case Role::Heading1:
        return 30;
    case Role::Heading2:
        return 26;
    case Role::Cell:
    case Role::HeadCell:
    case Role::Code:
    case Role::Thought:
        return 20;
    default:
        return metrics::line;
    }
}

QVector<QTextLayout::FormatRange> BlockLayout::formats(const Piece &piece) const
{
    if (piece.role == Role::Code)
        return codeFormats(m_theme.tokens(), highlight::find(piece.language), piece.text, 0);
    QVector<QTextLayout::FormatRange> out;
    for (const TextSpan &span : piece.spans) {
        QTextCharFormat format;
        if (span.style & TextSpan::Strong)
            format.setFontWeight(QFont::DemiBold);
        if (span.style & TextSpan::Emphasis)
            format.setFontItalic(true);
        if (span.style & TextSpan::Strike)
            format.setFontStrikeOut(true);
        if (span.style & TextSpan::Code)
            format.setFont(m_theme.mono(pieceFont(piece.role).pixelSize() - 1),
                           QTextCharFormat::FontPropertiesSpecifiedOnly);
        if (span.style & TextSpan::Link)
            format.setForeground(m_theme.tokens().accent);
        out.append({span.start, span.length, format});
    }
    return out;
}

void BlockLayout::layOutPiece(LaidPiece &laid, double width) const
{
    const double line = lineHeight(laid.piece.role);
    QString text = laid.piece.text;
    text.replace(u'\n', QChar::LineSeparator);
    const bool longWord = hasLongWord(text);
    QFont font = pieceFont(laid.piece.role);
    if (longWord && isAscii(text))
        font.setStyleStrategy(QFont::PreferNoShaping);
    laid.layout = std::make_unique<QTextLayout>(text, font);
    QTextOption option;
    option.setWrapMode(longWord ? QTextOption::WrapAnywhere : QTextOption::WrapAtWordBoundaryOrAnywhere);
    option.setTabStopDistance(4 * QFontMetricsF(codeFont()).horizontalAdvance(u'0'));
    option.setAlignment(width == unbroken                ? Qt::AlignLeft
                            : reads(laid) == Reads::Left ? Qt::AlignRight
                                                         : laid.piece.align);
    laid.layout->setTextOption(option);
    laid.layout->setFormats(formats(laid.piece));
    laid.layout->setCacheEnabled(true);
    laid.layout->beginLayout();
    double widest = 0;
    double y = 0;
    for (QTextLine l; (l = laid.layout->createLine()).isValid(); y += line) {
        l.setLineWidth(width);
        l.setPosition({0, y + (line - l.height()) / 2});
        widest = std::max(widest, l.naturalTextWidth());
    }
    laid.layout->endLayout();
    if (!isCell(laid) || width == unbroken) // a cell keeps the width it would like, or its column would jitter
        laid.natural = widest;
    laid.width = laid.box = width;
    laid.height = y;
}

/// Widths of a table's columns: as wide as their text up to a limit, then shrunk together to fit.
QVector<double> BlockLayout::columnWidths(const Block &block, std::size_t from, std::size_t to, double width) const
{
    QVector<double> natural;
    for (std::size_t k = from; k < to; ++k) {
        const LaidPiece &laid = block.pieces[k];
        if (natural.size() <= laid.piece.column)
            natural.resize(laid.piece.column + 1);
        const double text = laid.layout ? laid.natural : 0;
        double &wide = natural[laid.piece.column];
        wide = std::max(wide, std::min(text, widestCell) + 4 * metrics::cellPad);
    }
    double total = 0;
    for (const double w : natural)
        total += w;
    const double room = std::max(width, narrowestCell * static_cast<double>(natural.size()));
    // Narrow columns keep their width; the wide ones share what is left.
    double fixed = 0;
    double flexible = 0;
    const double fair = room / static_cast<double>(std::max<qsizetype>(1, natural.size()));
    for (const double w : natural)
        (w <= fair ? fixed : flexible) += w;
    for (double &w : natural)
        if (total > room && w > fair)
            w = std::max(narrowestCell, std::floor(w * (room - fixed) / flexible));
        else
            w = std::ceil(w);
    return natural;
}

double BlockLayout::placeTable(Block &block, std::size_t from, std::size_t to, ChatDocument::Message &message,
                               double width, double y)
{
    for (std::size_t k = from; k < to; ++k)
        if (!block.pieces[k].layout)
            layOutPiece(block.pieces[k], unbroken);
    QVector<double> columns = columnWidths(block, from, to, width);
    if (block.range.kind == BlockKind::Table) {
        QVector<double> &shared = message.tableColumns[block.range.head];
        if (block.range.continues && shared.size() >= columns.size())
            columns = shared;
        else
            shared = columns;
    }
    QVector<double> left{0};
    for (const double w : columns)
        left.append(left.last() + w);
    block.contentWidth = std::max(block.contentWidth, left.last());
    double rowTop = y;
    for (std::size_t k = from; k < to;) {
        double rowHeight = 0;
        const int row = block.pieces[k].piece.row;
        for (; k < to && block.pieces[k].piece.row == row; ++k) {
            LaidPiece &laid = block.pieces[k];
            laid.box = columns[laid.piece.column] - 2 * metrics::cellPad;
            // Most cells fit as they were measured; only the others are broken into lines.
            const double wanted = laid.natural <= laid.box ? unbroken : laid.box;
            if (laid.width != wanted)
                layOutPiece(laid, wanted);
            const double spare = wanted == unbroken ? laid.box - laid.natural : 0;
            const double share = laid.piece.align == Qt::AlignRight ? 1
                : laid.piece.align == Qt::AlignHCenter              ? 0.5
                                                                    : 0;
            laid.x = left[laid.piece.column] + std::floor(spare * share);
            laid.y = rowTop + metrics::cellPad;
            rowHeight = std::max(rowHeight, laid.height);
        }
        rowTop += rowHeight + 2 * metrics::cellPad;
    }
    return rowTop;
}

double BlockLayout::layOutBody(Block &block, ChatDocument::Message &message, double width)
{
    std::vector<LaidPiece> old = std::exchange(block.pieces, {});
    std::vector<Piece> pieces =
        renderBlock(message.view.source, block.range, block.open, message.splitter.references());
    block.pieces.resize(pieces.size());
    for (std::size_t k = 0; k < pieces.size(); ++k) {
        // Only the piece that grew is laid out again.
        if (k < old.size() && old[k].layout && old[k].piece == pieces[k])
            block.pieces[k] = std::move(old[k]);
        else
            block.pieces[k].piece = std::move(pieces[k]);
    }
    block.contentWidth = 0;
    double y = 0;
    for (std::size_t k = 0; k < block.pieces.size();) {
        LaidPiece &laid = block.pieces[k];
        if (isCell(laid)) {
            std::size_t end = k;
            while (end < block.pieces.size() && isCell(block.pieces[end]))
                ++end;
            y = placeTable(block, k, end, message, width, y) + 4;
            k = end;
            continue;
        }
        const bool code = laid.piece.role == Role::Code;
        const double pad = code ? metrics::codePad : 0;
        const double indent = laid.piece.depth * metrics::indent;
        const bool leftward = reads(laid) == Reads::Left; // indented, and its marker painted, at the right
        laid.x = (leftward ? 0 : indent) + laid.piece.quote * metrics::quote + pad;
        laid.y = y + pad;
        if (laid.piece.role == Role::Rule) {
            laid.y = y + 8;
            y += 25;
        } else {
            const double w = std::max(40.0, width - laid.x - pad - (leftward ? indent : 0));
            if (!laid.layout || laid.width != w)
                layOutPiece(laid, w);
            const bool heading = laid.piece.role >= Role::Heading1 && laid.piece.role <= Role::Heading3;
            y += laid.height + 2 * pad + (laid.piece.depth > 0 ? 2 : heading ? 6 : 8);
        }
        ++k;
    }
    if (block.pieces.empty())
        return 0;                                                    // link definitions only
    return std::ceil(y + 2) + (block.contentWidth > width ? 12 : 0); // room for the handle of a wide table
}

double BlockLayout::layOutPlain(Block &block, const ViewMessage &message, double width)
{
    QStringView text = QStringView(message.source).mid(block.range.begin, block.range.end - block.range.begin);
    while (text.endsWith(u'\n'))
        text.chop(1);
    block.pieces.resize(1);
    LaidPiece &laid = block.pieces.front();
    laid.piece.text = displayText(text, false);
    const double room = std::min(width - 120, metrics::bubbleWidth) - 2 * metrics::bubblePad;
    layOutPiece(laid, std::max(40.0, room));
    if (reads(laid) == Reads::Left && laid.natural < room - 1) // aligned at the right of the bubble, not of the room
        layOutPiece(laid, std::ceil(laid.natural) + 1);
    const double above = block.first ? 11 : 0;
    laid.x = metrics::bubblePad;
    laid.y = above;
    const bool alone = block.first && block.last;
    block.width = alone ? std::ceil(laid.natural) + 2 * metrics::bubblePad : room + 2 * metrics::bubblePad;
    return std::ceil(above + laid.height + (block.last ? 11 : 0));
}

double BlockLayout::layOutNotice(Block &block, const ViewMessage &message, double width)
{
    block.pieces.resize(1);
    LaidPiece &laid = block.pieces.front();
    laid.piece.text = displayText(message.notice.text, true);
    layOutPiece(laid, std::max(40.0, width - 44));
    laid.x = 30;
    laid.y = 10;
    return std::ceil(laid.height + 20 + (message.notice.actions.isEmpty() ? 0 : 30) + metrics::gap);
}

double BlockLayout::layOutThought(Block &block, const ViewMessage &message, double width)
{
    block.pieces.clear();
    if (!message.unfolded)
        return 0;
    const QStringView text =
        QStringView(message.reasoning).mid(block.range.begin, block.range.end - block.range.begin).trimmed();
    LaidPiece &laid = block.pieces.emplace_back();
    laid.piece.role = Role::Thought;
    laid.piece.text = displayText(text, false);
    laid.x = metrics::quote;
    laid.y = block.first ? 0 : 4;
    layOutPiece(laid, std::max(40.0, width - laid.x));
    return std::ceil(laid.y + laid.height + (block.last ? metrics::gap : 0));
}

/// The call's name over its arguments, both as code.
double BlockLayout::layOutToolCall(Block &block, const ViewMessage &message, double width)
{
    const ToolCallText &call = message.calls[block.call];
    const qsizetype more = call.arguments.size() - shownArguments;
    QString arguments = displayText(QStringView(call.arguments).left(shownArguments), true);
    if (more > 0)
        arguments += QStringLiteral("\n… ") + QString::number(more);
    const auto place = [&](std::size_t k, const QString &text, double y, double room) {
        LaidPiece &laid = block.pieces[k];
        Piece piece;
        piece.role = Role::Code;
        piece.text = text;
        piece.language = k == 0 ? QString() : QStringLiteral("json");
        if (!laid.layout || laid.piece != piece || laid.width != room) {
            laid.piece = std::move(piece);
            layOutPiece(laid, room);
        }
        laid.x = metrics::codePad + 2;
        laid.y = y;
        return y + laid.height;
    };
    block.pieces.resize(call.arguments.isEmpty() ? 1 : 2);
    const double top = metrics::gap / 2;
    double bottom = place(0, displayText(call.name.left(shownName), true), top + 7, std::max(40.0, width - 170));
    if (block.pieces.size() > 1)
        bottom = place(1, arguments, bottom + 6, std::max(40.0, width - 2 * (metrics::codePad + 2)));
    return std::ceil(bottom + 9 + metrics::gap);
}

double BlockLayout::layOut(Block &block, ChatDocument::Message &message, double width)
{
    block.laid = true;
    switch (block.kind) {
    case Block::Kind::Plain:
        return layOutPlain(block, message.view, width);
    case Block::Kind::Body:
        return layOutBody(block, message, width);
    case Block::Kind::Thought:
        return layOutThought(block, message.view, width);
    case Block::Kind::ToolCall:
        return layOutToolCall(block, message.view, width);
    case Block::Kind::Notice:
        return layOutNotice(block, message.view, width);
    default:
        return estimatedHeight(block, message.view);
    }
}

QTextLayout &BlockLayout::codeLine(Block &block, const ViewMessage &message, int line)
{
    const QStringView source = block.code.line(message.source, line);
    const QString text = displayText(source, true);
    std::unique_ptr<QTextLayout> &kept = block.lines[line];
    if (kept && kept->text() == text)
        return *kept;
    kept = std::make_unique<QTextLayout>(text, codeFont());
    QTextOption option;
    option.setWrapMode(QTextOption::NoWrap);
    option.setTabStopDistance(4 * QFontMetricsF(codeFont()).horizontalAdvance(u'0'));
    kept->setTextOption(option);
    kept->setFormats(codeFormats(m_theme.tokens(), block.code.language(), text, block.code.state(line)));
    kept->setCacheEnabled(true);
    kept->beginLayout();
    QTextLine l = kept->createLine();
    l.setLineWidth(unbroken);
    kept->endLayout();
    block.contentWidth = std::max(block.contentWidth, std::ceil(l.naturalTextWidth()));
    QTextLayout &result = *kept;
    if (block.lines.size() > keptLines)
        std::erase_if(block.lines, [line](const auto &entry) { return std::abs(entry.first - line) > 120; });
    return result;
}

} // namespace ui
