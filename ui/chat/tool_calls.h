// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>
#include <QStringView>
#include <QVector>

#include <vector>

namespace engine {
struct ToolCall;
struct ToolCallDelta;
} // namespace engine

namespace ui {

/// A call that an answer makes of a tool, as it is shown.
struct ToolCallText {
    QString name;
    QString arguments; ///< JSON text, as the model wrote it
    bool operator==(const ToolCallText &) const = default;
};

/// Calls are streamed and kept as one text that only grows: U+001E, the name, U+001F, the arguments, and so on.
/// JSON allows neither character in a text, so those that a model writes all the same are left out.
/// `last` is the call that the text before ends with (-1 = none) and becomes the one it then ends with.
/// \pre calls come one after the other
[[nodiscard]] QString toolCallText(const std::vector<engine::ToolCallDelta> &deltas, int *last);

/// Takes the next piece of such a text. \pre pieces are cut nowhere inside a name
void extendToolCalls(QVector<ToolCallText> &calls, QStringView text);
[[nodiscard]] QVector<ToolCallText> toolCallsOf(QStringView text);

/// The calls as the engine takes them in a conversation.
[[nodiscard]] std::vector<engine::ToolCall> engineCallsOf(QStringView text);
/// One call a line, "name arguments", for the clipboard.
[[nodiscard]] QString readableToolCalls(QStringView text);

} // namespace ui
