// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_store_file.h"

#include "ui/chat/chat_store_schema.h"

#include <QDateTime>
#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QLockFile>
#include <QSqlError>
#include <QSqlQuery>
#include <QUrl>
#include <QUuid>
#include <QVariant>

#include <algorithm>
#include <utility>
#include <vector>

namespace ui {
namespace {

using Mode = StoreStatus::Mode;

constexpr qint64 trashDays = 30;

/// Text never stored as NULL: a null QString binds as NULL, which the columns refuse.
QVariant text(const QString &value)
{
    return value.isNull() ? QStringLiteral("") : value;
}

bool run(QSqlQuery &query, const char *sql, const QVariantList &values = {})
{
    if (!query.prepare(QString::fromLatin1(sql)))
        return false;
    for (const QVariant &value : values)
        query.addBindValue(value);
    return query.exec();
}

MessageRecord readMessage(const QSqlQuery &row)
{
    MessageRecord m;
    m.id = row.value(0).toLongLong();
    m.chatId = row.value(1).toLongLong();
    m.parentId = row.value(2).toLongLong();
    m.role = row.value(3).toString();
    m.text = row.value(4).toString();
    m.state = static_cast<MessageState>(std::clamp(row.value(5).toInt(), 0, 4));
    m.reason = row.value(6).toString();
    m.error = row.value(7).toString();
    m.model = row.value(8).toString();
    m.promptTokens = row.value(9).toInt();
    m.completionTokens = row.value(10).toInt();
    m.cachedTokens = row.value(11).toInt();
    m.ttftMs = row.value(12).toDouble();
    m.tokensPerSecond = row.value(13).toDouble();
    m.createdMs = row.value(14).toLongLong();
    m.reasoning = row.value(15).toString();
    m.toolCalls = row.value(16).toString();
    m.reasoningMs = row.value(17).toDouble();
    m.facts = row.value(18).toString();
    return m;
}

/// The text of a growing message that pieces with this number belong to.
QString &partOf(MessageRecord &message, int part)
{
    switch (static_cast<MessagePart>(part)) {
    case MessagePart::Reasoning:
        return message.reasoning;
    case MessagePart::ToolCalls:
        return message.toolCalls;
    case MessagePart::Text:
        break;
    }
    return message.text;
}

} // namespace

ChatStoreFile::ChatStoreFile(QString path)
    : m_path(std::move(path))
    , m_connection(QStringLiteral("chats-") + QUuid::createUuid().toString(QUuid::Id128))
{
}

ChatStoreFile::~ChatStoreFile()
{
    close();
}

void ChatStoreFile::close()
{
    if (m_database.isValid()) {
        m_database.close();
        m_database = QSqlDatabase();
        QSqlDatabase::removeDatabase(m_connection);
    }
    m_lock.reset();
    m_writable = false;
}

/// Takes the lock file; false with `problem` when another program has it or the folder cannot be written.
bool ChatStoreFile::takeLock(QString *problem)
{
    const QFileInfo file(m_path);
    if (!QDir().mkpath(file.absolutePath())) {
        *problem = QStringLiteral("The folder %1 cannot be made.").arg(file.absolutePath());
        return false;
    }
    m_lock = std::make_unique<QLockFile>(m_path + QStringLiteral(".lock"));
    m_lock->setStaleLockTime(0); // age says nothing; a lock whose process is gone is taken over all the same
    if (m_lock->tryLock(0))
        return true;
    qint64 pid = 0;
    QString host;
    QString program;
    const bool known = m_lock->getLockInfo(&pid, &host, &program);
    *problem = m_lock->error() == QLockFile::LockFailedError
        ? QStringLiteral("Another program (%1, process %2) has the chats at %3 open; here they can be read only.")
              .arg(known ? program : QStringLiteral("unknown"))
              .arg(pid)
              .arg(m_path)
        : QStringLiteral("The folder %1 cannot be written to.").arg(file.absolutePath());
    m_lock.reset();
    return false;
}

bool ChatStoreFile::openConnection(bool writable, bool immutable)
{
    if (m_database.isValid()) {
        m_database = QSqlDatabase();
        QSqlDatabase::removeDatabase(m_connection);
    }
    m_database = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), m_connection);
    QString name = m_path;
    QString options = QStringLiteral("QSQLITE_BUSY_TIMEOUT=2000");
    if (!writable)
        options += QStringLiteral(";QSQLITE_OPEN_READONLY");
    if (immutable) { // a folder that cannot be written has no place for SQLite's shared memory
        name = QStringLiteral("file:%1?immutable=1").arg(QString::fromLatin1(QUrl::toPercentEncoding(m_path, "/")));
        options += QStringLiteral(";QSQLITE_OPEN_URI");
    }
    m_database.setDatabaseName(name);
    m_database.setConnectOptions(options);
    if (!m_database.open())
        return false;
    QSqlQuery query(m_database);
    query.exec(QStringLiteral("PRAGMA trusted_schema = OFF"));
    query.exec(QStringLiteral("PRAGMA cell_size_check = ON"));
    return true;
}

StoreStatus ChatStoreFile::openForReading(const QString &why)
{
    m_writable = false;
    if (!QFileInfo::exists(m_path))
        return {Mode::Unavailable, false, why};
    for (const bool immutable : {false, true}) {
        if (!openConnection(false, immutable))
            continue;
        const schema::CheckResult check = schema::prepare(m_database, false);
        if (check.health == schema::Health::Good)
            return {Mode::ReadOnly, false, why};
        if (check.health != schema::Health::Failed)
            break;
    }
    m_database.close();
    return {Mode::Unavailable, false, why};
}

StoreStatus ChatStoreFile::open()
{
    close();
    QString problem;
    if (!takeLock(&problem))
        return openForReading(problem);
    if (!openConnection(true)) {
        const QString reason = m_database.lastError().text();
        return openForReading(QStringLiteral("The chats at %1 cannot be opened for writing: %2.").arg(m_path, reason));
    }
    const schema::CheckResult check = schema::prepare(m_database, true);
    switch (check.health) {
    case schema::Health::Good:
        return settle({});
    case schema::Health::Newer:
        m_database.close();
        return {Mode::Unavailable, false,
                QStringLiteral("The chats at %1 were written by a newer Lathe (%2); they are left as they are, and new "
                               "chats are not saved.")
                    .arg(m_path, check.detail)};
    case schema::Health::Foreign:
    case schema::Health::Damaged:
        return replaceDamaged(check.detail);
    case schema::Health::Failed:
        break;
    }
    return openForReading(QStringLiteral("The chats at %1 cannot be written now: %2.").arg(m_path, check.detail));
}

StoreStatus ChatStoreFile::settle(const QString &told)
{
    m_damaged = false;
    m_writable = true;
    // Only now: the journal mode is written into the file, which until here could have been another program's.
    QSqlQuery query(m_database);
    query.exec(QStringLiteral("PRAGMA journal_mode = WAL"));
    query.exec(QStringLiteral("PRAGMA synchronous = FULL"));
    query.finish();
    const auto ownerOnly = QFileDevice::ReadOwner | QFileDevice::WriteOwner;
    QFile::setPermissions(m_path, ownerOnly);
    if (!tidyUp())
        return {Mode::ReadOnly, false, QStringLiteral("The chats at %1 cannot be written now.").arg(m_path)};
    return {Mode::Writable, true, told};
}

/// Moves the store out of the way, its journal with it; returns the new name, empty when that failed.
QString ChatStoreFile::setAside()
{
    const QString base =
        m_path + QStringLiteral(".damaged-") + QDateTime::currentDateTime().toString(QStringLiteral("yyyyMMdd-hhmmss"));
    QString target = base;
    for (int n = 2; QFileInfo::exists(target); ++n)
        target = base + QStringLiteral("-%1").arg(n);
    if (!QFile::rename(m_path, target))
        return {};
    for (const char *suffix : {"-wal", "-shm"})
        QFile::rename(m_path + QLatin1String(suffix), target + QLatin1String(suffix));
    return target;
}

StoreStatus ChatStoreFile::replaceDamaged(const QString &detail)
{
    m_database.close();
    const QString aside = setAside();
    if (aside.isEmpty())
        return {Mode::Unavailable, false,
                QStringLiteral("The chats at %1 are damaged (%2) and cannot be set aside; new chats are not saved.")
                    .arg(m_path, detail)};
    if (!openConnection(true) || schema::prepare(m_database, true).health != schema::Health::Good) {
        m_database.close();
        return {Mode::Unavailable, false, QStringLiteral("A new store cannot be made at %1.").arg(m_path)};
    }
    const int messages = schema::salvage(aside, m_database);
    return settle(QStringLiteral("The chats at %1 were damaged (%2); the file was set aside as %3 and %4 messages were "
                                 "taken over.")
                      .arg(m_path, detail, aside)
                      .arg(messages));
}

/// Messages whose chat is missing, as after damage, are shown in a chat of their own.
bool ChatStoreFile::adoptOrphans()
{
    QSqlQuery query(m_database);
    if (!query.exec(QStringLiteral("SELECT 1 FROM message WHERE chat_id NOT IN (SELECT id FROM chat) LIMIT 1")))
        return false;
    const bool any = query.next();
    query.finish();
    return !any
        || query.exec(QStringLiteral(
            "INSERT INTO chat(id, title, title_edited, system_prompt, head_id, created_ms, updated_ms, deleted_ms, "
            "model, "
            "message_count) SELECT chat_id, 'Recovered chat', 0, '', max(id), min(created_ms), max(created_ms), 0, '', "
            "count(*) FROM message WHERE chat_id NOT IN (SELECT id FROM chat) GROUP BY chat_id"));
}

/// Gives messages that were growing when a program ended their text and the state Interrupted; empties old trash.
bool ChatStoreFile::tidyUp()
{
    if (!adoptOrphans())
        return false;
    QSqlQuery query(m_database);
    if (!query.exec(QStringLiteral("SELECT id, chat_id FROM message WHERE state = 1")))
        return false;
    QVector<std::pair<qint64, qint64>> ids;
    while (query.next())
        ids.append({query.value(0).toLongLong(), query.value(1).toLongLong()});
    StoreChanges changes;
    for (const auto &[id, chat] : ids)
        for (MessageRecord &message : readMessages(chat))
            if (message.id == id) {
                message.state = MessageState::Interrupted;
                changes.emplace_back(message);
            }
    const qint64 limit = QDateTime::currentMSecsSinceEpoch() - trashDays * 86400 * 1000;
    if (run(query, "SELECT id FROM chat WHERE deleted_ms > 0 AND deleted_ms < ?", {limit}))
        while (query.next())
            changes.emplace_back(ChatPurged{query.value(0).toLongLong()});
    query.finish();
    QString problem;
    return changes.empty() || commit(changes, &problem);
}

bool ChatStoreFile::apply(const ChatRecord &c, QSqlQuery &query)
{
    return run(
        query,
        "INSERT INTO chat(id, title, title_edited, system_prompt, head_id, created_ms, updated_ms, deleted_ms, model, "
        "message_count) VALUES(?,?,?,?,?,?,?,?,?,?) ON CONFLICT(id) DO UPDATE SET title=excluded.title, "
        "title_edited=excluded.title_edited, system_prompt=excluded.system_prompt, head_id=excluded.head_id, "
        "updated_ms=excluded.updated_ms, deleted_ms=excluded.deleted_ms, model=excluded.model, "
        "message_count=excluded.message_count",
        {c.id, text(c.title), c.titleEdited, text(c.systemPrompt), c.headId, c.createdMs, c.updatedMs, c.deletedMs,
         text(c.model), c.messageCount});
}

bool ChatStoreFile::apply(const MessageRecord &m, QSqlQuery &query)
{
    return run(query,
               "INSERT OR REPLACE INTO message(id, chat_id, parent_id, role, text, state, reason, error, model, "
               "prompt_tokens, "
               "completion_tokens, cached_tokens, ttft_ms, tokens_per_second, created_ms, reasoning, tool_calls, "
               "reasoning_ms, facts) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
               {m.id, m.chatId, m.parentId, text(m.role), text(m.text), static_cast<int>(m.state), text(m.reason),
                text(m.error), text(m.model), m.promptTokens, m.completionTokens, m.cachedTokens, m.ttftMs,
                m.tokensPerSecond, m.createdMs, text(m.reasoning), text(m.toolCalls), m.reasoningMs, text(m.facts)})
        && run(query, "DELETE FROM piece WHERE message_id = ?", {m.id});
}

bool ChatStoreFile::apply(const TextAppended &piece, QSqlQuery &query)
{
    return run(query, "INSERT INTO piece(message_id, text, part) VALUES(?,?,?)",
               {piece.messageId, text(piece.text), static_cast<int>(piece.part)});
}

bool ChatStoreFile::apply(const ChatPurged &purged, QSqlQuery &query)
{
    return run(query, "DELETE FROM piece WHERE message_id IN (SELECT id FROM message WHERE chat_id = ?)",
               {purged.chatId})
        && run(query, "DELETE FROM message WHERE chat_id = ?", {purged.chatId})
        && run(query, "DELETE FROM chat WHERE id = ?", {purged.chatId});
}

bool ChatStoreFile::fail(const QSqlError &error, QString *problem)
{
    m_damaged = schema::isDamage(error);
    *problem = error.databaseText().isEmpty() ? error.text().trimmed() : error.databaseText().trimmed();
    QSqlQuery(m_database).exec(QStringLiteral("ROLLBACK"));
    return false;
}

bool ChatStoreFile::commit(const StoreChanges &changes, QString *problem)
{
    QSqlQuery query(m_database);
    if (!query.exec(QStringLiteral("BEGIN IMMEDIATE")))
        return fail(query.lastError(), problem);
    for (const StoreChange &change : changes)
        if (!std::visit([&](const auto &c) { return apply(c, query); }, change))
            return fail(query.lastError(), problem);
    query.finish();
    return query.exec(QStringLiteral("COMMIT")) || fail(query.lastError(), problem);
}

QVector<ChatRecord> ChatStoreFile::readChats()
{
    QVector<ChatRecord> chats;
    QSqlQuery query(m_database);
    query.setForwardOnly(true);
    query.exec(QStringLiteral(
        "SELECT id, title, title_edited, system_prompt, head_id, created_ms, updated_ms, deleted_ms, model, "
        "message_count FROM chat ORDER BY updated_ms DESC"));
    while (query.next()) {
        ChatRecord c;
        c.id = query.value(0).toLongLong();
        c.title = query.value(1).toString();
        c.titleEdited = query.value(2).toBool();
        c.systemPrompt = query.value(3).toString();
        c.headId = query.value(4).toLongLong();
        c.createdMs = query.value(5).toLongLong();
        c.updatedMs = query.value(6).toLongLong();
        c.deletedMs = query.value(7).toLongLong();
        c.model = query.value(8).toString();
        c.messageCount = query.value(9).toInt();
        chats.append(c);
    }
    m_damaged = m_damaged || schema::isDamage(query.lastError());
    return chats;
}

QVector<MessageRecord> ChatStoreFile::readMessages(qint64 chatId)
{
    QVector<MessageRecord> messages;
    QSqlQuery query(m_database);
    query.setForwardOnly(true);
    run(query,
        "SELECT id, chat_id, parent_id, role, text, state, reason, error, model, prompt_tokens, completion_tokens, "
        "cached_tokens, ttft_ms, tokens_per_second, created_ms, reasoning, tool_calls, reasoning_ms, facts FROM "
        "message "
        "WHERE chat_id = ? ORDER BY id",
        {chatId});
    while (query.next())
        messages.append(readMessage(query));
    m_damaged = m_damaged || schema::isDamage(query.lastError());
    for (MessageRecord &message : messages) {
        if (message.state != MessageState::Streaming)
            continue;
        run(query, "SELECT text, part FROM piece WHERE message_id = ? ORDER BY id", {message.id});
        while (query.next())
            partOf(message, query.value(1).toInt()) += query.value(0).toString();
    }
    return messages;
}

QVector<qint64> ChatStoreFile::search(const QString &text, int limit)
{
    QString pattern = text;
    pattern.replace(u'\\', QStringLiteral("\\\\"))
        .replace(u'%', QStringLiteral("\\%"))
        .replace(u'_', QStringLiteral("\\_"));
    QVector<qint64> chats;
    QSqlQuery query(m_database);
    query.setForwardOnly(true);
    run(query, "SELECT DISTINCT chat_id FROM message WHERE text LIKE ? ESCAPE '\\' LIMIT ?",
        {QString(u'%' + pattern + u'%'), limit});
    while (query.next())
        chats.append(query.value(0).toLongLong());
    return chats;
}

} // namespace ui
