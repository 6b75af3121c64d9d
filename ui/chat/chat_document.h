// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_blocks.h"
#include "ui/chat/chat_records.h"
#include "ui/chat/height_index.h"

#include <deque>

namespace ui {

/// The messages of one chat as a flat list of blocks with heights. Grows at its end; only the last message streams.
/// Knows no fonts: heights begin as estimates and become real when the view lays a block out.
class ChatDocument {
public:
    struct Message {
        ViewMessage view;
        BlockSplitter splitter;
        qsizetype plainTaken = 0; ///< user's messages: source already in blocks
        qsizetype referencesSeen = 0;
        int firstBlock = 0;
        int openBlock = -1;
        int thoughtBlock = -1; ///< the last one with reasoning
        qsizetype thoughtsTaken = 0;
        int callBlock = -1;                             ///< of the last call
        int callsTaken = 0;                             ///< calls that have a block
        QHash<qsizetype, QVector<double>> tableColumns; ///< widths by the table's begin, so that its parts agree
    };

    void clear();
    int addMessage(const ViewMessage &message);
    void append(int message, const QString &text, MessagePart part = MessagePart::Text);
    /// Splits what was appended; returns the first block that changed, blockCount() when none did.
    int update(int message);
    /// Ends a growing message: its open block closes, notice and footer follow.
    void finish(int message, const MessageFooter &footer, const MessageNotice &notice);
    /// Shows or hides the reasoning of a message; returns the first block that changed.
    int setUnfolded(int message, bool on);
    /// Keeps the first `count` messages.
    void truncate(int count);

    [[nodiscard]] int blockCount() const { return m_heights.size(); }
    [[nodiscard]] int messageCount() const { return static_cast<int>(m_messages.size()); }
    [[nodiscard]] Block &block(int index) { return m_blocks[static_cast<std::size_t>(index)]; }
    [[nodiscard]] const Block &block(int index) const { return m_blocks[static_cast<std::size_t>(index)]; }
    [[nodiscard]] Message &message(int index) { return m_messages[static_cast<std::size_t>(index)]; }
    [[nodiscard]] const Message &message(int index) const { return m_messages[static_cast<std::size_t>(index)]; }
    [[nodiscard]] const Message &messageOf(const Block &block) const { return message(block.message); }
    /// -1 when there is no message with this id.
    [[nodiscard]] int indexOf(qint64 id) const { return m_indexes.value(id, -1); }
    /// One past the last block of a message.
    [[nodiscard]] int endBlock(int message) const;
    [[nodiscard]] HeightIndex &heights() { return m_heights; }
    [[nodiscard]] const HeightIndex &heights() const { return m_heights; }

private:
    Block &addBlock(int message, Block::Kind kind, const SourceRange &range);
    void addRange(int message, const SourceRange &range, bool open);
    void addPlain(int message);
    int addThoughts(int message);
    int addCalls(int message);
    void setGrown(int block, const SourceRange &range);
    void addEnd(int message);
    int applyReferences(int message);

    std::deque<Message> m_messages;
    QHash<qint64, int> m_indexes; ///< of messages, by id
    std::deque<Block> m_blocks;
    HeightIndex m_heights;
};

/// Height of a block that was not laid out yet.
[[nodiscard]] double estimatedHeight(const Block &block, const ViewMessage &message);

} // namespace ui
