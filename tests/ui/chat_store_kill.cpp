// SPDX-License-Identifier: GPL-3.0-or-later
// Writes chats into the store given as its argument until it is killed, and says on standard output what it did:
//   a ID CHARACTERS MICROSECONDS   so much of a growing answer, its reasoning and calls of tools included, was handed
//   to the store, at this time f ID CHARACTERS                a finished message was handed over s ID CHARACTERS
//   FINISHED       the store announced this as saved ready                          the store is open

#include "ui/chat/chat_store.h"

#include <QCoreApplication>
#include <QTimer>

#include <chrono>
#include <cstdio>

using namespace ui;

namespace {

constexpr int tokensPerAnswer = 60;

long long nowMicroseconds()
{
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

qint64 charactersOf(const MessageRecord &message)
{
    return message.text.size() + message.reasoning.size() + message.toolCalls.size();
}

/// Question and streamed answer, again and again.
class Writer : public QObject {
public:
    explicit Writer(ChatStore &store)
        : m_store(store)
    {
        m_chat = m_store.newId();
        connect(&m_timer, &QTimer::timeout, this, &Writer::step);
    }

    void start()
    {
        std::printf("ready\n");
        std::fflush(stdout);
        ask();
        m_timer.start(3);
    }

private:
    void putWithChat(const MessageRecord &message)
    {
        ChatRecord chat;
        chat.id = m_chat;
        chat.title = QStringLiteral("kill");
        chat.headId = message.id;
        m_store.put(StoreChanges{message, chat});
    }

    void putFinished(const MessageRecord &message)
    {
        putWithChat(message);
        std::printf("f %lld %lld\n", static_cast<long long>(message.id), static_cast<long long>(charactersOf(message)));
        std::fflush(stdout);
    }

    void ask()
    {
        MessageRecord question;
        question.id = m_store.newId();
        question.chatId = m_chat;
        question.parentId = m_answer.id;
        question.role = QStringLiteral("user");
        question.text = QStringLiteral("question %1").arg(question.id);
        putFinished(question);
        m_answer = question;
        m_answer.id = m_store.newId();
        m_answer.parentId = question.id;
        m_answer.role = QStringLiteral("assistant");
        m_answer.state = MessageState::Streaming;
        m_answer.text.clear();
        m_answer.reasoning.clear();
        m_answer.toolCalls.clear();
        putWithChat(m_answer);
        m_tokens = 0;
    }

    void step()
    {
        const QString token = QStringLiteral("tok%1 ").arg(m_tokens);
        const auto part = static_cast<MessagePart>((m_tokens / 7) % 3); // thoughts and calls are kept as the text is
        (part == MessagePart::Reasoning       ? m_answer.reasoning
             : part == MessagePart::ToolCalls ? m_answer.toolCalls
                                              : m_answer.text) += token;
        m_store.put(TextAppended{m_answer.id, token, part});
        std::printf("a %lld %lld %lld\n", static_cast<long long>(m_answer.id),
                    static_cast<long long>(charactersOf(m_answer)), nowMicroseconds());
        std::fflush(stdout);
        if (++m_tokens < tokensPerAnswer)
            return;
        m_answer.state = MessageState::Done;
        putFinished(m_answer);
        ask();
    }

    ChatStore &m_store;
    QTimer m_timer;
    MessageRecord m_answer;
    qint64 m_chat = 0;
    int m_tokens = 0;
};

} // namespace

int main(int argc, char **argv)
{
    QCoreApplication app(argc, argv);
    ChatStore store(app.arguments().value(1));
    Writer writer(store);
    QObject::connect(&store, &ChatStore::saved, &writer, [](const QVector<SavedMessage> &messages) {
        for (const SavedMessage &m : messages)
            std::printf("s %lld %lld %d\n", static_cast<long long>(m.id),
                        static_cast<long long>(m.characters + m.reasoningCharacters + m.toolCallCharacters),
                        m.finished ? 1 : 0);
        std::fflush(stdout);
    });
    QObject::connect(&store, &ChatStore::statusChanged, &writer, [&](const StoreStatus &status) {
        if (status.mode == StoreStatus::Mode::Writable && status.saving)
            writer.start();
        else
            std::fprintf(stderr, "%s\n", qPrintable(status.reason));
    });
    store.open();
    return app.exec();
}
