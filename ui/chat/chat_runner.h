// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_model.h"
#include "ui/engine_client.h"

#include <QElapsedTimer>
#include <QHash>
#include <QObject>
#include <QStringList>

#include <vector>

namespace ui {

/// Turns chats into requests and answers into messages; several chats may run at once, one answer each.
/// Thread: the UI.
class ChatRunner final : public QObject {
    Q_OBJECT

public:
    ChatRunner(EngineClient &client, ChatModel &model, QObject *parent = nullptr);

    /// Adds the user's message after the shown ones and asks for an answer.
    void send(qint64 chatId, const QString &text);
    /// Asks again with other words: a new variant of the user's message.
    void resend(qint64 chatId, qint64 messageId, const QString &text);
    /// Asks for another answer in place of this one, which is kept as a variant.
    void regenerate(qint64 chatId, qint64 messageId);
    void stop(qint64 chatId);

    [[nodiscard]] bool isRunning(qint64 chatId) const { return m_byChat.contains(chatId); }
    /// Tokens in the context of a running answer so far; 0 before its prompt is counted.
    [[nodiscard]] int contextTokens(qint64 chatId) const;
    /// What is known of a running answer: the first token's time, tokens, speed.
    [[nodiscard]] QString progressText(qint64 chatId) const;

Q_SIGNALS:
    void started(qint64 chatId, qint64 messageId);
    void textAppended(qint64 chatId, qint64 messageId, const QString &text, ui::MessagePart part);
    /// The reasoning of an answer is over; its time is in the model.
    void thoughtOver(qint64 chatId, qint64 messageId, double ms);
    void finished(qint64 chatId, qint64 messageId);
    void progressed(qint64 chatId);

private:
    struct Running {
        qint64 chatId = 0;
        qint64 messageId = 0;
        int promptTokens = 0;
        int tokens = 0;
        int cachedTokens = 0;
        int lastCall = -1; ///< of a tool
        double ttftMs = 0;
        std::vector<float> gaps; ///< between tokens, in ms
        QStringList notices;     ///< of the engine
        bool thinking = false;
        QElapsedTimer thoughtSince; ///< first reasoning
        QElapsedTimer since;        ///< submission
        QElapsedTimer streaming;    ///< first token
        QElapsedTimer shown;        ///< last progress
    };

    void ask(qint64 chatId, qint64 parentId);
    void takeAccepted(quint64 id, int promptTokens);
    void takeText(quint64 id, const QString &text, int tokens, int cachedTokens);
    void takeReasoning(quint64 id, const QString &text);
    void takeToolCalls(quint64 id, const std::vector<engine::ToolCallDelta> &calls);
    void append(const Running &running, const QString &text, MessagePart part);
    void endThought(Running &running);
    void takeFinished(quint64 id, const engine::RequestFinished &result);
    void takeSteps(const std::vector<engine::StepStats> &steps);
    [[nodiscard]] QString factsOf(const Running &running, const engine::RequestFinished &result) const;
    void showProgress(const Running &running);
    [[nodiscard]] const Running *running(qint64 chatId) const;
    [[nodiscard]] double speed(const Running &running) const;

    EngineClient &m_client;
    ChatModel &m_model;
    QHash<quint64, Running> m_running; ///< by request
    QHash<qint64, quint64> m_byChat;
};

/// The messages that are sent for a branch: the system prompt, then question and answer in turn.
[[nodiscard]] std::vector<engine::ChatMessage> requestMessages(const QString &systemPrompt,
                                                               const QVector<MessageRecord> &branch);

} // namespace ui
