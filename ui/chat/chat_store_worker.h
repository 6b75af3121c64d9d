// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_records.h"
#include "ui/chat/chat_store_file.h"

#include <QHash>
#include <QObject>
#include <QTimer>

#include <vector>

namespace ui {

/// The store's side of the queue: collects changes, commits them, and tries again when that fails.
/// Thread: the store's own; reached by queued calls only.
class ChatStoreWorker final : public QObject {
    Q_OBJECT

public:
    explicit ChatStoreWorker(const QString &path);

    void open();
    /// Finished messages and chats are committed at once, text of a growing message within partialMs.
    void take(const StoreChanges &changes);
    /// Commits what is waiting.
    void commit();
    void loadMessages(qint64 chatId);
    void search(const QString &text);
    void close();

    static constexpr int partialMs = 60; ///< leaves the rest of the promised 250 ms to a slow disk
    static constexpr int retryMs = 2000;

Q_SIGNALS:
    void statusChanged(const ui::StoreStatus &status);
    void chatsLoaded(const QVector<ui::ChatRecord> &chats);
    void messagesLoaded(qint64 chatId, const QVector<ui::MessageRecord> &messages);
    void saved(const QVector<ui::SavedMessage> &messages);
    void found(const QString &text, const QVector<qint64> &chats);

private:
    void add(const StoreChange &change);
    void retry();
    void reopen();
    void setStatus(const StoreStatus &status);
    void announceSaved(const StoreChanges &changes);

    ChatStoreFile m_file;
    StoreChanges m_pending;
    QHash<qint64, SavedMessage> m_growing; ///< what is committed of growing messages
    QTimer m_partial;
    QTimer m_retry;
    StoreStatus m_status;
};

} // namespace ui
