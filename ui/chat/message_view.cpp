// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/message_view.h"

#include "ui/chat/answer_facts.h"
#include "ui/chat/tool_calls.h"
#include "ui/format.h"
#include "ui/translate.h"

#include <algorithm>

namespace ui {
namespace {

MessageAction make(const char16_t *id, const QString &label)
{
    return {QString::fromUtf16(id), label, {}};
}

QStringList figuresOf(const MessageRecord &message)
{
    QStringList parts;
    if (message.ttftMs > 0)
        parts << QStringLiteral("TTFT ") + format::milliseconds(message.ttftMs);
    if (message.tokensPerSecond > 0)
        parts << format::number(message.tokensPerSecond) + QStringLiteral(" tok/s");
    if (message.completionTokens > 0)
        parts << format::counted(message.completionTokens, tr("token"), tr("tokens"));
    if (message.promptTokens > 0)
        parts << (message.cachedTokens > 0
                      ? tr("prompt %1 (%2 cached)")
                            .arg(format::count(message.promptTokens), format::count(message.cachedTokens))
                      : tr("prompt %1").arg(format::count(message.promptTokens)));
    return parts;
}

bool isContextEnd(const MessageRecord &message)
{
    const bool refusedPrompt = message.state == MessageState::Failed
        && (message.error.contains(u"max-model-len") || message.error.contains(u"max_model_len"));
    return message.reason == u"context" || refusedPrompt;
}

MessageNotice contextNotice(const MessageRecord &message, const MessageSurroundings &around)
{
    MessageNotice notice;
    notice.severity = MessageNotice::Severity::Warning;
    const int used = message.promptTokens + message.completionTokens;
    notice.text = message.state == MessageState::Failed
        ? format::sentence(message.error)
        : tr("The context is full, so the answer ends here: %1 of %2 tokens are used.")
              .arg(format::count(used), format::count(std::max(used, around.maxModelLen)));
    notice.actions << make(action::continueInNewChat, tr("New chat with the last messages"))
                   << make(action::shorten, tr("Shorten my last message"));
    if (const int longer = longerContext(around); longer > 0)
        notice.actions << make(action::reloadLonger,
                               tr("Reload with a context of %1 tokens").arg(format::count(longer)));
    return notice;
}

} // namespace

int longerContext(const MessageSurroundings &around)
{
    const int wanted = std::min(around.contextLength, around.maxModelLen * 2);
    return around.maxModelLen > 0 && wanted > around.maxModelLen ? wanted : 0;
}

MessageFooter footerOf(const MessageRecord &message, const MessageSurroundings &around)
{
    MessageFooter footer;
    const bool user = message.role == u"user";
    QStringList parts = user ? QStringList() : figuresOf(message);
    if (message.state == MessageState::Stopped)
        parts << tr("stopped");
    else if (message.state == MessageState::Interrupted)
        parts << tr("interrupted");
    else if (message.reason == u"length")
        parts << tr("ended at max tokens");
    if (around.notSaved)
        parts << tr("not saved");
    footer.text = parts.join(QStringLiteral("   "));
    if (around.variants > 1) {
        const QString place = QStringLiteral("%1/%2").arg(around.variant + 1).arg(around.variants);
        footer.actions << make(action::previousVariant, QStringLiteral("‹ ") + place)
                       << make(action::nextVariant, QStringLiteral("›"));
    }
    if (AnswerFacts::isSlow(message.facts))
        footer.actions << make(action::why, tr("Why slow?"));
    footer.actions << make(action::copy, tr("Copy"));
    if (around.mayAsk)
        footer.actions << (user ? make(action::edit, tr("Edit")) : make(action::regenerate, tr("Regenerate")));
    return footer;
}

MessageNotice noticeOf(const MessageRecord &message, const MessageSurroundings &around)
{
    if (isContextEnd(message))
        return contextNotice(message, around);
    MessageNotice notice;
    if (message.state == MessageState::Failed) {
        notice.severity = MessageNotice::Severity::Error;
        notice.text =
            message.error.isEmpty() ? tr("The answer failed without a reason.") : format::sentence(message.error);
        notice.actions << make(action::regenerate, tr("Try again"));
    } else if (message.state == MessageState::Interrupted) {
        notice.text = tr("The program ended while this answer was written. What was saved of it is shown.");
        notice.actions << make(action::regenerate, tr("Answer again"));
    }
    return notice;
}

ViewMessage viewMessageOf(const MessageRecord &message, const MessageSurroundings &around)
{
    ViewMessage view;
    view.id = message.id;
    const bool user = message.role == u"user";
    view.role = user ? ViewMessage::Role::User : ViewMessage::Role::Assistant;
    view.sender = user ? tr("You") : message.model.isEmpty() ? tr("Model") : message.model;
    view.source = message.text;
    view.reasoning = message.reasoning;
    view.reasoningMs = message.reasoningMs;
    view.calls = toolCallsOf(message.toolCalls);
    view.done = message.state != MessageState::Streaming;
    view.footer = footerOf(message, around);
    if (view.done)
        view.notice = noticeOf(message, around);
    return view;
}

} // namespace ui
