// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_document.h"

#include "ui/translate.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ui {
namespace {

constexpr qsizetype plainChunk = 4000;   // characters of a user's message in one block
constexpr qsizetype thoughtChunk = 2000; // of reasoning, which is laid out again while it grows
constexpr qsizetype longestThought = 4 * thoughtChunk;
constexpr double charactersPerLine = 100; // for estimates

/// Where a block of plain text that begins at `begin` ends: after a line or a word near `chunk` characters.
qsizetype chunkEnd(const QString &source, qsizetype begin, qsizetype chunk)
{
    if (source.size() - begin <= chunk + 500)
        return source.size();
    qsizetype end = source.lastIndexOf(u'\n', begin + chunk) + 1;
    if (end <= begin + chunk / 2)
        end = source.lastIndexOf(u' ', begin + chunk) + 1;
    if (end <= begin)
        end = begin + chunk - (source[begin + chunk].isLowSurrogate() ? 1 : 0);
    return end;
}

bool isBlank(QStringView text)
{
    return std::all_of(text.begin(), text.end(), [](QChar c) { return c.isSpace(); });
}

} // namespace

bool hasReasoning(const ViewMessage &message)
{
    return !isBlank(message.reasoning);
}

bool isThinking(const ViewMessage &message)
{
    return !message.done && message.calls.isEmpty() && isBlank(message.source) && hasReasoning(message);
}

QString thoughtLabel(const ViewMessage &message)
{
    if (isThinking(message))
        return tr("Thinking…");
    if (message.reasoningMs <= 0)
        return tr("Reasoning");
    const double seconds = message.reasoningMs / 1000;
    if (seconds < 59.95)
        return tr("Thought for %1 s").arg(seconds, 0, 'f', 1);
    const auto whole = std::llround(seconds);
    return tr("Thought for %1 min %2 s").arg(whole / 60).arg(whole % 60);
}

double estimatedHeight(const Block &block, const ViewMessage &message)
{
    const auto length = static_cast<double>(block.range.end - block.range.begin);
    switch (block.kind) {
    case Block::Kind::Sender:
        return metrics::sender;
    case Block::Kind::ThoughtHead:
        return metrics::thoughtHead;
    case Block::Kind::Thought:
        return message.unfolded ? metrics::line * std::max(1.0, std::ceil(length / charactersPerLine)) : 0;
    case Block::Kind::ToolCall:
        return metrics::codeHead + metrics::codePad + metrics::line * std::ceil(length / charactersPerLine)
            + 2 * metrics::gap;
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
    changed = std::min(changed, addThoughts(index));
    m.splitter.append(m.view.source);
    for (const SourceRange &range : m.splitter.takeClosed())
        addRange(index, range, false);
    if (const SourceRange open = m.splitter.open(m.view.source.size()); open.end > open.begin)
        addRange(index, open, true);
    changed = std::min(changed, addCalls(index));
    return std::min(changed, applyReferences(index));
}

void ChatDocument::append(int index, const QString &text, MessagePart part)
{
    ViewMessage &view = message(index).view;
    if (part == MessagePart::Reasoning)
        view.reasoning += text;
    else if (part == MessagePart::ToolCalls)
        extendToolCalls(view.calls, text);
    else
        view.source += text;
}

void ChatDocument::setGrown(int index, const SourceRange &range)
{
    Block &b = block(index);
    b.range = range;
    b.laid = false;
    if (b.pieces.empty())
        m_heights.set(index, estimatedHeight(b, message(b.message).view));
}

/// Reasoning stands in chunks like a user's message, under a line that folds them. Blocks are only ever added at the
/// end, so reasoning that goes on after the answer began lengthens the last chunk, up to a limit.
int ChatDocument::addThoughts(int index)
{
    Message &m = message(index);
    const QString &reasoning = m.view.reasoning;
    if (m.thoughtsTaken == reasoning.size() || !hasReasoning(m.view))
        return blockCount();
    int changed = m.thoughtBlock;
    if (changed < 0) {
        changed = blockCount();
        addBlock(index, Block::Kind::ThoughtHead, {});
        addBlock(index, Block::Kind::Thought, {});
        m.thoughtBlock = blockCount() - 1;
    }
    while (m.thoughtsTaken < reasoning.size()) {
        const qsizetype begin = block(m.thoughtBlock).range.begin;
        const bool mayCut = m.thoughtBlock == blockCount() - 1 || reasoning.size() - begin > longestThought;
        const qsizetype end = mayCut ? chunkEnd(reasoning, begin, thoughtChunk) : reasoning.size();
        setGrown(m.thoughtBlock, {begin, end});
        m.thoughtsTaken = end;
        if (end == reasoning.size())
            break;
        block(m.thoughtBlock).last = false;
        addBlock(index, Block::Kind::Thought, {end, end}).first = false;
        m.thoughtBlock = blockCount() - 1;
    }
    return changed;
}

int ChatDocument::addCalls(int index)
{
    Message &m = message(index);
    const auto rangeOf = [&m](int call) { return SourceRange{0, m.view.calls[call].arguments.size()}; };
    int changed = blockCount();
    if (m.callBlock >= 0 && block(m.callBlock).range.end != rangeOf(m.callsTaken - 1).end) {
        setGrown(m.callBlock, rangeOf(m.callsTaken - 1));
        changed = m.callBlock;
    }
    for (; m.callsTaken < m.view.calls.size(); ++m.callsTaken) {
        addBlock(index, Block::Kind::ToolCall, rangeOf(m.callsTaken)).call = m.callsTaken;
        m.callBlock = blockCount() - 1;
    }
    return changed;
}

int ChatDocument::setUnfolded(int index, bool on)
{
    Message &m = message(index);
    if (std::exchange(m.view.unfolded, on) == on)
        return blockCount();
    int first = blockCount();
    for (int i = endBlock(index) - 1; i >= m.firstBlock; --i) {
        if (block(i).kind == Block::Kind::ThoughtHead)
            first = i;
        if (block(i).kind != Block::Kind::Thought)
            continue;
        block(i).pieces.clear();
        setGrown(i, block(i).range);
    }
    return first;
}

/// A user's message is shown as it was typed, in chunks, so that a pasted megabyte costs only what is seen.
void ChatDocument::addPlain(int index)
{
    Message &m = message(index);
    const QString &source = m.view.source;
    while (m.plainTaken < source.size()) {
        const qsizetype end = chunkEnd(source, m.plainTaken, plainChunk);
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
