// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/tool_calls.h"

#include "engine/api/output.h"

#include <QStringList>

#include <algorithm>

namespace ui {
namespace {

constexpr QChar callMark(u'\x1E');
constexpr QChar argumentsMark(u'\x1F');

QString cleaned(const std::string &text)
{
    QString out = QString::fromStdString(text);
    out.remove(callMark);
    out.remove(argumentsMark);
    return out;
}

} // namespace

QString toolCallText(const std::vector<engine::ToolCallDelta> &deltas, int *last)
{
    QString out;
    for (const engine::ToolCallDelta &delta : deltas) {
        if (delta.index != *last) {
            out += callMark + cleaned(delta.name) + argumentsMark;
            *last = delta.index;
        }
        out += cleaned(delta.arguments);
    }
    return out;
}

void extendToolCalls(QVector<ToolCallText> &calls, QStringView text)
{
    while (!text.isEmpty()) {
        if (text.startsWith(callMark)) {
            const qsizetype found = text.indexOf(argumentsMark);
            const qsizetype end = found < 0 ? text.size() : found;
            calls.append({text.mid(1, end - 1).toString(), {}});
            text = text.mid(std::min(end + 1, text.size()));
            continue;
        }
        if (calls.isEmpty()) // damaged: arguments without a call
            calls.append(ToolCallText{});
        const qsizetype found = text.indexOf(callMark);
        const qsizetype end = found < 0 ? text.size() : found;
        calls.last().arguments += text.left(end);
        text = text.mid(end);
    }
}

QVector<ToolCallText> toolCallsOf(QStringView text)
{
    QVector<ToolCallText> calls;
    extendToolCalls(calls, text);
    return calls;
}

std::vector<engine::ToolCall> engineCallsOf(QStringView text)
{
    std::vector<engine::ToolCall> out;
    const QVector<ToolCallText> calls = toolCallsOf(text);
    for (const ToolCallText &call : calls)
        out.push_back({call.name.toStdString(), call.arguments.isEmpty() ? "{}" : call.arguments.toStdString()});
    return out;
}

QString readableToolCalls(QStringView text)
{
    QStringList lines;
    const QVector<ToolCallText> calls = toolCallsOf(text);
    for (const ToolCallText &call : calls)
        lines << QString(call.name + u' ' + call.arguments).trimmed();
    return lines.join(u'\n');
}

} // namespace ui
