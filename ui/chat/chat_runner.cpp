// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_runner.h"

#include "ui/chat/answer_facts.h"
#include "ui/chat/tool_calls.h"
#include "ui/format.h"
#include "ui/latency_book.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ui {
namespace {

constexpr qint64 progressMs = 250;

MessageState stateFor(engine::FinishReason reason)
{
    switch (reason) {
    case engine::FinishReason::Cancelled:
        return MessageState::Stopped;
    case engine::FinishReason::Failed:
        return MessageState::Failed;
    default:
        return MessageState::Done;
    }
}

void joinText(std::string &text, const std::string &next)
{
    text += text.empty() || next.empty() ? next : "\n\n" + next;
}

void join(engine::ChatMessage &message, engine::ChatMessage next)
{
    joinText(message.content, next.content);
    joinText(message.reasoning, next.reasoning);
    std::move(next.toolCalls.begin(), next.toolCalls.end(), std::back_inserter(message.toolCalls));
}

} // namespace

std::vector<engine::ChatMessage> requestMessages(const QString &systemPrompt, const QVector<MessageRecord> &branch)
{
    std::vector<engine::ChatMessage> out;
    if (!systemPrompt.trimmed().isEmpty())
        out.push_back({"system", systemPrompt.toStdString()});
    for (const MessageRecord &message : branch) {
        if (message.text.isEmpty() && message.toolCalls.isEmpty())
            continue; // an answer that failed, or was stopped in its thoughts, before its first word
        engine::ChatMessage next{message.role.toStdString(), message.text.toStdString(),
                                 message.reasoning.toStdString(), engineCallsOf(message.toolCalls)};
        // Most templates want question and answer in turn, so what lost its answer is asked together.
        if (!out.empty() && out.back().role == next.role)
            join(out.back(), std::move(next));
        else
            out.push_back(std::move(next));
    }
    return out;
}

ChatRunner::ChatRunner(EngineClient &client, ChatModel &model, QObject *parent)
    : QObject(parent)
    , m_client(client)
    , m_model(model)
{
    connect(&client, &EngineClient::requestAccepted, this, &ChatRunner::takeAccepted);
    connect(&client, &EngineClient::textAppended, this, &ChatRunner::takeText);
    connect(&client, &EngineClient::reasoningAppended, this, &ChatRunner::takeReasoning);
    connect(&client, &EngineClient::toolCallsAppended, this, &ChatRunner::takeToolCalls);
    connect(&client, &EngineClient::requestFinished, this, &ChatRunner::takeFinished);
    connect(&client, &EngineClient::stepsTaken, this, &ChatRunner::takeSteps);
    connect(&client, &EngineClient::noticed, this, [this](const engine::EngineNotice &notice) {
        for (Running &running : m_running)
            running.notices << QString::fromStdString(notice.message);
    });
}

void ChatRunner::send(qint64 chatId, const QString &text)
{
    const ChatModel::Chat *chat = m_model.chat(chatId);
    if (!chat || isRunning(chatId))
        return;
    const MessageRecord question =
        m_model.addMessage(chatId, chat->record.headId, QStringLiteral("user"), text, MessageState::Done);
    ask(chatId, question.id);
}

void ChatRunner::resend(qint64 chatId, qint64 messageId, const QString &text)
{
    const MessageRecord *old = m_model.message(chatId, messageId);
    if (!old || isRunning(chatId))
        return;
    const MessageRecord question =
        m_model.addMessage(chatId, old->parentId, QStringLiteral("user"), text, MessageState::Done);
    ask(chatId, question.id);
}

void ChatRunner::regenerate(qint64 chatId, qint64 messageId)
{
    const MessageRecord *answer = m_model.message(chatId, messageId);
    if (!answer || isRunning(chatId))
        return;
    ask(chatId, answer->role == u"user" ? answer->id : answer->parentId);
}

void ChatRunner::ask(qint64 chatId, qint64 parentId)
{
    const QString model =
        m_client.model() ? format::modelName(QString::fromStdString(m_client.model()->path)) : QString();
    const MessageRecord answer =
        m_model.addMessage(chatId, parentId, QStringLiteral("assistant"), {}, MessageState::Streaming, model);
    const ChatModel::Chat *chat = m_model.chat(chatId);
    engine::Request request;
    request.messages = requestMessages(chat->record.systemPrompt, m_model.branch(chatId));
    request.sampling = m_client.sampling();
    const quint64 id = m_client.submit(std::move(request));
    m_client.setRequestName(id, chat->record.title, QStringLiteral("chat %1").arg(chatId));
    Running &running = m_running[id];
    running.chatId = chatId;
    running.messageId = answer.id;
    running.since.start();
    running.shown.start();
    m_byChat[chatId] = id;
    m_model.setActivity(chatId, m_client.seriesOf(id), tr("waiting"));
    emit started(chatId, answer.id);
}

void ChatRunner::stop(qint64 chatId)
{
    if (isRunning(chatId))
        m_client.cancel(m_byChat[chatId]);
}

const ChatRunner::Running *ChatRunner::running(qint64 chatId) const
{
    const auto found = m_running.constFind(m_byChat.value(chatId));
    return found == m_running.constEnd() ? nullptr : &found.value();
}

int ChatRunner::contextTokens(qint64 chatId) const
{
    const Running *one = running(chatId);
    return one ? one->promptTokens + one->tokens : 0;
}

double ChatRunner::speed(const Running &running) const
{
    const double seconds = running.streaming.isValid() ? double(running.streaming.elapsed()) / 1000 : 0;
    return running.tokens > 1 && seconds > 0.2 ? (running.tokens - 1) / seconds : 0;
}

QString ChatRunner::progressText(qint64 chatId) const
{
    const Running *one = running(chatId);
    if (!one)
        return {};
    if (one->promptTokens == 0)
        return tr("Waiting for the engine");
    if (one->tokens == 0)
        return tr("Reading the prompt, %1").arg(format::counted(one->promptTokens, tr("token"), tr("tokens")));
    QStringList parts{QStringLiteral("TTFT ") + format::milliseconds(one->ttftMs)};
    if (const double rate = speed(*one); rate > 0)
        parts << format::number(rate) + QStringLiteral(" tok/s");
    parts << format::counted(one->tokens, tr("token"), tr("tokens"));
    parts << (one->cachedTokens > 0
                  ? tr("prompt %1 (%2 cached)").arg(format::count(one->promptTokens), format::count(one->cachedTokens))
                  : tr("prompt %1").arg(format::count(one->promptTokens)));
    return parts.join(QStringLiteral("   "));
}

void ChatRunner::showProgress(const Running &running)
{
    const double rate = speed(running);
    const QString doing = running.thinking ? tr("thinking") : tr("streaming");
    m_model.setActivity(running.chatId, m_client.seriesOf(m_byChat.value(running.chatId)),
                        rate > 0 ? tr("%1 · %2 tok/s").arg(doing, format::number(rate)) : doing);
    emit progressed(running.chatId);
}

void ChatRunner::takeAccepted(quint64 id, int promptTokens)
{
    const auto found = m_running.find(id);
    if (found == m_running.end())
        return;
    found->promptTokens = promptTokens;
    m_model.setActivity(found->chatId, m_client.seriesOf(id),
                        tr("reading %1").arg(format::counted(promptTokens, tr("token"), tr("tokens"))));
    emit progressed(found->chatId);
}

void ChatRunner::takeText(quint64 id, const QString &text, int tokens, int cachedTokens)
{
    const auto found = m_running.find(id);
    if (found == m_running.end())
        return;
    const bool first = found->tokens == 0;
    if (first) {
        found->ttftMs = double(found->since.nsecsElapsed()) / 1e6;
        found->streaming.start();
    }
    found->tokens += tokens;
    found->cachedTokens = cachedTokens;
    if (!text.isEmpty()) {
        endThought(*found);
        append(*found, text, MessagePart::Text);
    }
    if (first || found->shown.elapsed() >= progressMs) {
        found->shown.start();
        showProgress(*found);
    }
}

void ChatRunner::append(const Running &running, const QString &text, MessagePart part)
{
    m_model.appendText(running.chatId, running.messageId, text, part);
    emit textAppended(running.chatId, running.messageId, text, part);
}

void ChatRunner::takeReasoning(quint64 id, const QString &text)
{
    const auto found = m_running.find(id);
    if (found == m_running.end())
        return;
    if (!found->thoughtSince.isValid()) {
        found->thoughtSince.start();
        found->thinking = true;
    }
    append(*found, text, MessagePart::Reasoning);
}

void ChatRunner::takeToolCalls(quint64 id, const std::vector<engine::ToolCallDelta> &calls)
{
    const auto found = m_running.find(id);
    if (found == m_running.end())
        return;
    endThought(*found);
    append(*found, toolCallText(calls, &found->lastCall), MessagePart::ToolCalls);
}

void ChatRunner::endThought(Running &running)
{
    if (!std::exchange(running.thinking, false))
        return;
    const double ms = double(running.thoughtSince.nsecsElapsed()) / 1e6;
    m_model.setReasoningTime(running.chatId, running.messageId, ms);
    emit thoughtOver(running.chatId, running.messageId, ms);
}

void ChatRunner::takeSteps(const std::vector<engine::StepStats> &steps)
{
    for (const engine::StepStats &step : steps) {
        const std::size_t count = std::min(step.itlRequests.size(), step.itlMs.size());
        for (std::size_t i = 0; i < count; ++i) {
            if (const auto found = m_running.find(step.itlRequests[i]); found != m_running.end())
                found->gaps.push_back(float(step.itlMs[i]));
        }
    }
}

// Empty for a request that the engine never took: its error says all.
QString ChatRunner::factsOf(const Running &running, const engine::RequestFinished &result) const
{
    if (result.usage.promptTokens == 0)
        return {};
    AnswerFacts facts;
    facts.usage = result.usage;
    facts.timings = result.timings;
    facts.story = result.story;
    if (!running.gaps.empty()) {
        const Percentiles gaps = percentilesOf(running.gaps);
        facts.gapP50 = gaps.p50;
        facts.gapP95 = gaps.p95;
    }
    facts.places = m_client.model() ? m_client.model()->effective.limits.maxNumSeqs : 0;
    facts.notices = running.notices;
    return facts.toText();
}

void ChatRunner::takeFinished(quint64 id, const engine::RequestFinished &result)
{
    const auto found = m_running.find(id);
    if (found == m_running.end())
        return;
    endThought(*found);
    const Running running = *found;
    m_running.erase(found);
    m_byChat.remove(running.chatId);
    m_model.setActivity(running.chatId, -1, {});
    if (const MessageRecord *old = m_model.message(running.chatId, running.messageId)) {
        MessageRecord message = *old;
        message.state = stateFor(result.reason);
        message.reason = QString::fromLatin1(engine::toString(result.reason));
        message.error = QString::fromStdString(result.error);
        message.promptTokens = result.usage.promptTokens;
        message.completionTokens = result.usage.completionTokens;
        message.cachedTokens = result.usage.cachedTokens;
        message.ttftMs = result.timings.ttftMs;
        message.tokensPerSecond = result.timings.tokensPerSecond;
        message.facts = factsOf(running, result);
        m_model.putMessage(message);
    }
    emit finished(running.chatId, running.messageId);
}

} // namespace ui
