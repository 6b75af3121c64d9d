// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_document.h"

#include <algorithm>
#include <cmath>

namespace ui {
namespace {

constexpr qsizetype plainChunk = 4000;    // characters of a user's message in one block
constexpr double charactersPerLine = 100; // for estimates

} // namespace

double estimatedHeight(const Block &block, const ViewMessage &message)
{
    const auto length = static_cast<double>(block.range.end - block.range.begin);
    switch (block.kind) {
    case Block::Kind::Sender:
        return metrics::sender;
    case Block::Kind::Footer:
        return message.role == ViewMessage::Role::User ? metrics::userFooter : metrics::footer;
    case Block::Kind::Notice:
        return 2 * metrics::line + metrics::gap;
    case Block::Kind::Code:
        return metrics::codeHead + metrics::codePad + metrics::line * std::max(1, block.code.count())
            + 2 * metrics::gap;
    case Block::Kind::Plain:
    case Block::Kind::Body:
        return metrics::line * std::max(1.0, std::ceil(length / charactersPerLine)) + metrics::gap;
    }
    return 0;
}

void ChatDocument::clear()
{
    m_messages.clear();
    m_indexes.clear();
    m_blocks.clear();
    m_heights.truncate(0);
}

int ChatDocument::endBlock(int index) const
{
    return index + 1 < messageCount() ? message(index + 1).firstBlock : blockCount();
}

Block &ChatDocument::addBlock(int index, Block::Kind kind, const SourceRange &range)
{
    Block &block = m_blocks.emplace_back();
    block.kind = kind;
    block.message = index;
    block.range = range;
    m_heights.append(estimatedHeight(block, message(index).view));
    return block;
}

int ChatDocument::addMessage(const ViewMessage &added)
{
    Message &message = m_messages.emplace_back();
    message.view = added;
    message.firstBlock = blockCount();
    const int index = messageCount() - 1;
    m_indexes[added.id] = index;
    if (added.role == ViewMessage::Role::Assistant)
        addBlock(index, Block::Kind::Sender, {});
    update(index);
    if (added.done)
        finish(index, added.footer, added.notice);
    return index;
}

int ChatDocument::update(int index)
{
    Message &m = message(index);
    if (m.view.role == ViewMessage::Role::User) {
        const int first = blockCount();
        addPlain(index);
        return first;
    }
    int changed = m.openBlock >= 0 ? m.openBlock : blockCount();
    m.splitter.append(m.view.source);
    for (const SourceRange &range : m.splitter.takeClosed())
        addRange(index, range, false);
    if (const SourceRange open = m.splitter.open(m.view.source.size()); open.end > open.begin)
        addRange(index, open, true);
    return std::min(changed, applyReferences(index));
}

/// A user's message is shown as it was typed, in chunks, so that a pasted megabyte costs only what is seen.
void ChatDocument::addPlain(int index)
{
    Message &m = message(index);
    const QString &source = m.view.source;
    while (m.plainTaken < source.size()) {
        qsizetype end = source.size();
        if (end - m.plainTaken > plainChunk + 500) {
            end = source.lastIndexOf(u'\n', m.plainTaken + plainChunk) + 1;
            if (end <= m.plainTaken + plainChunk / 2)
                end = source.lastIndexOf(u' ', m.plainTaken + plainChunk) + 1;
            if (end <= m.plainTaken)
                end = m.plainTaken + plainChunk - (source[m.plainTaken + plainChunk].isLowSurrogate() ? 1 : 0);
        }
        Block &block = addBlock(index, Block::Kind::Plain, {m.plainTaken, end});
        block.first = m.plainTaken == 0;
        block.last = end == source.size();
        m.plainTaken = end;
    }
}

void ChatDocument::addRange(int index, const SourceRange &range, bool open)
{
    Message &m = message(index);
    const Block::Kind kind = range.kind == BlockKind::Fence ? Block::Kind::Code : Block::Kind::Body;
    if (m.openBlock < 0) {
        addBlock(index, kind, range);
        m.openBlock = blockCount() - 1;
    }
    Block &b = block(m.openBlock);
    if (b.kind != kind || b.range.begin != range.begin) { // the open block turned out to be something else
        b = Block{};
        b.kind = kind;
        b.message = index;
    }
    b.range = range;
    b.open = open;
    b.laid = false;
    if (kind == Block::Kind::Code)
        b.code.extend(m.view.source, range, open);
    // A block that was laid out keeps its height until it is laid out again: estimates would make the end jump.
    if (b.pieces.empty())
        m_heights.set(m.openBlock, estimatedHeight(b, m.view));
    if (!open)
        m.openBlock = -1;
}

/// Blocks that mention a link are rendered again when its definition comes later; returns the first such block.
int ChatDocument::applyReferences(int index)
{
    Message &m = message(index);
    if (m.splitter.references().size() == m.referencesSeen)
        return blockCount();
    m.referencesSeen = m.splitter.references().size();
    int first = blockCount();
    for (int i = blockCount() - 1; i >= m.firstBlock; --i) {
        Block &b = block(i);
        if (b.kind == Block::Kind::Body
            && QStringView(m.view.source).mid(b.range.begin, b.range.end - b.range.begin).contains(u'[')) {
            b.laid = false;
            first = i;
        }
    }
    return first;
}

void ChatDocument::addEnd(int index)
{
    Message &m = message(index);
    if (!m.view.notice.text.isEmpty())
        addBlock(index, Block::Kind::Notice, {});
    addBlock(index, Block::Kind::Footer, {});
}

void ChatDocument::finish(int index, const MessageFooter &footer, const MessageNotice &notice)
{
    update(index);
    Message &m = message(index);
    if (m.openBlock >= 0) {
        Block &b = block(m.openBlock);
        b.open = false;
        b.laid = false;
        if (b.kind == Block::Kind::Code)
            b.code.extend(m.view.source, b.range, false);
        m.openBlock = -1;
    }
    m.view.done = true;
    m.view.footer = footer;
    m.view.notice = notice;
    addEnd(index);
}

void ChatDocument::truncate(int count)
{
    if (count >= messageCount())
        return;
    const int blocks = message(count).firstBlock;
    m_indexes.removeIf([count](QHash<qint64, int>::iterator entry) { return entry.value() >= count; });
    m_messages.resize(static_cast<std::size_t>(count));
    while (static_cast<int>(m_blocks.size()) > blocks)
        m_blocks.pop_back();
    m_heights.truncate(blocks);
}

} // namespace ui
