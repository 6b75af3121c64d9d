// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_store_worker.h"

#include <utility>

namespace ui {
namespace {

using Mode = StoreStatus::Mode;
constexpr int searchLimit = 500;

qint64 &charactersOf(SavedMessage &message, MessagePart part)
{
    return part == MessagePart::Reasoning ? message.reasoningCharacters
        : part == MessagePart::ToolCalls  ? message.toolCallCharacters
                                          : message.characters;
}

} // namespace

ChatStoreWorker::ChatStoreWorker(const QString &path)
    : m_file(path)
    , m_partial(this)
    , m_retry(this)
{
    m_partial.setSingleShot(true);
    m_partial.setInterval(partialMs);
    m_retry.setInterval(retryMs);
    connect(&m_partial, &QTimer::timeout, this, &ChatStoreWorker::commit);
    connect(&m_retry, &QTimer::timeout, this, &ChatStoreWorker::retry);
}

void ChatStoreWorker::setStatus(const StoreStatus &status)
{
    if (status == m_status)
        return;
    m_status = status;
    qInfo("chats: %s%s%s", status.saving ? "saved as they grow" : "not saved", status.reason.isEmpty() ? "" : ": ",
          qPrintable(status.reason));
    emit statusChanged(status);
}

void ChatStoreWorker::open()
{
    const StoreStatus status = m_file.open();
    const QVector<ChatRecord> chats = m_file.isOpen() ? m_file.readChats() : QVector<ChatRecord>();
    emit chatsLoaded(chats);
    setStatus(status);
    if (status.mode != Mode::Writable)
        m_retry.start();
    else
        commit();
}

void ChatStoreWorker::add(const StoreChange &change)
{
    const auto *piece = std::get_if<TextAppended>(&change);
    auto *last = piece && !m_pending.empty() ? std::get_if<TextAppended>(&m_pending.back()) : nullptr;
    if (last && last->messageId == piece->messageId && last->part == piece->part)
        last->text += piece->text;
    else
        m_pending.push_back(change);
}

void ChatStoreWorker::take(const StoreChanges &changes)
{
    bool onlyText = true;
    for (const StoreChange &change : changes) {
        onlyText = onlyText && std::holds_alternative<TextAppended>(change);
        add(change);
    }
    if (!onlyText)
        commit();
    else if (!m_partial.isActive())
        m_partial.start();
}

void ChatStoreWorker::commit()
{
    m_partial.stop();
    if (m_pending.empty() || m_status.mode != Mode::Writable)
        return;
    QString problem;
    if (m_file.commit(m_pending, &problem)) {
        announceSaved(std::exchange(m_pending, {}));
        m_retry.stop();
        if (!m_status.saving)
            setStatus({Mode::Writable, true, {}});
        return;
    }
    if (m_file.foundDamage()) {
        setStatus(m_file.replaceDamaged(problem));
    } else {
        setStatus({Mode::Writable, false, QStringLiteral("%1. It is tried again every two seconds.").arg(problem)});
    }
    m_retry.start();
}

void ChatStoreWorker::announceSaved(const StoreChanges &changes)
{
    QVector<SavedMessage> saved;
    for (const StoreChange &change : changes) {
        if (const auto *message = std::get_if<MessageRecord>(&change)) {
            const SavedMessage whole{message->id, message->text.size(), message->state != MessageState::Streaming,
                                     message->reasoning.size(), message->toolCalls.size()};
            if (whole.finished)
                m_growing.remove(whole.id);
            else
                m_growing[whole.id] = whole;
            saved.append(whole);
        } else if (const auto *piece = std::get_if<TextAppended>(&change)) {
            SavedMessage &growing = m_growing[piece->messageId];
            growing.id = piece->messageId;
            charactersOf(growing, piece->part) += piece->text.size();
            saved.append(growing);
        }
    }
    if (!saved.isEmpty())
        emit this->saved(saved);
}

void ChatStoreWorker::retry()
{
    if (m_status.mode == Mode::Writable)
        commit();
    else
        reopen();
    if (m_status.mode == Mode::Writable && m_pending.empty())
        m_retry.stop();
}

/// Another program may have let go of the store, or its folder may have become writable.
void ChatStoreWorker::reopen()
{
    const StoreStatus status = m_file.open();
    if (status.mode == Mode::Writable) {
        emit chatsLoaded(m_file.readChats());
        setStatus(status);
        commit();
    } else if (status.mode != m_status.mode) {
        setStatus(status);
    }
}

void ChatStoreWorker::loadMessages(qint64 chatId)
{
    const QVector<MessageRecord> messages = m_file.isOpen() ? m_file.readMessages(chatId) : QVector<MessageRecord>();
    emit messagesLoaded(chatId, messages);
    if (m_file.foundDamage() && m_file.isWritable()) {
        setStatus(m_file.replaceDamaged(QStringLiteral("a message could not be read")));
        emit chatsLoaded(m_file.readChats());
    }
}

void ChatStoreWorker::search(const QString &text)
{
    emit found(text, m_file.isOpen() ? m_file.search(text, searchLimit) : QVector<qint64>());
}

void ChatStoreWorker::close()
{
    commit();
    m_retry.stop();
    m_file.close();
}

} // namespace ui
