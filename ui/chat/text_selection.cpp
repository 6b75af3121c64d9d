// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/text_selection.h"

#include <algorithm>

namespace ui {
namespace {

bool isText(const Block &block, const ViewMessage &message)
{
    switch (block.kind) {
    case Block::Kind::Thought:
        return message.unfolded;
    case Block::Kind::Plain:
    case Block::Kind::Body:
    case Block::Kind::Code:
    case Block::Kind::ToolCall:
        return true;
    default:
        return false;
    }
}

QString trimmedEnd(QString text)
{
    while (text.endsWith(u'\n'))
        text.chop(1);
    return text;
}

bool sameRow(const Block &block, int a, int b)
{
    const auto size = static_cast<int>(block.pieces.size());
    if (a < 0 || a >= size || b >= size)
        return false;
    const Piece &x = block.pieces[static_cast<std::size_t>(a)].piece;
    const Piece &y = block.pieces[static_cast<std::size_t>(b)].piece;
    const auto cell = [](const Piece &p) { return p.role == Piece::Role::Cell || p.role == Piece::Role::HeadCell; };
    return cell(x) && cell(y) && x.row == y.row;
}

/// The selected part of one block as it is shown.
QString shownPart(const TextSelection &selection, int index, const Block &block, const QStringList &texts,
                  const ChatDocument::Message &message)
{
    QString out;
    int last = -1;
    for (int k = 0; k < texts.size(); ++k) {
        const auto [from, to] = selection.within(index, k, static_cast<int>(texts[k].size()));
        const bool empty = texts[k].isEmpty() && selection.begin() <= TextPosition{index, k, 0}
            && selection.end() >= TextPosition{index, k, 0};
        if (to <= from && !empty)
            continue;
        if (last >= 0) {
            const bool broken = block.kind == Block::Kind::Code && block.code.isBroken(message.view.source, last);
            if (!broken)
                out += sameRow(block, last, k) ? u'\t' : u'\n';
        }
        out += QStringView(texts[k]).mid(from, to - from);
        last = k;
    }
    return out.replace(QChar::LineSeparator, u'\n');
}

bool coversWhole(const TextSelection &selection, int index, const QStringList &texts)
{
    const int lastPiece = static_cast<int>(texts.size()) - 1;
    const TextPosition first{index, 0, 0};
    const TextPosition last{index, lastPiece, lastPiece < 0 ? 0 : static_cast<int>(texts.last().size())};
    return selection.begin() <= first && selection.end() >= last;
}

} // namespace

QPair<int, int> TextSelection::within(int block, int piece, int length) const
{
    if (isEmpty())
        return {0, 0};
    const TextPosition a = begin();
    const TextPosition b = end();
    const TextPosition first{block, piece, 0};
    const TextPosition last{block, piece, length};
    if (b < first || last < a)
        return {0, 0};
    return {a > first ? a.offset : 0, b < last ? b.offset : length};
}

QStringList shownTexts(const Block &block, const ChatDocument::Message &message)
{
    QStringList out;
    const QString &source = message.view.source;
    if (block.kind == Block::Kind::Code) {
        for (int i = 0; i < block.code.count(); ++i)
            out << displayText(block.code.line(source, i), true);
    } else if (!block.pieces.empty()) {
        for (const LaidPiece &laid : block.pieces)
            out << (laid.layout ? laid.layout->text() : QString());
    } else if (block.kind == Block::Kind::ToolCall) {
        out << message.view.calls[block.call].name << message.view.calls[block.call].arguments;
    } else if (block.kind == Block::Kind::Plain || block.kind == Block::Kind::Thought) {
        out << displayText(
            QStringView(sourceOf(block, message.view)).mid(block.range.begin, block.range.end - block.range.begin),
            false);
    } else if (block.kind == Block::Kind::Body) {
        for (const Piece &piece : renderBlock(source, block.range, block.open, message.splitter.references()))
            out << piece.text;
    }
    return out;
}

QString TextSelection::text(const ChatDocument &document) const
{
    if (isEmpty())
        return {};
    QStringList parts;
    const QString *runSource = nullptr; // whole blocks side by side are one slice of the source
    SourceRange run;
    const auto endRun = [&] {
        if (runSource)
            parts << trimmedEnd(runSource->mid(run.begin, run.end - run.begin));
        runSource = nullptr;
    };
    const int last = std::min(end().block, document.blockCount() - 1);
    for (int i = begin().block; i <= last; ++i) {
        const Block &block = document.block(i);
        const ViewMessage &message = document.messageOf(block).view;
        if (!isText(block, message))
            continue;
        const bool hasSource = block.kind != Block::Kind::ToolCall; // a call is copied as it is shown
        const bool inside = hasSource && i > begin().block && i < end().block;
        const QStringList texts = inside ? QStringList() : shownTexts(block, document.messageOf(block));
        const bool aloneInCode = block.kind == Block::Kind::Code && begin().block == end().block;
        if (inside || (hasSource && coversWhole(*this, i, texts) && !aloneInCode)) {
            if (runSource == &sourceOf(block, message) && run.end == block.range.begin) {
                run.end = block.range.end;
                continue;
            }
            endRun();
            runSource = &sourceOf(block, message);
            run = block.range;
            continue;
        }
        endRun();
        if (const QString part = shownPart(*this, i, block, texts, document.messageOf(block)); !part.isEmpty())
            parts << part;
    }
    endRun();
    return parts.join(QStringLiteral("\n\n"));
}

} // namespace ui
