// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_records.h"

#include <QSqlDatabase>
#include <QString>
#include <QVector>

#include <memory>
#include <vector>

class QLockFile;
class QSqlError;
class QSqlQuery;

namespace ui {

/// The store's file: one SQLite connection, its lock, and the statements. Knows nothing of queues and timers.
///
/// A lock file beside it tells a second program that the store is in use; that one reads only.
/// Thread: the one that made it.
class ChatStoreFile {
public:
    explicit ChatStoreFile(QString path);
    ~ChatStoreFile();

    /// Opens, checks and migrates. A damaged or foreign file is set aside under a new name and its readable rows are
    /// copied; a newer one is left alone. The result says how the store can be used and what must be told.
    StoreStatus open();
    void close();
    [[nodiscard]] bool isOpen() const { return m_database.isOpen(); }
    [[nodiscard]] bool isWritable() const { return m_writable; }

    /// Applies all changes in one transaction; on failure nothing is applied and `problem` says why.
    [[nodiscard]] bool commit(const StoreChanges &changes, QString *problem);
    /// True when the last failure was damage of the file.
    [[nodiscard]] bool foundDamage() const { return m_damaged; }
    /// Sets the damaged file aside and opens a new one.
    StoreStatus replaceDamaged(const QString &detail);

    [[nodiscard]] QVector<ChatRecord> readChats();
    [[nodiscard]] QVector<MessageRecord> readMessages(qint64 chatId);
    /// Chats with a message that contains `text`, at most `limit`.
    [[nodiscard]] QVector<qint64> search(const QString &text, int limit);

private:
    bool takeLock(QString *problem);
    bool openConnection(bool writable, bool immutable = false);
    StoreStatus openForReading(const QString &why);
    StoreStatus settle(const QString &told);
    bool tidyUp();
    bool adoptOrphans();
    bool apply(const ChatRecord &chat, QSqlQuery &query);
    bool apply(const MessageRecord &message, QSqlQuery &query);
    bool apply(const TextAppended &piece, QSqlQuery &query);
    bool apply(const ChatPurged &purged, QSqlQuery &query);
    bool fail(const QSqlError &error, QString *problem);
    QString setAside();

    QString m_path;
    QString m_connection;
    QSqlDatabase m_database;
    std::unique_ptr<QLockFile> m_lock;
    bool m_writable = false;
    bool m_damaged = false;
};

} // namespace ui
