// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_records.h"

#include <QObject>
#include <QThread>

namespace ui {

class ChatStoreWorker;

/// Chats on disk, kept as they stream. The file, its one connection and every wait for the disk belong to a thread of
/// its own; calls here queue and return at once, answers come as signals.
///
/// saved() means committed and synced: a killed program shows every message that was announced, and of a growing
/// answer all but what came in the last 250 ms. When nothing can be written the changes wait in memory, status()
/// says so, and they are tried again.
///
/// Thread: the UI.
class ChatStore final : public QObject {
    Q_OBJECT

public:
    explicit ChatStore(const QString &path, QObject *parent = nullptr);
    /// Writes what is queued, then ends the thread.
    ~ChatStore() override;

    /// $XDG_DATA_HOME/lathe/chats.sqlite
    [[nodiscard]] static QString defaultPath();

    /// Answers with chatsLoaded and statusChanged.
    void open();
    void put(const StoreChanges &changes);
    void put(const StoreChange &change) { put(StoreChanges{change}); }
    /// Answers with messagesLoaded, growing messages with the text that is saved of them.
    void loadMessages(qint64 chatId);
    /// Answers with found.
    void search(const QString &text);

    /// Waits until what was put so far is written or could not be; false when that took longer than `timeoutMs`.
    bool flush(int timeoutMs);

    [[nodiscard]] const StoreStatus &status() const { return m_status; }
    /// An id that no message or chat has: it grows with time and never repeats within this program.
    [[nodiscard]] qint64 newId();

Q_SIGNALS:
    void statusChanged(const ui::StoreStatus &status);
    void chatsLoaded(const QVector<ui::ChatRecord> &chats);
    void messagesLoaded(qint64 chatId, const QVector<ui::MessageRecord> &messages);
    void saved(const QVector<ui::SavedMessage> &messages);
    void found(const QString &text, const QVector<qint64> &chats);

private:
    QThread m_thread;
    ChatStoreWorker *m_worker; ///< lives in m_thread, deleted when that ends
    StoreStatus m_status;
    qint64 m_lastId = 0;
};

} // namespace ui
