// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_store.h"

#include <QDateTime>
#include <QDir>
#include <QHash>
#include <QSignalSpy>
#include <QSqlDatabase>
#include <QSqlError>
#include <QSqlQuery>
#include <QtTest>

/// What the tests of the chat store share.
namespace chat_store_fixtures {

using namespace ui;

/// A store that is open, with everything it announced.
struct Opened {
    explicit Opened(const QString &path)
        : store(path)
    {
        QObject::connect(&store, &ChatStore::chatsLoaded, &store, [this](const auto &loaded) { chats = loaded; });
        QObject::connect(&store, &ChatStore::saved, &store, [this](const auto &messages) {
            for (const SavedMessage &m : messages)
                saved[m.id] = m;
        });
        QObject::connect(&store, &ChatStore::statusChanged, &store, [this](const auto &now) { statuses << now; });
        store.open();
        if (!QTest::qWaitFor([&] { return !statuses.isEmpty(); }, 10000))
            qWarning("the store did not open");
    }

    QVector<MessageRecord> messages(qint64 chat)
    {
        QSignalSpy spy(&store, &ChatStore::messagesLoaded);
        store.loadMessages(chat);
        return spy.wait(10000) ? spy[0][1].value<QVector<MessageRecord>>() : QVector<MessageRecord>();
    }

    ChatStore store;
    QVector<ChatRecord> chats;
    QHash<qint64, SavedMessage> saved;
    QVector<StoreStatus> statuses;
};

inline MessageRecord message(ChatStore &store, qint64 chat, const QString &text,
                             MessageState state = MessageState::Done)
{
    MessageRecord m;
    m.id = store.newId();
    m.chatId = chat;
    m.role = QStringLiteral("assistant");
    m.text = text;
    m.state = state;
    m.reason = QStringLiteral("stop");
    m.model = QStringLiteral("tiny");
    m.promptTokens = 12;
    m.completionTokens = 34;
    m.cachedTokens = 5;
    m.ttftMs = 84.5;
    m.tokensPerSecond = 41.25;
    m.createdMs = 1700000000000;
    return m;
}

inline ChatRecord chat(ChatStore &store, const QString &title)
{
    ChatRecord c;
    c.id = store.newId();
    c.title = title;
    c.systemPrompt = QStringLiteral("be brief");
    c.model = QStringLiteral("tiny");
    c.createdMs = c.updatedMs = QDateTime::currentMSecsSinceEpoch();
    return c;
}

/// Runs statements on the file itself; returns the first value of the last one.
inline QVariant runSql(const QString &path, const QStringList &statements)
{
    QVariant value;
    {
        QSqlDatabase db = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), QStringLiteral("check"));
        db.setDatabaseName(path);
        if (!db.open())
            qWarning("%s", qPrintable(db.lastError().text()));
        QSqlQuery query(db);
        for (const QString &sql : statements) {
            if (!query.exec(sql))
                qWarning("%s: %s", qPrintable(sql), qPrintable(query.lastError().text()));
            value = query.next() ? query.value(0) : QVariant();
        }
    }
    QSqlDatabase::removeDatabase(QStringLiteral("check"));
    return value;
}

inline QStringList asideFiles(const QString &dir)
{
    QStringList files = QDir(dir).entryList({QStringLiteral("*.damaged-*")}, QDir::Files);
    files.removeIf([](const QString &name) { return name.endsWith(u"-wal") || name.endsWith(u"-shm"); });
    return files;
}

/// Fills a store with `count` messages of one chat and closes it.
inline qint64 fill(const QString &path, int count)
{
    Opened opened(path);
    const ChatRecord c = chat(opened.store, QStringLiteral("filled"));
    opened.store.put(c);
    qint64 last = 0;
    for (int i = 0; i < count; ++i) {
        const MessageRecord m = message(opened.store, c.id, QStringLiteral("message %1 ").arg(i) + QString(600, u'x'));
        last = m.id;
        opened.store.put(m);
    }
    if (!QTest::qWaitFor([&] { return opened.saved.contains(last); }, 20000))
        qWarning("not saved");
    return c.id;
}

} // namespace chat_store_fixtures
