// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/chat_model.h"
#include "ui/chat/chat_runner.h"

#include <QAbstractItemModelTester>
#include <QDateTime>
#include <QSignalSpy>
#include <QtTest>

using namespace ui;

namespace {

QString user()
{
    return QStringLiteral("user");
}

QString assistant()
{
    return QStringLiteral("assistant");
}

/// A model with a checker on it, and everything it wanted kept.
struct Fixture {
    Fixture()
        : model([this] { return ++lastId; })
        , tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest)
    {
        QObject::connect(&model, &ChatModel::changed, &model, [this](const StoreChanges &together) {
            changes.insert(changes.end(), together.begin(), together.end());
        });
    }

    qint64 lastId = 100;
    ChatModel model;
    QAbstractItemModelTester tester;
    std::vector<StoreChange> changes;

    QStringList titles() const
    {
        QStringList out;
        for (int i = 0; i < model.rowCount(); ++i)
            out << model.index(i).data().toString();
        return out;
    }
    QStringList texts(qint64 chat) const
    {
        QStringList out;
        for (const MessageRecord &m : model.branch(chat))
            out << m.text;
        return out;
    }
    /// question -> answer -> question -> answer
    qint64 conversation(QVector<qint64> *ids)
    {
        const qint64 chat = model.addChat();
        qint64 parent = 0;
        for (const auto &[role, text] :
             {std::pair(user(), "q1"), {assistant(), "a1"}, {user(), "q2"}, {assistant(), "a2"}}) {
            parent = model.addMessage(chat, parent, role, QString::fromLatin1(text), MessageState::Done).id;
            ids->append(parent);
        }
        return chat;
    }
};

} // namespace

class TestChatModel : public QObject {
    Q_OBJECT

private slots:
    void emptyChatsAreNotKept();
    void titleFromFirstMessage_data();
    void titleFromFirstMessage();
    void renamedTitlesStay();
    void lastChangedComesFirst();
    void regeneratedAnswersAreVariants();
    void editedQuestionsAreBranches();
    void circlesEnd();
    void lostHeadShowsTheNewest();
    void trashAndUndo();
    void filter();
    void storedChatsDoNotReplaceLiveOnes();
    void growingTextOfAnotherProgramIsInterrupted();
    void requestsTakeTurns();
    void reasoningAndCallsAreSentApart();
    void partsGrowApart();
};

void TestChatModel::emptyChatsAreNotKept()
{
    Fixture f;
    const qint64 chat = f.model.addChat();
    f.model.rename(chat, QStringLiteral("named"));
    f.model.setSystemPrompt(chat, QStringLiteral("be brief"));
    QVERIFY(f.changes.empty());
    f.model.addMessage(chat, 0, user(), QStringLiteral("hi"), MessageState::Done);
    QCOMPARE(f.changes.size(), 2u);
    QCOMPARE(std::get<MessageRecord>(f.changes[0]).text, QStringLiteral("hi"));
    const ChatRecord kept = std::get<ChatRecord>(f.changes[1]);
    QCOMPARE(kept.title, QStringLiteral("named"));
    QCOMPARE(kept.systemPrompt, QStringLiteral("be brief"));
    QCOMPARE(kept.messageCount, 1);
    QCOMPARE(kept.headId, std::get<MessageRecord>(f.changes[0]).id);
}

void TestChatModel::titleFromFirstMessage_data()
{
    QTest::addColumn<QString>("text");
    QTest::addColumn<QString>("title");
    QTest::newRow("short") << "Hello there" << "Hello there";
    QTest::newRow("first line") << "\n  Explain this:\nint a;" << "Explain this:";
    QTest::newRow("heading") << "## Task\nmore" << "Task";
    QTest::newRow("long, at a word")
        << "Explain paged attention like I know operating systems and their tables, with examples"
        << QStringLiteral("Explain paged attention like I know operating systems and their tables, with…");
    QTest::newRow("long word") << QString(100, u'x') << QString(80, u'x') + u'…';
    QTest::newRow("pair is not cut") << QString(79, u'x') + QStringLiteral("🙂yyyy") << QString(79, u'x') + u'…';
}

void TestChatModel::titleFromFirstMessage()
{
    QFETCH(QString, text);
    QFETCH(QString, title);
    QCOMPARE(ChatModel::titleFrom(text), title);
}

void TestChatModel::renamedTitlesStay()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 chat = f.conversation(&ids);
    QCOMPARE(f.titles(), QStringList{QStringLiteral("q1")});
    QVERIFY(f.model.setData(f.model.indexOf(chat), QStringLiteral("  mine  ")));
    f.model.addMessage(chat, 0, user(), QStringLiteral("other first"), MessageState::Done);
    QCOMPARE(f.titles(), QStringList{QStringLiteral("mine")});
    QVERIFY(!f.model.setData(f.model.indexOf(chat), QStringLiteral("   ")));
}

void TestChatModel::lastChangedComesFirst()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 a = f.conversation(&ids);
    const qint64 b = f.model.addChat();
    f.model.addMessage(b, 0, user(), QStringLiteral("b"), MessageState::Done);
    QCOMPARE(f.titles(), (QStringList{"b", "q1"}));
    f.model.addMessage(a, ids.last(), user(), QStringLiteral("again"), MessageState::Done);
    QCOMPARE(f.titles(), (QStringList{"q1", "b"}));
    QCOMPARE(f.model.index(0).data(ChatModel::SectionRole).toString(), QStringLiteral("Today"));
    QCOMPARE(f.model.index(1).data(ChatModel::SectionRole).toString(), QString());
    f.model.setActivity(b, 3, QStringLiteral("streaming"));
    QCOMPARE(f.model.indexOf(b).data(ChatModel::SeriesRole).toInt(), 3);
    QCOMPARE(f.model.indexOf(b).data(ChatModel::SubtitleRole).toString(), QStringLiteral("streaming"));
}

void TestChatModel::regeneratedAnswersAreVariants()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 chat = f.conversation(&ids);
    const qint64 other = f.model.addMessage(chat, ids[0], assistant(), QStringLiteral("a1b"), MessageState::Done).id;
    QCOMPARE(f.texts(chat), (QStringList{"q1", "a1b"}));
    QCOMPARE(f.model.variants(chat, other), (QVector<qint64>{ids[1], other}));
    QSignalSpy changed(&f.model, &ChatModel::branchChanged);
    f.model.showVariant(chat, other, -1);
    QCOMPARE(f.texts(chat), (QStringList{"q1", "a1", "q2", "a2"})); // with everything below it
    QCOMPARE(changed.count(), 1);
    QCOMPARE(std::get<ChatRecord>(f.changes.back()).headId, ids[3]);
    f.model.showVariant(chat, ids[1], -1); // there is none
    QCOMPARE(changed.count(), 1);
    f.model.showVariant(chat, ids[1], 1);
    QCOMPARE(f.texts(chat), (QStringList{"q1", "a1b"}));
}

void TestChatModel::editedQuestionsAreBranches()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 chat = f.conversation(&ids);
    const qint64 edited = f.model.addMessage(chat, ids[1], user(), QStringLiteral("q2b"), MessageState::Done).id;
    QCOMPARE(f.texts(chat), (QStringList{"q1", "a1", "q2b"}));
    QCOMPARE(f.model.variants(chat, edited).size(), 2);
    f.model.showVariant(chat, edited, -1);
    QCOMPARE(f.texts(chat), (QStringList{"q1", "a1", "q2", "a2"}));
    QCOMPARE(f.model.chat(chat)->messages.size(), 5); // nothing is lost
}

void TestChatModel::circlesEnd()
{
    Fixture f;
    ChatRecord record;
    record.id = 1;
    record.headId = 11;
    f.model.addStored({record});
    MessageRecord a;
    a.id = 10;
    a.chatId = 1;
    a.parentId = 11;
    MessageRecord b = a;
    b.id = 11;
    b.parentId = 10;
    f.model.addStoredMessages(1, {a, b});
    QVERIFY(f.model.branch(1).size() <= 3);
    f.model.showVariant(1, 10, 0);
}

void TestChatModel::lostHeadShowsTheNewest()
{
    Fixture f;
    ChatRecord record;
    record.id = 1;
    record.headId = 99;
    f.model.addStored({record});
    MessageRecord a;
    a.id = 10;
    a.chatId = 1;
    MessageRecord b = a;
    b.id = 11;
    b.parentId = 10;
    f.model.addStoredMessages(1, {a, b});
    QCOMPARE(f.model.branch(1).size(), 2);
}

void TestChatModel::trashAndUndo()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 chat = f.conversation(&ids);
    f.model.moveToTrash(chat);
    QCOMPARE(f.titles(), QStringList());
    QCOMPARE(f.model.trashCount(), 1);
    QVERIFY(std::get<ChatRecord>(f.changes.back()).deletedMs > 0);
    f.model.setShowTrash(true);
    QCOMPARE(f.titles(), QStringList{QStringLiteral("q1")});
    f.model.restore(chat);
    f.model.setShowTrash(false);
    QCOMPARE(f.titles(), QStringList{QStringLiteral("q1")});
    QCOMPARE(std::get<ChatRecord>(f.changes.back()).deletedMs, 0);
    QCOMPARE(f.texts(chat).size(), 4);
    f.model.purge(chat);
    QCOMPARE(std::get<ChatPurged>(f.changes.back()).chatId, chat);
    QVERIFY(!f.model.chat(chat));
}

void TestChatModel::filter()
{
    Fixture f;
    qint64 cherries = 0;
    for (const char *text : {"Apples and pears", "Bananas", "Cherries"}) {
        cherries = f.model.addChat();
        f.model.addMessage(cherries, 0, user(), QString::fromLatin1(text), MessageState::Done);
    }
    f.model.setFilter(QStringLiteral("PEAR"));
    QCOMPARE(f.titles(), QStringList{QStringLiteral("Apples and pears")});
    f.model.setFilter(QStringLiteral("pear"), {cherries}); // found in its text
    QCOMPARE(f.titles(), (QStringList{"Cherries", "Apples and pears"}));
    f.model.setFilter({});
    QCOMPARE(f.titles().size(), 3);
}

void TestChatModel::storedChatsDoNotReplaceLiveOnes()
{
    Fixture f;
    QVector<qint64> ids;
    const qint64 chat = f.conversation(&ids);
    ChatRecord stale;
    stale.id = chat;
    stale.title = QStringLiteral("stale");
    ChatRecord old;
    old.id = 5;
    old.title = QStringLiteral("old");
    old.updatedMs = QDateTime::currentMSecsSinceEpoch() - 86400000ll * 400;
    f.model.addStored({stale, old});
    QCOMPARE(f.titles(), (QStringList{"q1", "old"}));
    QCOMPARE(f.model.indexOf(5).data(ChatModel::SectionRole).toString(), QStringLiteral("Older"));
    QVERIFY(!f.model.chat(5)->loaded);
}

void TestChatModel::growingTextOfAnotherProgramIsInterrupted()
{
    Fixture f;
    ChatRecord record;
    record.id = 1;
    record.headId = 10;
    f.model.addStored({record});
    MessageRecord growing;
    growing.id = 10;
    growing.chatId = 1;
    growing.state = MessageState::Streaming;
    f.model.addStoredMessages(1, {growing});
    QCOMPARE(f.model.message(1, 10)->state, MessageState::Interrupted);
}

void TestChatModel::requestsTakeTurns()
{
    const auto message = [](const QString &role, const QString &text) {
        MessageRecord m;
        m.role = role;
        m.text = text;
        return m;
    };
    const auto sent =
        requestMessages(QStringLiteral("sys"),
                        {message(user(), QStringLiteral("a")), message(assistant(), {}),
                         message(user(), QStringLiteral("b")), message(assistant(), QStringLiteral("c"))});
    QCOMPARE(sent.size(), 3u);
    QCOMPARE(sent[0].role, std::string("system"));
    QCOMPARE(sent[1].content, std::string("a\n\nb"));
    QCOMPARE(sent[2].content, std::string("c"));
    QCOMPARE(requestMessages(QStringLiteral("  "), {}).size(), 0u);
}

void TestChatModel::reasoningAndCallsAreSentApart()
{
    MessageRecord question;
    question.role = user();
    question.text = QStringLiteral("q");
    MessageRecord answer;
    answer.role = assistant();
    answer.text = QStringLiteral("a");
    answer.reasoning = QStringLiteral("hm");
    MessageRecord thought = answer; // stopped before its first word
    thought.text.clear();
    MessageRecord called = thought;
    called.toolCalls = QStringLiteral("\x1Eweather\x1F{\"city\": \"Bonn\"}\x1Enow\x1F");
    const auto sent = requestMessages({}, {question, answer, question, thought, question, called});
    QCOMPARE(sent.size(), 4u);
    QCOMPARE(sent[0].reasoning, std::string());
    QCOMPARE(sent[1].content, std::string("a"));
    QCOMPARE(sent[1].reasoning, std::string("hm"));
    QVERIFY(sent[1].toolCalls.empty());
    QCOMPARE(sent[2].content, std::string("q\n\nq"));
    QCOMPARE(sent[3].content, std::string());
    const std::vector<engine::ToolCall> calls{{"weather", "{\"city\": \"Bonn\"}"}, {"now", "{}"}};
    QVERIFY(sent[3].toolCalls == calls);
}

void TestChatModel::partsGrowApart()
{
    Fixture f;
    const qint64 chat = f.model.addChat();
    const qint64 question = f.model.addMessage(chat, 0, user(), QStringLiteral("q"), MessageState::Done).id;
    const qint64 answer = f.model.addMessage(chat, question, assistant(), {}, MessageState::Streaming).id;
    f.changes.clear();
    f.model.appendText(chat, answer, QStringLiteral("thought"), MessagePart::Reasoning);
    f.model.appendText(chat, answer, QStringLiteral("said"));
    f.model.appendText(chat, answer,
                       QStringLiteral("\x1E"
                                      "f\x1F{}"),
                       MessagePart::ToolCalls);
    const MessageRecord *message = f.model.message(chat, answer);
    QCOMPARE(message->reasoning, QStringLiteral("thought"));
    QCOMPARE(message->text, QStringLiteral("said"));
    QCOMPARE(message->toolCalls,
             QStringLiteral("\x1E"
                            "f\x1F{}"));
    QCOMPARE(f.changes.size(), 3u);
    QCOMPARE(std::get<TextAppended>(f.changes[0]).part, MessagePart::Reasoning);
    QCOMPARE(std::get<TextAppended>(f.changes[1]).part, MessagePart::Text);
    QCOMPARE(std::get<TextAppended>(f.changes[2]).part, MessagePart::ToolCalls);
    QCOMPARE(f.titles(), QStringList{QStringLiteral("q")});
}

QTEST_GUILESS_MAIN(TestChatModel)
#include "tst_chat_model.moc"
