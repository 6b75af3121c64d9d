// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QVector>

#include <variant>
#include <vector>

namespace ui {

/// How a message came to its end. The numbers are stored; never reorder them.
enum class MessageState : int {
    Done = 0,
    Streaming = 1,   ///< still growing; its text lies in pieces
    Interrupted = 2, ///< the program ended while it grew
    Stopped = 3,     ///< by the user
    Failed = 4,      ///< with a reason in `error`
};

/// The growing texts of a message. The numbers are stored; never reorder them.
enum class MessagePart : int {
    Text = 0,      ///< the answer itself
    Reasoning = 1, ///< what a model thought before it
    ToolCalls = 2, ///< as tool_calls.h writes them
};

/// One message. The messages of a chat form a tree: regenerating and editing add a sibling, so nothing is lost.
struct MessageRecord {
    qint64 id = 0;
    qint64 chatId = 0;
    qint64 parentId = 0; ///< the message before it; 0 = the first of its chat
    QString role;        ///< user, assistant
    QString text;
    QString reasoning; ///< of an assistant that thinks before it answers
    QString toolCalls; ///< of an assistant, as tool_calls.h writes them
    MessageState state = MessageState::Done;
    QString reason; ///< engine::toString of the finish reason
    QString error;
    QString model;
    int promptTokens = 0;
    int completionTokens = 0;
    int cachedTokens = 0;
    double ttftMs = 0;
    double tokensPerSecond = 0;
    double reasoningMs = 0; ///< from the first thought to what came after them; 0 = unknown
    qint64 createdMs = 0;
    QString facts; ///< of an answer, as answer_facts.h writes them; empty = unknown
    bool operator==(const MessageRecord &) const = default;
};

/// One chat without its messages.
struct ChatRecord {
    qint64 id = 0;
    QString title;
    bool titleEdited = false;
    QString systemPrompt;
    QString model;     ///< that answered last
    qint64 headId = 0; ///< last message of the shown branch
    int messageCount = 0;
    qint64 createdMs = 0;
    qint64 updatedMs = 0;
    qint64 deletedMs = 0; ///< 0 = not in the trash
    bool operator==(const ChatRecord &) const = default;
};

/// New text of a message in state Streaming.
struct TextAppended {
    qint64 messageId = 0;
    QString text;
    MessagePart part = MessagePart::Text;
};

/// Removes a chat and its messages for good.
struct ChatPurged {
    qint64 chatId = 0;
};

/// One change of the store; a record replaces the stored one with its id.
using StoreChange = std::variant<ChatRecord, MessageRecord, TextAppended, ChatPurged>;
/// Changes that are written together or not at all, as a message and the chat that shows it.
using StoreChanges = std::vector<StoreChange>;

/// What is on disk of a message after a commit.
struct SavedMessage {
    qint64 id = 0;
    qint64 characters = 0; ///< of its text (UTF-16 units)
    bool finished = false;
    qint64 reasoningCharacters = 0;
    qint64 toolCallCharacters = 0;
};

/// Whether the store takes what it is given.
struct StoreStatus {
    enum class Mode { Opening, Writable, ReadOnly, Unavailable };
    Mode mode = Mode::Opening;
    bool saving = true; ///< false: changes wait in memory and are tried again
    QString reason;     ///< one sentence, when not saving or when something must be told
    bool operator==(const StoreStatus &) const = default;
};

} // namespace ui
