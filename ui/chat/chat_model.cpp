// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_model.h"

#include "ui/format.h"

#include <QDateTime>

#include <algorithm>
#include <utility>

namespace ui {
namespace {

constexpr qsizetype longestTitle = 80;

qint64 now()
{
    return QDateTime::currentMSecsSinceEpoch();
}

} // namespace

ChatModel::ChatModel(std::function<qint64()> newId, QObject *parent)
    : QAbstractListModel(parent)
    , m_newId(std::move(newId))
{
}

QString ChatModel::titleFrom(const QString &text)
{
    const QString trimmed = text.trimmed();
    QString line = trimmed.left(trimmed.indexOf(u'\n')).left(400).simplified();
    while (line.startsWith(u'#') || line.startsWith(u'>'))
        line = line.mid(1).trimmed();
    if (line.size() <= longestTitle)
        return line;
    const qsizetype space = line.lastIndexOf(u' ', longestTitle);
    qsizetype cut = space > longestTitle / 2 ? space : longestTitle;
    if (line[cut].isLowSurrogate())
        --cut;
    return line.left(cut) + u'…';
}

int ChatModel::rowCount(const QModelIndex &parent) const
{
    return parent.isValid() ? 0 : static_cast<int>(m_rows.size());
}

QVariant ChatModel::data(const QModelIndex &index, int role) const
{
    if (!checkIndex(index, CheckIndexOption::IndexIsValid))
        return {};
    const Chat &chat = *m_chats.constFind(m_rows[index.row()]);
    switch (role) {
    case Qt::DisplayRole:
    case Qt::EditRole:
        return chat.record.title.isEmpty() ? tr("New chat") : chat.record.title;
    case Qt::AccessibleTextRole:
        return data(index, Qt::DisplayRole).toString() + QStringLiteral(", ") + subtitle(chat);
    case IdRole:
        return chat.record.id;
    case SubtitleRole:
        return subtitle(chat);
    case SeriesRole:
        return chat.series;
    case SectionRole: {
        const QString own = section(chat);
        return index.row() > 0 && section(*m_chats.constFind(m_rows[index.row() - 1])) == own ? QString() : own;
    }
    default:
        return {};
    }
}

Qt::ItemFlags ChatModel::flags(const QModelIndex &index) const
{
    if (!index.isValid())
        return Qt::NoItemFlags;
    return QAbstractListModel::flags(index) | (m_trash ? Qt::NoItemFlags : Qt::ItemIsEditable)
        | Qt::ItemNeverHasChildren;
}

bool ChatModel::setData(const QModelIndex &index, const QVariant &value, int role)
{
    if (role != Qt::EditRole || !checkIndex(index, CheckIndexOption::IndexIsValid)
        || value.toString().trimmed().isEmpty())
        return false;
    rename(m_rows[index.row()], value.toString());
    return true;
}

QString ChatModel::subtitle(const Chat &chat) const
{
    if (!chat.activity.isEmpty())
        return chat.activity;
    const QString count = format::counted(chat.record.messageCount, tr("message"), tr("messages"));
    return chat.record.model.isEmpty() ? count : count + QStringLiteral(" · ") + chat.record.model;
}

QString ChatModel::section(const Chat &chat) const
{
    const QDate day = QDateTime::fromMSecsSinceEpoch(chat.record.updatedMs).date();
    const qint64 days = day.daysTo(QDate::currentDate());
    if (days <= 0)
        return tr("Today");
    if (days == 1)
        return tr("Yesterday");
    return days < 7 ? tr("Last 7 days") : days < 30 ? tr("Last 30 days") : tr("Older");
}

bool ChatModel::isShown(const Chat &chat) const
{
    if ((chat.record.deletedMs > 0) != m_trash)
        return false;
    return m_filter.isEmpty() || chat.record.title.contains(m_filter, Qt::CaseInsensitive)
        || m_matches.contains(chat.record.id);
}

void ChatModel::rebuild()
{
    beginResetModel();
    m_rows.clear();
    for (auto it = m_chats.cbegin(); it != m_chats.cend(); ++it)
        if (isShown(it.value()))
            m_rows.append(it.key());
    std::sort(m_rows.begin(), m_rows.end(), [this](qint64 a, qint64 b) {
        const qint64 x = m_chats.constFind(a)->record.updatedMs;
        const qint64 y = m_chats.constFind(b)->record.updatedMs;
        return x != y ? x > y : a > b;
    });
    endResetModel();
}

void ChatModel::addStored(const QVector<ChatRecord> &chats)
{
    for (const ChatRecord &record : chats)
        if (!m_chats.contains(record.id))
            m_chats[record.id].record = record;
    rebuild();
    emit trashChanged();
}

MessageRecord &ChatModel::insert(Chat &chat, const MessageRecord &message)
{
    QVector<qint64> &siblings = chat.children[message.parentId];
    siblings.insert(std::lower_bound(siblings.begin(), siblings.end(), message.id), message.id);
    return chat.messages[message.id] = message;
}

void ChatModel::addStoredMessages(qint64 chatId, const QVector<MessageRecord> &messages)
{
    const auto chat = m_chats.find(chatId);
    if (chat == m_chats.end())
        return;
    for (const MessageRecord &message : messages)
        if (!chat->messages.contains(message.id)) {
            MessageRecord &added = insert(*chat, message);
            if (added.state == MessageState::Streaming) // another program is writing it; here it does not grow
                added.state = MessageState::Interrupted;
        }
    chat->loaded = true;
    emit branchChanged(chatId);
}

qint64 ChatModel::addChat(const QString &systemPrompt)
{
    const qint64 id = m_newId();
    Chat &chat = m_chats[id];
    chat.record.id = id;
    chat.record.systemPrompt = systemPrompt;
    chat.record.createdMs = chat.record.updatedMs = now();
    chat.loaded = true;
    if (isShown(chat)) {
        beginInsertRows({}, 0, 0);
        m_rows.prepend(id);
        endInsertRows();
    }
    return id;
}

const ChatModel::Chat *ChatModel::chat(qint64 id) const
{
    const auto found = m_chats.constFind(id);
    return found == m_chats.constEnd() ? nullptr : &found.value();
}

QModelIndex ChatModel::indexOf(qint64 id) const
{
    const qsizetype row = m_rows.indexOf(id);
    return row < 0 ? QModelIndex() : index(static_cast<int>(row));
}

void ChatModel::rowChanged(qint64 id)
{
    if (const QModelIndex row = indexOf(id); row.isValid())
        emit dataChanged(row, row);
}

/// Hands the chat's record to the store, unless the chat is still empty.
void ChatModel::keep(Chat &chat)
{
    if (chat.record.messageCount > 0)
        emit changed(StoreChanges{chat.record});
}

/// A message is kept together with its chat, whose head decides what is shown.
void ChatModel::keepMessage(Chat &chat, const MessageRecord &message)
{
    chat.record.updatedMs = now();
    emit changed(StoreChanges{message, chat.record});
    moveToTop(chat.record.id);
}

void ChatModel::moveToTop(qint64 id)
{
    const int row = static_cast<int>(m_rows.indexOf(id));
    if (row > 0) {
        beginMoveRows({}, row, row, {}, 0);
        m_rows.move(row, 0);
        endMoveRows();
    }
    rowChanged(id);
}

void ChatModel::rename(qint64 id, const QString &title)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end() || title.trimmed().isEmpty())
        return;
    chat->record.title = title.simplified();
    chat->record.titleEdited = true;
    keep(*chat);
    rowChanged(id);
}

void ChatModel::setSystemPrompt(qint64 id, const QString &prompt)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end() || chat->record.systemPrompt == prompt)
        return;
    chat->record.systemPrompt = prompt;
    keep(*chat);
}

void ChatModel::setActivity(qint64 id, int series, const QString &activity)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end() || (chat->series == series && chat->activity == activity))
        return;
    chat->series = series;
    chat->activity = activity;
    rowChanged(id);
}

MessageRecord ChatModel::addMessage(qint64 chatId, qint64 parentId, const QString &role, const QString &text,
                                    MessageState state, const QString &model)
{
    Chat &chat = m_chats[chatId];
    MessageRecord message;
    message.id = m_newId();
    message.chatId = chatId;
    message.parentId = parentId;
    message.role = role;
    message.text = text;
    message.state = state;
    message.model = model;
    message.createdMs = now();
    insert(chat, message);
    chat.record.headId = message.id;
    ++chat.record.messageCount;
    if (!model.isEmpty())
        chat.record.model = model;
    if (!chat.record.titleEdited && parentId == 0 && role == u"user")
        chat.record.title = titleFrom(text);
    keepMessage(chat, message);
    emit branchChanged(chatId);
    return message;
}

void ChatModel::appendText(qint64 chatId, qint64 messageId, const QString &text, MessagePart part)
{
    const auto chat = m_chats.find(chatId);
    if (chat == m_chats.end() || !chat->messages.contains(messageId))
        return;
    MessageRecord &message = chat->messages[messageId];
    (part == MessagePart::Reasoning       ? message.reasoning
         : part == MessagePart::ToolCalls ? message.toolCalls
                                          : message.text) += text;
    emit changed(StoreChanges{TextAppended{messageId, text, part}});
}

void ChatModel::setReasoningTime(qint64 chatId, qint64 messageId, double ms)
{
    const auto chat = m_chats.find(chatId);
    if (chat != m_chats.end() && chat->messages.contains(messageId))
        chat->messages[messageId].reasoningMs = ms;
}

void ChatModel::putMessage(const MessageRecord &message)
{
    const auto chat = m_chats.find(message.chatId);
    if (chat == m_chats.end())
        return;
    chat->messages[message.id] = message;
    keepMessage(*chat, message);
}

const MessageRecord *ChatModel::message(qint64 chatId, qint64 messageId) const
{
    const Chat *owner = chat(chatId);
    if (!owner)
        return nullptr;
    const auto found = owner->messages.constFind(messageId);
    return found == owner->messages.constEnd() ? nullptr : &found.value();
}

QVector<MessageRecord> ChatModel::branch(qint64 chatId) const
{
    QVector<MessageRecord> out;
    const Chat *owner = chat(chatId);
    if (!owner)
        return out;
    qint64 head = owner->record.headId;
    if (!owner->messages.contains(head)) // lost by damage: the newest message then is the best end
        for (auto it = owner->messages.keyBegin(); it != owner->messages.keyEnd(); ++it)
            head = owner->messages.contains(head) ? std::max(head, *it) : *it;
    // A damaged store could hold a circle of parents.
    for (qint64 id = head; owner->messages.contains(id) && out.size() <= owner->messages.size();) {
        out.append(owner->messages[id]);
        id = out.last().parentId;
    }
    std::reverse(out.begin(), out.end());
    return out;
}

QVector<qint64> ChatModel::variants(qint64 chatId, qint64 messageId) const
{
    QVector<qint64> out;
    const Chat *owner = chat(chatId);
    const MessageRecord *one = message(chatId, messageId);
    if (!one)
        return out;
    const QVector<qint64> siblings = owner->children.value(one->parentId);
    for (const qint64 other : siblings)
        if (owner->messages[other].role == one->role)
            out.append(other);
    return out;
}

void ChatModel::showVariant(qint64 chatId, qint64 messageId, int by)
{
    const auto chat = m_chats.find(chatId);
    const QVector<qint64> all = variants(chatId, messageId);
    const qsizetype at = all.indexOf(messageId) + by;
    if (chat == m_chats.end() || at < 0 || at >= all.size())
        return;
    qint64 head = all[at];
    for (bool deeper = true; deeper;) {
        const QVector<qint64> children = chat->children.value(head);
        const qint64 child = children.isEmpty() ? 0 : children.last();
        deeper = child > head; // ids grow downwards; a damaged store could hold a circle
        head = deeper ? child : head;
    }
    chat->record.headId = head;
    keep(*chat);
    emit branchChanged(chatId);
}

void ChatModel::moveToTrash(qint64 id)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end())
        return;
    if (chat->record.messageCount == 0) {
        purge(id);
        return;
    }
    chat->record.deletedMs = now();
    keep(*chat);
    rebuild();
    emit trashChanged();
}

void ChatModel::restore(qint64 id)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end())
        return;
    chat->record.deletedMs = 0;
    keep(*chat);
    rebuild();
    emit trashChanged();
}

void ChatModel::purge(qint64 id)
{
    const auto chat = m_chats.find(id);
    if (chat == m_chats.end())
        return;
    if (chat->record.messageCount > 0)
        emit changed(StoreChanges{ChatPurged{id}});
    m_chats.erase(chat);
    rebuild();
    emit trashChanged();
}

int ChatModel::trashCount() const
{
    return static_cast<int>(
        std::count_if(m_chats.cbegin(), m_chats.cend(), [](const Chat &c) { return c.record.deletedMs > 0; }));
}

void ChatModel::setShowTrash(bool on)
{
    if (std::exchange(m_trash, on) != on)
        rebuild();
}

void ChatModel::setFilter(const QString &text, const QVector<qint64> &withText)
{
    const QSet<qint64> matches(withText.begin(), withText.end());
    if (m_filter == text && m_matches == matches)
        return;
    m_filter = text;
    m_matches = matches;
    rebuild();
}

} // namespace ui
