// SPDX-License-Identifier: GPL-3.0-or-later
// Stores that are old, new, foreign or damaged.
#include "tests/support/chat_store_fixtures.h"
#include "tests/support/shared_data.h"
#include "ui/chat/chat_store_schema.h"

#include <QRandomGenerator>
#include <QTemporaryDir>
#include <QtTest>

using namespace ui;
using namespace chat_store_fixtures;
using Mode = StoreStatus::Mode;

class TestChatStoreDamage : public QObject {
    Q_OBJECT

private slots:
    void init() { m_dir = std::make_unique<QTemporaryDir>(); }
    void leavesANewerVersionAlone();
    void setsAsideWhatIsNoDatabase();
    void setsAsideAnotherProgramsDatabase();
    void salvagesAfterDamage();
    void survivesRandomDamage();
    void messagesWithoutAChatAreAdopted();
    void migratesTheFirstVersion();
    void migratesTheSecondVersion();

private:
    [[nodiscard]] QString path() const { return m_dir->filePath(QStringLiteral("data/chats.sqlite")); }

    std::unique_ptr<QTemporaryDir> m_dir;
};

void TestChatStoreDamage::leavesANewerVersionAlone()
{
    const qint64 id = fill(path(), 2);
    runSql(path(), {QStringLiteral("PRAGMA user_version = 99")});
    {
        Opened opened(path());
        QCOMPARE(opened.statuses.last().mode, Mode::Unavailable);
        QVERIFY(opened.statuses.last().reason.contains(QStringLiteral("newer")));
        QVERIFY(opened.statuses.last().reason.contains(QStringLiteral("99")));
        opened.store.put(message(opened.store, id, QStringLiteral("must not arrive")));
        QTest::qWait(200);
    }
    QCOMPARE(runSql(path(), {QStringLiteral("SELECT count(*) FROM message")}).toInt(), 2);
    QCOMPARE(runSql(path(), {QStringLiteral("PRAGMA user_version")}).toInt(), 99);
}

void TestChatStoreDamage::setsAsideWhatIsNoDatabase()
{
    QDir().mkpath(QFileInfo(path()).path());
    QFile file(path());
    QVERIFY(file.open(QIODevice::WriteOnly));
    file.write(QByteArray("these are not chats ").repeated(1000));
    file.close();
    Opened opened(path());
    QCOMPARE(opened.statuses.last().mode, Mode::Writable);
    const QStringList aside = asideFiles(QFileInfo(path()).path());
    QCOMPARE(aside.size(), 1);
    QVERIFY(opened.statuses.last().reason.contains(aside[0]));
    QFile kept(QFileInfo(path()).dir().filePath(aside[0]));
    QCOMPARE(kept.size(), 20000);
}

void TestChatStoreDamage::setsAsideAnotherProgramsDatabase()
{
    QDir().mkpath(QFileInfo(path()).path());
    runSql(path(), {"CREATE TABLE bookmarks(url TEXT)", "INSERT INTO bookmarks VALUES('x')"});
    Opened opened(path());
    QCOMPARE(opened.statuses.last().mode, Mode::Writable);
    const QStringList aside = asideFiles(QFileInfo(path()).path());
    QCOMPARE(aside.size(), 1);
    const QString kept = QFileInfo(path()).dir().filePath(aside[0]);
    QCOMPARE(runSql(kept, {"SELECT count(*) FROM bookmarks"}).toInt(), 1);
    QCOMPARE(runSql(kept, {"PRAGMA journal_mode"}).toString(), QStringLiteral("delete"));
}

void TestChatStoreDamage::salvagesAfterDamage()
{
    const qint64 id = fill(path(), 400);
    QFile file(path());
    QVERIFY(file.open(QIODevice::ReadWrite));
    const qint64 inside = file.readAll().indexOf("message 200 ");
    QVERIFY(inside > 0);
    file.seek(inside / 4096 * 4096);
    file.write(QByteArray(4096, '\xA5')); // one page in the middle of the messages
    file.close();
    Opened opened(path());
    QCOMPARE(opened.statuses.last().mode, Mode::Writable);
    QVERIFY2(opened.statuses.last().reason.contains(QStringLiteral("damaged")),
             qPrintable(opened.statuses.last().reason));
    QCOMPARE(asideFiles(QFileInfo(path()).path()).size(), 1);
    const auto left = opened.messages(id).size();
    qInfo("%lld of 400 messages were taken over", static_cast<long long>(left));
    QVERIFY(left > 300 && left < 400);
}

void TestChatStoreDamage::survivesRandomDamage()
{
    const qint64 id = fill(path(), 60);
    const QByteArray good = shared_data::read(path());
    QVERIFY(!good.isEmpty());
    QRandomGenerator random(7);
    const int rounds = shared_data::fullTier() ? 2000 : 60;
    for (int round = 0; round < rounds; ++round) {
        m_dir = std::make_unique<QTemporaryDir>();
        QDir().mkpath(QFileInfo(path()).path());
        QByteArray bad = good;
        switch (round % 3) {
        case 0: // single bits
            for (int n = 0; n < 8; ++n)
                bad[random.bounded(int(bad.size()))] =
                    char(bad[random.bounded(int(bad.size()))] ^ (1 << random.bounded(8)));
            break;
        case 1:
            bad.truncate(random.bounded(int(bad.size())));
            break;
        default: // a page of zeros
            bad.replace(random.bounded(int(bad.size() / 4096)) * 4096, 4096, QByteArray(4096, '\0'));
        }
        QFile file(path());
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(bad);
        file.close();
        Opened opened(path());
        QCOMPARE(opened.statuses.first().mode, Mode::Writable);
        opened.messages(id);
        const MessageRecord m = message(opened.store, id, QStringLiteral("after"));
        opened.store.put(m);
        QTRY_VERIFY2(opened.saved.contains(m.id), qPrintable(QStringLiteral("round %1").arg(round)));
    }
}

void TestChatStoreDamage::messagesWithoutAChatAreAdopted()
{
    {
        Opened opened(path());
        opened.store.put(message(opened.store, 42, QStringLiteral("left alone")));
    }
    Opened opened(path());
    QCOMPARE(opened.chats.size(), 1);
    QCOMPARE(opened.chats[0].id, 42);
    const auto messages = opened.messages(42);
    QCOMPARE(messages.size(), 1);
    QCOMPARE(opened.chats[0].headId, messages[0].id);
}

void TestChatStoreDamage::migratesTheFirstVersion()
{
    QDir().mkpath(QFileInfo(path()).path());
    runSql(
        path(),
        {"CREATE TABLE chat(id INTEGER PRIMARY KEY, title TEXT NOT NULL, title_edited INTEGER NOT NULL, system_prompt "
         "TEXT NOT "
         "NULL, head_id INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, deleted_ms INTEGER "
         "NOT NULL)",
         "CREATE TABLE message(id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, parent_id INTEGER NOT NULL, role TEXT "
         "NOT NULL, "
         "text TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL, error TEXT NOT NULL, model TEXT NOT NULL, "
         "prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT NULL, ttft_ms "
         "REAL NOT "
         "NULL, tokens_per_second REAL NOT NULL, created_ms INTEGER NOT NULL)",
         "CREATE INDEX message_chat ON message(chat_id)",
         "CREATE TABLE piece(id INTEGER PRIMARY KEY, message_id INTEGER NOT NULL, text TEXT NOT NULL)",
         "CREATE INDEX piece_message ON piece(message_id)", "INSERT INTO chat VALUES(7,'old',0,'sys',9,1,2,0)",
         "INSERT INTO message VALUES(8,7,0,'user','q',0,'','','',0,0,0,0,0,1)",
         "INSERT INTO message VALUES(9,7,8,'assistant','a',0,'stop','','m',1,2,3,4,5,6)",
         QStringLiteral("PRAGMA application_id = %1").arg(0x4C617468), "PRAGMA user_version = 1"});
    Opened opened(path());
    QCOMPARE(opened.statuses.last().mode, Mode::Writable);
    QCOMPARE(opened.chats.size(), 1);
    QCOMPARE(opened.chats[0].title, QStringLiteral("old"));
    QCOMPARE(opened.chats[0].messageCount, 2);
    QCOMPARE(opened.messages(7).size(), 2);
    QVERIFY(asideFiles(QFileInfo(path()).path()).isEmpty());
}

/// A store from before reasoning was kept: everything in it stays, a growing answer included.
void TestChatStoreDamage::migratesTheSecondVersion()
{
    QDir().mkpath(QFileInfo(path()).path());
    runSql(
        path(),
        {"CREATE TABLE chat(id INTEGER PRIMARY KEY, title TEXT NOT NULL, title_edited INTEGER NOT NULL, system_prompt "
         "TEXT NOT NULL, head_id INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, "
         "deleted_ms INTEGER NOT NULL, model TEXT NOT NULL DEFAULT '', message_count INTEGER NOT NULL DEFAULT 0)",
         "CREATE TABLE message(id INTEGER PRIMARY KEY, chat_id INTEGER NOT NULL, parent_id INTEGER NOT NULL, role TEXT "
         "NOT NULL, text TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL, error TEXT NOT NULL, model TEXT "
         "NOT NULL, prompt_tokens INTEGER NOT NULL, completion_tokens INTEGER NOT NULL, cached_tokens INTEGER NOT "
         "NULL, ttft_ms REAL NOT NULL, tokens_per_second REAL NOT NULL, created_ms INTEGER NOT NULL)",
         "CREATE INDEX message_chat ON message(chat_id)",
         "CREATE TABLE piece(id INTEGER PRIMARY KEY, message_id INTEGER NOT NULL, text TEXT NOT NULL)",
         "CREATE INDEX piece_message ON piece(message_id)", "INSERT INTO chat VALUES(7,'old',1,'sys',10,1,2,0,'m',3)",
         "INSERT INTO message VALUES(8,7,0,'user','q',0,'','','',0,0,0,0,0,1)",
         "INSERT INTO message VALUES(9,7,8,'assistant','a',0,'stop','why','m',1,2,3,4.5,5.5,6)",
         "INSERT INTO message VALUES(10,7,9,'assistant','b',1,'','','m',0,0,0,0,0,7)",
         "INSERT INTO piece VALUES(1,10,'c')", "INSERT INTO piece VALUES(2,10,'d')",
         QStringLiteral("PRAGMA application_id = %1").arg(0x4C617468), "PRAGMA user_version = 2"});
    Opened opened(path());
    QCOMPARE(opened.statuses.last().mode, Mode::Writable);
    QVERIFY(opened.statuses.last().reason.isEmpty());
    QCOMPARE(runSql(path(), {"PRAGMA user_version"}).toInt(), schema::currentVersion());
    QCOMPARE(opened.chats.size(), 1);
    QCOMPARE(opened.chats[0].title, QStringLiteral("old"));
    QCOMPARE(opened.chats[0].systemPrompt, QStringLiteral("sys"));
    QCOMPARE(opened.chats[0].messageCount, 3);
    const auto messages = opened.messages(7);
    QCOMPARE(messages.size(), 3);
    MessageRecord answer;
    answer.id = 9;
    answer.chatId = 7;
    answer.parentId = 8;
    answer.role = QStringLiteral("assistant");
    answer.text = QStringLiteral("a");
    answer.reason = QStringLiteral("stop");
    answer.error = QStringLiteral("why");
    answer.model = QStringLiteral("m");
    answer.promptTokens = 1;
    answer.completionTokens = 2;
    answer.cachedTokens = 3;
    answer.ttftMs = 4.5;
    answer.tokensPerSecond = 5.5;
    answer.createdMs = 6;
    QCOMPARE(messages[1], answer);
    QCOMPARE(messages[2].text, QStringLiteral("bcd"));
    QCOMPARE(messages[2].state, MessageState::Interrupted);
    answer.reasoning = QStringLiteral("thought"); // and new messages are kept with their new parts
    opened.store.put(answer);
    QTRY_VERIFY(opened.saved.contains(9));
    QCOMPARE(opened.messages(7)[1], answer);
    QVERIFY(asideFiles(QFileInfo(path()).path()).isEmpty());
}

QTEST_GUILESS_MAIN(TestChatStoreDamage)
#include "tst_chat_store_damage.moc"
