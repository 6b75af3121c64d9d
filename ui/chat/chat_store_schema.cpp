// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_store_schema.h"

#include <QFileInfo>
#include <QSqlDatabase>
#include <QSqlError>
#include <QSqlQuery>
#include <QSqlRecord>
#include <QStringList>
#include <QVariant>

#include <array>

namespace ui::schema {
namespace {

constexpr int applicationId = 0x4C617468;     // "Lath"
constexpr qint64 fullCheckBytes = 64ll << 20; // checking a larger file would delay the start by seconds

/// Step n brings version n to n + 1. Released steps never change.
const std::array<QStringList, 4> &migrations()
{
    static const std::array<QStringList, 4> steps{
        QStringList{
            QStringLiteral(
                "CREATE TABLE chat(id INTEGER PRIMARY KEY, title TEXT NOT NULL, title_edited INTEGER NOT NULL, "
                "system_prompt TEXT NOT NULL, head_id INTEGER NOT NULL, created_ms INTEGER NOT NULL, "
                "updated_ms INTEGER NOT NULL, deleted_ms INTEGER NOT NULL)"),
            QStringLiteral(
                "CREATE TABLE message(id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, "
                "parent_id INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, state INTEGER NOT NULL, "
                "reason TEXT NOT NULL, error TEXT NOT NULL, model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL, "
                "completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, ttft_ms REAL NOT NULL, "
                "tokens_per_second REAL NOT NULL, created_ms INTEGER NOT NULL)"),
            QStringLiteral("CREATE INDEX message_chat ON message(chat_id)"),
            QStringLiteral(
                "CREATE TABLE piece(id INTEGER PRIMARY KEY, message_id INTEGER NOT NULL, text TEXT NOT NULL)"),
            QStringLiteral("CREATE INDEX piece_message ON piece(message_id)"),
        },
        QStringList{
            // The list shows both for every chat; counting 100,000 chats at each start would take too long.
            QStringLiteral("ALTER TABLE chat ADD COLUMN model TEXT NOT NULL DEFAULT ''"),
            QStringLiteral("ALTER TABLE chat ADD COLUMN message_count INTEGER NOT NULL DEFAULT 0"),
            QStringLiteral("UPDATE chat SET message_count = (SELECT count(*) FROM message WHERE chat_id = chat.id)"),
        },
        QStringList{
            // What a model thinks and which tools it calls, apart from what it answers.
            QStringLiteral("ALTER TABLE message ADD COLUMN reasoning TEXT NOT NULL DEFAULT ''"),
            QStringLiteral("ALTER TABLE message ADD COLUMN tool_calls TEXT NOT NULL DEFAULT ''"),
            QStringLiteral("ALTER TABLE message ADD COLUMN reasoning_ms REAL NOT NULL DEFAULT 0"),
            QStringLiteral("ALTER TABLE piece ADD COLUMN part INTEGER NOT NULL DEFAULT 0"),
        },
        QStringList{
            // Why an answer took its time, as the engine told.
            QStringLiteral("ALTER TABLE message ADD COLUMN facts TEXT NOT NULL DEFAULT ''"),
        },
    };
    return steps;
}

CheckResult failure(const QSqlError &error)
{
    return {isDamage(error) ? Health::Damaged : Health::Failed, error.text().trimmed()};
}

/// One number that a PRAGMA or SELECT gives.
bool readNumber(QSqlDatabase &database, const QString &sql, qint64 *value, CheckResult *result)
{
    QSqlQuery query(database);
    if (!query.exec(sql) || !query.next()) {
        *result = failure(query.lastError());
        return false;
    }
    *value = query.value(0).toLongLong();
    return true;
}

CheckResult checkStructure(QSqlDatabase &database)
{
    if (QFileInfo(database.databaseName()).size() > fullCheckBytes)
        return {};
    QSqlQuery query(database);
    if (!query.exec(QStringLiteral("PRAGMA quick_check(1)")) || !query.next())
        return failure(query.lastError());
    const QString answer = query.value(0).toString();
    return answer == u"ok" ? CheckResult{} : CheckResult{Health::Damaged, answer};
}

/// A store whose version is current must have the columns that are read; a file with the right marks but another
/// structure is damage.
CheckResult checkColumns(QSqlDatabase &database)
{
    for (const char *sql :
         {"SELECT id, title, title_edited, system_prompt, head_id, created_ms, updated_ms, deleted_ms, model, "
          "message_count FROM chat LIMIT 1",
          "SELECT id, chat_id, parent_id, role, text, state, reason, error, model, prompt_tokens, "
          "completion_tokens, cached_tokens, ttft_ms, tokens_per_second, created_ms, reasoning, tool_calls, "
          "reasoning_ms, facts FROM message LIMIT 1",
          "SELECT id, message_id, text, part FROM piece LIMIT 1"}) {
        QSqlQuery query(database);
        if (!query.exec(QString::fromLatin1(sql)))
            return {Health::Damaged, query.lastError().text().trimmed()};
    }
    return {};
}

CheckResult migrate(QSqlDatabase &database, qint64 from)
{
    QSqlQuery query(database);
    bool good = query.exec(QStringLiteral("BEGIN IMMEDIATE"));
    for (qint64 step = from; good && step < currentVersion(); ++step)
        for (const QString &sql : migrations()[static_cast<std::size_t>(step)])
            good = good && query.exec(sql);
    good = good && query.exec(QStringLiteral("PRAGMA application_id = %1").arg(applicationId))
        && query.exec(QStringLiteral("PRAGMA user_version = %1").arg(currentVersion()))
        && query.exec(QStringLiteral("COMMIT"));
    if (good)
        return {};
    const QSqlError error = query.lastError();
    QSqlQuery(database).exec(QStringLiteral("ROLLBACK"));
    // A step that finds other tables than its version promises: the file is not what its marks say.
    const bool structure = error.text().contains(QStringLiteral("no such"))
        || error.text().contains(QStringLiteral("already exists"))
        || error.text().contains(QStringLiteral("duplicate column"));
    return structure ? CheckResult{Health::Damaged, error.text().trimmed()} : failure(error);
}

/// Copies one table row by row in the given direction until the end or the first unreadable row.
int copyRows(QSqlDatabase &from, QSqlDatabase &to, const QString &table, const QString &direction)
{
    QSqlQuery read(from);
    read.setForwardOnly(true);
    if (!read.exec(QStringLiteral("SELECT * FROM %1 NOT INDEXED ORDER BY rowid %2").arg(table, direction)))
        return 0;
    const QSqlRecord wanted = to.record(table);
    int copied = 0;
    while (read.next()) {
        QStringList names;
        QStringList marks;
        QVariantList values;
        const QSqlRecord row = read.record();
        for (int i = 0; i < row.count(); ++i) {
            if (!wanted.contains(row.fieldName(i)) || row.isNull(i))
                continue;
            names << row.fieldName(i);
            marks << QStringLiteral("?");
            values << row.value(i);
        }
        QSqlQuery write(to);
        write.prepare(
            QStringLiteral("INSERT OR IGNORE INTO %1(%2) VALUES(%3)").arg(table, names.join(u','), marks.join(u',')));
        for (const QVariant &value : values)
            write.addBindValue(value);
        if (write.exec())
            copied += write.numRowsAffected() > 0 ? 1 : 0;
    }
    return copied;
}

} // namespace

int currentVersion()
{
    return static_cast<int>(migrations().size());
}

bool isDamage(const QSqlError &error)
{
    const QString code = error.nativeErrorCode();
    return code == u"11" || code == u"26" || code == u"267" || code == u"523" || code == u"779";
}

CheckResult prepare(QSqlDatabase &database, bool mayWrite)
{
    CheckResult result;
    qint64 version = 0;
    qint64 application = 0;
    qint64 tables = 0;
    if (!readNumber(database, QStringLiteral("PRAGMA user_version"), &version, &result)
        || !readNumber(database, QStringLiteral("PRAGMA application_id"), &application, &result)
        || !readNumber(database, QStringLiteral("SELECT count(*) FROM sqlite_master"), &tables, &result))
        return result;
    const bool empty = tables == 0 && version == 0;
    if (!empty && application != applicationId)
        return {Health::Foreign, QStringLiteral("its application id is %1").arg(application)};
    if (version > currentVersion())
        return {Health::Newer,
                QStringLiteral("version %1, this program knows up to %2").arg(version).arg(currentVersion())};
    if (const CheckResult check = checkStructure(database); check.health != Health::Good)
        return check;
    if (version < currentVersion()) {
        if (!mayWrite)
            return {Health::Failed,
                    QStringLiteral("version %1 cannot be brought to %2 without writing")
                        .arg(version)
                        .arg(currentVersion())};
        if (const CheckResult migrated = migrate(database, version); migrated.health != Health::Good)
            return migrated;
    }
    return checkColumns(database);
}

int salvage(const QString &path, QSqlDatabase &database)
{
    const QString name = database.connectionName() + QStringLiteral("-damaged");
    int messages = 0;
    {
        QSqlDatabase damaged = QSqlDatabase::addDatabase(QStringLiteral("QSQLITE"), name);
        damaged.setDatabaseName(path);
        damaged.setConnectOptions(QStringLiteral("QSQLITE_OPEN_READONLY"));
        if (damaged.open()) {
            database.transaction();
            for (const char *table : {"chat", "message", "piece"}) {
                // Damage in the middle stops one direction only.
                for (const char *direction : {"ASC", "DESC"}) {
                    const int rows =
                        copyRows(damaged, database, QString::fromLatin1(table), QString::fromLatin1(direction));
                    messages += qstrcmp(table, "message") == 0 ? rows : 0;
                }
            }
            database.commit();
        }
        damaged.close();
    }
    QSqlDatabase::removeDatabase(name);
    return messages;
}

} // namespace ui::schema
