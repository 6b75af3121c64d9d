// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/chat/chat_records.h"

#include <QAbstractListModel>
#include <QHash>
#include <QSet>

#include <functional>

namespace ui {

/// All chats with their messages, and the list of those that are shown: by the last change, filtered by a search,
/// or the trash. Every change that must be kept leaves by changed().
///
/// The messages of a chat form a tree; what is shown is the branch that ends in its head.
/// Thread: the UI.
class ChatModel final : public QAbstractListModel {
    Q_OBJECT

public:
    enum Role {
        IdRole = Qt::UserRole,
        SubtitleRole, ///< text under the title
        SeriesRole,   ///< colour of a running chat, -1 when it does not run
        SectionRole,  ///< "Today", ...; only on the first row of a section, else empty
    };
    struct Chat {
        ChatRecord record;
        QHash<qint64, MessageRecord> messages;
        QHash<qint64, QVector<qint64>> children; ///< by parent, oldest first
        bool loaded = false;                     ///< its messages are here
        int series = -1;
        QString activity; ///< of a running chat: "streaming · 41 tok/s"
    };

    /// `newId` gives ids that were never used.
    explicit ChatModel(std::function<qint64()> newId, QObject *parent = nullptr);

    [[nodiscard]] int rowCount(const QModelIndex &parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex &index, int role = Qt::DisplayRole) const override;
    bool setData(const QModelIndex &index, const QVariant &value, int role = Qt::EditRole) override;
    [[nodiscard]] Qt::ItemFlags flags(const QModelIndex &index) const override;

    /// Chats from the store; those that are here already stay as they are.
    void addStored(const QVector<ChatRecord> &chats);
    void addStoredMessages(qint64 chatId, const QVector<MessageRecord> &messages);

    /// A chat that is not kept before it has a message.
    qint64 addChat(const QString &systemPrompt = {});
    [[nodiscard]] const Chat *chat(qint64 id) const;
    [[nodiscard]] QModelIndex indexOf(qint64 id) const;
    void rename(qint64 id, const QString &title);
    void setSystemPrompt(qint64 id, const QString &prompt);
    void setActivity(qint64 id, int series, const QString &activity);

    /// Adds a message after `parentId` and makes it the head.
    MessageRecord addMessage(qint64 chatId, qint64 parentId, const QString &role, const QString &text,
                             MessageState state, const QString &model = {});
    void appendText(qint64 chatId, qint64 messageId, const QString &text, MessagePart part = MessagePart::Text);
    /// How long a growing answer was thought about; kept with the message when that is put.
    void setReasoningTime(qint64 chatId, qint64 messageId, double ms);
    /// Replaces a message.
    void putMessage(const MessageRecord &message);
    [[nodiscard]] const MessageRecord *message(qint64 chatId, qint64 messageId) const;
    /// The shown messages, first to last.
    [[nodiscard]] QVector<MessageRecord> branch(qint64 chatId) const;
    /// Messages with the same parent and role, oldest first.
    [[nodiscard]] QVector<qint64> variants(qint64 chatId, qint64 messageId) const;
    /// Shows the variant `by` places further, with the newest messages below it.
    void showVariant(qint64 chatId, qint64 messageId, int by);

    void moveToTrash(qint64 id);
    void restore(qint64 id);
    void purge(qint64 id);
    void setShowTrash(bool on);
    [[nodiscard]] bool showsTrash() const { return m_trash; }
    [[nodiscard]] int trashCount() const;

    /// Shows chats whose title contains `text`, and those in `withText`.
    void setFilter(const QString &text, const QVector<qint64> &withText = {});

    /// The first line of a message, short enough for the list.
    [[nodiscard]] static QString titleFrom(const QString &text);

Q_SIGNALS:
    /// To be written together.
    void changed(const ui::StoreChanges &changes);
    void branchChanged(qint64 chatId);
    void trashChanged();

private:
    [[nodiscard]] bool isShown(const Chat &chat) const;
    [[nodiscard]] QString subtitle(const Chat &chat) const;
    [[nodiscard]] QString section(const Chat &chat) const;
    static MessageRecord &insert(Chat &chat, const MessageRecord &message);
    void rebuild();
    void keepMessage(Chat &chat, const MessageRecord &message);
    void keep(Chat &chat);
    void moveToTop(qint64 id);
    void rowChanged(qint64 id);

    std::function<qint64()> m_newId;
    QHash<qint64, Chat> m_chats;
    QVector<qint64> m_rows;
    QString m_filter;
    QSet<qint64> m_matches;
    bool m_trash = false;
};

} // namespace ui
