// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_store.h"

#include "ui/chat/chat_store_worker.h"

#include <QDateTime>
#include <QSemaphore>
#include <QStandardPaths>

#include <algorithm>
#include <memory>

namespace ui {

ChatStore::ChatStore(const QString &path, QObject *parent)
    : QObject(parent)
    , m_worker(new ChatStoreWorker(path))
{
    m_worker->moveToThread(&m_thread);
    connect(&m_thread, &QThread::finished, m_worker, &QObject::deleteLater);
    connect(m_worker, &ChatStoreWorker::statusChanged, this, [this](const StoreStatus &status) {
        m_status = status;
        emit statusChanged(status);
    });
    connect(m_worker, &ChatStoreWorker::chatsLoaded, this, &ChatStore::chatsLoaded);
    connect(m_worker, &ChatStoreWorker::messagesLoaded, this, &ChatStore::messagesLoaded);
    connect(m_worker, &ChatStoreWorker::saved, this, &ChatStore::saved);
    connect(m_worker, &ChatStoreWorker::found, this, &ChatStore::found);
    m_thread.setObjectName(QStringLiteral("chat store"));
    m_thread.start();
}

ChatStore::~ChatStore()
{
    // The thread ends from inside, after everything that was queued before.
    QMetaObject::invokeMethod(
        m_worker,
        [worker = m_worker] {
            worker->close();
            QThread::currentThread()->quit();
        },
        Qt::QueuedConnection);
    m_thread.wait();
}

QString ChatStore::defaultPath()
{
    return QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation)
        + QStringLiteral("/lathe/chats.sqlite");
}

void ChatStore::open()
{
    QMetaObject::invokeMethod(m_worker, [worker = m_worker] { worker->open(); }, Qt::QueuedConnection);
}

void ChatStore::put(const StoreChanges &changes)
{
    QMetaObject::invokeMethod(m_worker, [worker = m_worker, changes] { worker->take(changes); }, Qt::QueuedConnection);
}

void ChatStore::loadMessages(qint64 chatId)
{
    QMetaObject::invokeMethod(
        m_worker, [worker = m_worker, chatId] { worker->loadMessages(chatId); }, Qt::QueuedConnection);
}

void ChatStore::search(const QString &text)
{
    QMetaObject::invokeMethod(m_worker, [worker = m_worker, text] { worker->search(text); }, Qt::QueuedConnection);
}

bool ChatStore::flush(int timeoutMs)
{
    // Shared, because the thread may come to it after this call gave up.
    const auto done = std::make_shared<QSemaphore>();
    QMetaObject::invokeMethod(
        m_worker,
        [worker = m_worker, done] {
            worker->commit();
            done->release();
        },
        Qt::QueuedConnection);
    return done->tryAcquire(1, timeoutMs);
}

qint64 ChatStore::newId()
{
    // Milliseconds and room for 1,048,576 ids in each: a later program never meets the ids of an earlier one.
    m_lastId = std::max(m_lastId + 1, QDateTime::currentMSecsSinceEpoch() << 20);
    return m_lastId;
}

} // namespace ui
