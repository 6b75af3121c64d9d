// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/block_splitter.h"
#include "ui/chat/code_lines.h"
#include "ui/chat/markdown.h"
#include "ui/chat/tool_calls.h"

#include <QHash>
#include <QString>
#include <QTextLayout>
#include <QVector>

#include <memory>
#include <unordered_map>
#include <vector>

namespace ui {

/// Measures of the conversation, in pixels.
namespace metrics {
inline constexpr double side = 24;         ///< left and right of the column
inline constexpr double columnWidth = 860; ///< at most; about 100 characters
inline constexpr double top = 16;
inline constexpr double bottom = 8;
inline constexpr double line = 22;
inline constexpr double gap = 10;
inline constexpr double sender = 38;
inline constexpr double footer = 40;
inline constexpr double userFooter = 28;
inline constexpr double thoughtHead = 32;
inline constexpr double codeHead = 30;
inline constexpr double codePad = 12;
inline constexpr double indent = 22; ///< of one list level
inline constexpr double quote = 14;  ///< of one quote level
inline constexpr double cellPad = 6;
inline constexpr double bubblePad = 16;
inline constexpr double bubbleWidth = 560; ///< text of a user's message, at most
} // namespace metrics

/// Something to do with a message; `id` comes back through ChatView::actionTriggered.
struct MessageAction {
    QString id;
    QString label;
    QString key; ///< shortcut shown beside, may be empty
    bool operator==(const MessageAction &) const = default;
};

/// The quiet line under a message.
struct MessageFooter {
    QString text;
    QVector<MessageAction> actions;
    bool operator==(const MessageFooter &) const = default;
};

/// A remark in place: an error, or why an answer ended and what can be done.
struct MessageNotice {
    enum class Severity { Info, Warning, Error };
    Severity severity = Severity::Info;
    QString text; ///< plain; empty = no notice
    QVector<MessageAction> actions;
};

/// One message of the view.
struct ViewMessage {
    enum class Role { User, Assistant };
    qint64 id = 0;
    Role role = Role::User;
    QString sender;
    QString source;              ///< append only
    QString reasoning;           ///< append only; shown above the answer as a block that folds
    QVector<ToolCallText> calls; ///< append only
    double reasoningMs = 0;      ///< 0 = unknown
    bool unfolded = false;       ///< the reasoning is shown
    bool done = true;
    MessageFooter footer;
    MessageNotice notice; ///< shown when done
};

/// A piece with its place in its block and its lines.
struct LaidPiece {
    Piece piece;
    std::unique_ptr<QTextLayout> layout;
    double x = 0;
    double y = 0;
    double width = 0; ///< that the lines were broken for
    double box = 0;   ///< room that it takes sideways, for the mouse
    double height = 0;
    double natural = 0; ///< width of the widest line; of a table's cell, unbroken
};

/// What the view scrolls over: a part of a message with a height.
struct Block {
    enum class Kind : quint8 { Sender, ThoughtHead, Thought, Plain, Body, Code, ToolCall, Notice, Footer };
    Kind kind = Kind::Body;
    int message = 0;
    SourceRange range; ///< Thought: of the reasoning; ToolCall: of the call's arguments
    int call = 0;      ///< ToolCall: its index
    bool open = false; ///< still growing
    bool laid = false; ///< its height is real
    bool first = true; ///< Plain, Thought: of its message
    bool last = true;
    std::vector<LaidPiece> pieces; ///< made when first seen, dropped when far away
    CodeLines code;
    std::unordered_map<int, std::unique_ptr<QTextLayout>> lines; ///< Code: of lines lately shown
    double width = 0;                                            ///< Plain: of the bubble
    double contentWidth = 0;                                     ///< Code, tables: what scrolls sideways
    double scrollX = 0;
};

/// The text that a block's range is a part of.
[[nodiscard]] inline const QString &sourceOf(const Block &block, const ViewMessage &message)
{
    return block.kind == Block::Kind::Thought ? message.reasoning : message.source;
}

/// Whether there is reasoning to show; models that are told not to think leave empty lines.
[[nodiscard]] bool hasReasoning(const ViewMessage &message);
/// Whether an answer has thoughts and nothing else yet.
[[nodiscard]] bool isThinking(const ViewMessage &message);
/// What stands over the reasoning: "Thinking…" while it grows, then how long it took.
[[nodiscard]] QString thoughtLabel(const ViewMessage &message);

/// A position in the shown text; ordered from top to bottom.
struct TextPosition {
    int block = -1;
    int piece = 0; ///< Code: line
    int offset = 0;
    auto operator<=>(const TextPosition &) const = default;
};

} // namespace ui
