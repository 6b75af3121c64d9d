// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/event_timer.h"
#include "tests/support/fake_engine.h"
#include "tests/support/shared_data.h"
#include "ui/chat/chat_list.h"
#include "ui/chat/chat_model.h"
#include "ui/chat/chat_page.h"
#include "ui/chat/chat_runner.h"
#include "ui/chat/chat_store.h"
#include "ui/chat/chat_view.h"
#include "ui/chat/composer.h"
#include "ui/chat/context_meter.h"
#include "ui/chat/prompt_edit.h"
#include "ui/engine_client.h"
#include "ui/settings.h"
#include "ui/theme.h"
#include "ui/widgets/notice_bar.h"

#include <QClipboard>
#include <QDesktopServices>
#include <QDialog>
#include <QDialogButtonBox>
#include <QLabel>
#include <QLineEdit>
#include <QListView>
#include <QPushButton>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest>

using namespace ui;

namespace {

/// A page over a scripted engine, with its files in a folder of its own.
struct Rig {
    explicit Rig(const QString &folder, FakeEngineScript script = {}, bool load = true)
    {
        qputenv("XDG_DATA_HOME", folder.toLocal8Bit());
        settings = std::make_unique<Settings>(folder + QStringLiteral("/test.conf"));
        auto made = std::make_unique<FakeEngine>(std::move(script));
        engine = made.get();
        client = std::make_unique<EngineClient>(std::move(made));
        theme.setMode(ThemeMode::Dark);
        page = std::make_unique<ChatPage>(theme, *client, *settings);
        page->resize(1010, 760);
        page->show();
        if (!QTest::qWaitForWindowExposed(page.get()))
            qWarning("not shown");
        if (load)
            loadModel();
        if (!QTest::qWaitFor([this] { return page->store().status().mode != StoreStatus::Mode::Opening; }, 10000))
            qWarning("the store did not open");
    }

    void loadModel()
    {
        client->loadModel(QStringLiteral("/models/tiny.gguf"));
        if (!QTest::qWaitFor([this] {
                engine->step();
                return client->model().has_value();
            }))
            qWarning("no model");
    }
    void type(const QString &text)
    {
        page->composer()->edit()->setPlainText(text);
        QTest::keyClick(page->composer()->edit(), Qt::Key_Return);
    }
    /// Steps the engine until the chat's answer is finished.
    bool finish(qint64 chat)
    {
        return QTest::qWaitFor(
            [&] {
                engine->step();
                return !page->runner().isRunning(chat);
            },
            20000);
    }
    QVector<MessageRecord> branch() const { return page->model().branch(page->currentChat()); }
    void click(qint64 id, const QString &action)
    {
        page->view()->grab();
        const int index = page->view()->document().indexOf(id);
        for (const BlockTarget &target : page->view()->messageTargets(index))
            if (target.id == action) {
                page->view()->trigger(index, target);
                return;
            }
        qWarning("no action %s", qPrintable(action));
    }

    Theme theme;
    std::unique_ptr<Settings> settings;
    FakeEngine *engine = nullptr;
    std::unique_ptr<EngineClient> client;
    std::unique_ptr<ChatPage> page;
};

void savePicture(QWidget &widget, const char *name)
{
    if (const QString dir = qEnvironmentVariable("LATHE_PICTURES"); !dir.isEmpty())
        widget.grab().save(dir + u'/' + QString::fromLatin1(name) + QStringLiteral(".png"));
}

} // namespace

class TestChatPage : public QObject {
    Q_OBJECT

private slots:
    void init() { m_dir = std::make_unique<QTemporaryDir>(); }
    void asksAndAnswers();
    void figuresUnderTheAnswer();
    void severalChatsRunAtOnce();
    void escStops();
    void regenerateKeepsTheOldAnswer();
    void editAndResend();
    void withoutAModelTheComposerSaysHow();
    void engineErrorsAreShownInPlace();
    void fullContextOffersWhatToDo();
    void systemPromptIsSent();
    void chatsComeBackAfterARestart();
    void deletedChatsCanComeBack();
    void searchFindsMessages();
    void notSavedIsSaid();
    void draftsStayWithTheirChat();
    void linksAreShownBeforeTheyOpen();
    void shortcutsAndTabOrder();
    void eightChatsKeepTheWindowFluid();
    void pictures();

private:
    void streamEightChats(Blocks &own);

    std::unique_ptr<QTemporaryDir> m_dir;
};

void TestChatPage::asksAndAnswers()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("What is a block?"));
    QVERIFY(rig.page->composer()->edit()->document()->isEmpty());
    QVERIFY(rig.page->runner().isRunning(rig.page->currentChat()));
    QVERIFY(rig.finish(rig.page->currentChat()));
    const auto branch = rig.branch();
    QCOMPARE(branch.size(), 2);
    QCOMPARE(branch[0].text, QStringLiteral("What is a block?"));
    QVERIFY(branch[1].text.startsWith(QStringLiteral("A block is a page of the cache.")));
    QCOMPARE(branch[1].state, MessageState::Done);
    rig.page->view()->flush();
    QCOMPARE(rig.page->view()->document().message(1).view.source, branch[1].text);
    QCOMPARE(rig.page->model().chat(rig.page->currentChat())->record.title, QStringLiteral("What is a block?"));
    rig.type(QStringLiteral("And a page?"));
    const auto sent = rig.engine->submitted().back().messages;
    QCOMPARE(sent.size(), 3u);
    QCOMPARE(sent[0].role, std::string("user"));
    QCOMPARE(sent[1].role, std::string("assistant"));
    QCOMPARE(QString::fromStdString(sent[1].content), branch[1].text);
    QVERIFY(rig.finish(rig.page->currentChat()));
}

void TestChatPage::figuresUnderTheAnswer()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("q"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    const QString footer = rig.page->view()->document().message(1).view.footer.text;
    for (const char *part : {"TTFT", "tok/s", "64 tokens", "prompt 24 (16 cached)"})
        QVERIFY2(footer.contains(QLatin1String(part)), qPrintable(footer));
    const MessageRecord answer = rig.branch()[1];
    QVERIFY(!answer.facts.isEmpty());
    rig.page->explainLast();
    auto *dialog = rig.page->findChild<QDialog *>(QStringLiteral("sentences"));
    QVERIFY(dialog);
    QVERIFY2(dialog->accessibleDescription().contains(QStringLiteral("first token came after")),
             qPrintable(dialog->accessibleDescription()));
    dialog->close();
    QCOMPARE(rig.page->contextMeter()->used(), 24 + 64);
    QCOMPARE(rig.page->contextMeter()->total(), rig.client->model()->effective.maxModelLen);
}

void TestChatPage::severalChatsRunAtOnce()
{
    Rig rig(m_dir->path());
    QVector<qint64> chats;
    for (int i = 0; i < 4; ++i) {
        rig.page->newChat();
        rig.type(QStringLiteral("question %1").arg(i));
        chats << rig.page->currentChat();
    }
    QCOMPARE(QSet<qint64>(chats.begin(), chats.end()).size(), 4);
    for (int i = 0; i < 5; ++i)
        rig.engine->step();
    QTRY_VERIFY(rig.page->model().chat(chats[0])->messages.size() == 2);
    QSet<int> colours;
    for (const qint64 chat : chats) {
        QVERIFY(rig.page->runner().isRunning(chat));
        colours << rig.page->model().indexOf(chat).data(ChatModel::SeriesRole).toInt();
    }
    QCOMPARE(colours.size(), 4);
    QVERIFY(!colours.contains(-1));
    rig.page->openChat(chats[1]); // a running chat is shown while it streams
    for (const qint64 chat : chats)
        QVERIFY(rig.finish(chat));
    rig.page->view()->flush();
    QCOMPARE(rig.page->view()->document().message(1).view.source, rig.branch()[1].text);
    QCOMPARE(rig.branch()[1].completionTokens, 64);
    QCOMPARE(rig.page->model().indexOf(chats[2]).data(ChatModel::SeriesRole).toInt(), -1);
}

void TestChatPage::escStops()
{
    FakeEngineScript script;
    script.answerTokens = 100000;
    Rig rig(m_dir->path(), script);
    rig.type(QStringLiteral("q"));
    for (int i = 0; i < 10; ++i)
        rig.engine->step();
    QTRY_VERIFY(!rig.branch().last().text.isEmpty());
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_Escape);
    QVERIFY(rig.finish(rig.page->currentChat()));
    QCOMPARE(rig.branch().last().state, MessageState::Stopped);
    QVERIFY(!rig.branch().last().text.isEmpty());
    QVERIFY(rig.page->view()->document().message(1).view.footer.text.contains(QStringLiteral("stopped")));
}

void TestChatPage::regenerateKeepsTheOldAnswer()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("q"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    const qint64 first = rig.branch()[1].id;
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_R, Qt::ControlModifier);
    QVERIFY(rig.page->runner().isRunning(rig.page->currentChat()));
    QVERIFY(rig.finish(rig.page->currentChat()));
    QCOMPARE(rig.branch().size(), 2);
    QVERIFY(rig.branch()[1].id != first);
    QCOMPARE(rig.engine->submitted().back().messages.size(), 1u);
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_Left, Qt::AltModifier);
    QCOMPARE(rig.branch()[1].id, first);
    rig.click(first, QStringLiteral("variant-next"));
    QVERIFY(rig.branch()[1].id != first);
    QCOMPARE(rig.page->view()->document().messageCount(), 2);
}

void TestChatPage::editAndResend()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("first words"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    rig.page->composer()->edit()->setPlainText(QStringLiteral("a draft"));
    rig.click(rig.branch()[0].id, QStringLiteral("edit"));
    QCOMPARE(rig.page->composer()->edit()->toPlainText(), QStringLiteral("first words"));
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_Escape);
    QCOMPARE(rig.page->composer()->edit()->toPlainText(), QStringLiteral("a draft"));
    rig.click(rig.branch()[0].id, QStringLiteral("edit"));
    rig.type(QStringLiteral("better words"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    QCOMPARE(rig.branch().size(), 2);
    QCOMPARE(rig.branch()[0].text, QStringLiteral("better words"));
    QCOMPARE(rig.page->model().variants(rig.page->currentChat(), rig.branch()[0].id).size(), 2);
    QCOMPARE(rig.page->model().chat(rig.page->currentChat())->messages.size(), 4);
}

void TestChatPage::withoutAModelTheComposerSaysHow()
{
    Rig rig(m_dir->path(), {}, false);
    QVERIFY(rig.page->composer()->edit()->placeholderText().contains(QStringLiteral("Ctrl+O")));
    rig.type(QStringLiteral("kept"));
    QCOMPARE(rig.page->composer()->edit()->toPlainText(), QStringLiteral("kept"));
    QVERIFY(rig.branch().isEmpty());
    rig.loadModel();
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_Return);
    QVERIFY(rig.finish(rig.page->currentChat()));
    QCOMPARE(rig.branch().size(), 2);
}

void TestChatPage::engineErrorsAreShownInPlace()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("q"));
    QCoreApplication::processEvents();
    engine::RequestFinished failed;
    failed.id = 1;
    failed.reason = engine::FinishReason::Failed;
    failed.error = "The model has no <b>chat template</b>.";
    rig.engine->push(failed);
    QTRY_VERIFY(!rig.page->runner().isRunning(rig.page->currentChat()));
    const ViewMessage shown = rig.page->view()->document().message(1).view;
    QCOMPARE(shown.notice.severity, MessageNotice::Severity::Error);
    QCOMPARE(shown.notice.text, QStringLiteral("The model has no <b>chat template</b>."));
    QCOMPARE(shown.notice.actions[0].id, QStringLiteral("regenerate"));
    rig.page->view()->grab();
}

void TestChatPage::fullContextOffersWhatToDo()
{
    Rig rig(m_dir->path());
    for (int i = 0; i < 3; ++i) {
        rig.type(QStringLiteral("question %1").arg(i));
        QVERIFY(rig.finish(rig.page->currentChat()));
    }
    rig.type(QStringLiteral("the last one"));
    QTRY_VERIFY(rig.engine->submitted().size() == 4);
    engine::RequestFinished full;
    full.id = 4;
    full.reason = engine::FinishReason::ContextFull;
    full.usage = {8000, 192, 0};
    rig.engine->push(full);
    QTRY_VERIFY(!rig.page->runner().isRunning(rig.page->currentChat()));
    const ViewMessage shown = rig.page->view()->document().message(7).view;
    QCOMPARE(shown.notice.severity, MessageNotice::Severity::Warning);
    QVERIFY2(shown.notice.text.contains(QStringLiteral("8,192")), qPrintable(shown.notice.text));
    QVERIFY(shown.notice.actions.size() >= 2);
    rig.click(shown.id, QStringLiteral("shorten"));
    QCOMPARE(rig.page->composer()->edit()->toPlainText(), QStringLiteral("the last one"));
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_Escape);
    const qint64 before = rig.page->currentChat();
    const auto old = rig.branch();
    rig.click(shown.id, QStringLiteral("continue-new"));
    QVERIFY(rig.page->currentChat() != before);
    QVERIFY(rig.finish(rig.page->currentChat()));
    const auto branch = rig.branch();
    QVERIFY(branch.size() >= 2 && branch.size() < old.size() + 1);
    QCOMPARE(branch[0].role, QStringLiteral("user"));
    QCOMPARE(branch[branch.size() - 2].text, QStringLiteral("the last one"));
    QCOMPARE(rig.page->model().branch(before).size(), old.size()); // the old chat is as it was
}

void TestChatPage::systemPromptIsSent()
{
    Rig rig(m_dir->path());
    emit rig.page->composer()->systemPromptRequested();
    auto *dialog = rig.page->findChild<QDialog *>(QStringLiteral("systemPrompt"));
    QVERIFY(dialog);
    dialog->findChild<QPlainTextEdit *>()->setPlainText(QStringLiteral("Be brief."));
    QTest::mouseClick(dialog->findChild<QDialogButtonBox *>()->button(QDialogButtonBox::Ok), Qt::LeftButton);
    rig.type(QStringLiteral("q"));
    const auto sent = rig.engine->submitted().back().messages;
    QCOMPARE(sent.size(), 2u);
    QCOMPARE(sent[0].role, std::string("system"));
    QCOMPARE(sent[0].content, std::string("Be brief."));
    QVERIFY(rig.finish(rig.page->currentChat()));
}

void TestChatPage::chatsComeBackAfterARestart()
{
    QVector<MessageRecord> before;
    {
        Rig rig(m_dir->path());
        rig.type(QStringLiteral("kept question"));
        QVERIFY(rig.finish(rig.page->currentChat()));
        before = rig.branch();
        rig.page->newChat();
        rig.type(QStringLiteral("cut off"));
        for (int i = 0; i < 8; ++i)
            rig.engine->step();
        QTRY_VERIFY(!rig.branch().last().text.isEmpty());
        rig.page->flush();
    }
    Rig rig(m_dir->path(), {}, false);
    QTRY_COMPARE(rig.page->model().rowCount(), 3); // and the empty one
    const auto open = [&](const QString &title) {
        for (int row = 0; row < rig.page->model().rowCount(); ++row) {
            const QModelIndex index = rig.page->model().index(row);
            if (index.data().toString() == title) {
                rig.page->openChat(index.data(ChatModel::IdRole).toLongLong());
                return;
            }
        }
    };
    open(QStringLiteral("kept question"));
    QTRY_COMPARE(rig.branch(), before);
    open(QStringLiteral("cut off"));
    QTRY_COMPARE(rig.branch().size(), 2);
    QCOMPARE(rig.branch()[1].state, MessageState::Interrupted);
    QVERIFY(!rig.branch()[1].text.isEmpty());
    QTRY_COMPARE(rig.page->view()->document().messageCount(), 2);
    QVERIFY(rig.page->view()->document().message(1).view.notice.text.contains(QStringLiteral("ended")));
    QCOMPARE(rig.page->model().rowCount(), 2); // the empty chat went when it was left
}

void TestChatPage::deletedChatsCanComeBack()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("to be deleted"));
    const qint64 chat = rig.page->currentChat();
    QVERIFY(rig.finish(chat));
    QListView *list = rig.page->list()->view();
    list->setFocus();
    list->setCurrentIndex(rig.page->model().indexOf(chat));
    QTest::keyClick(list, Qt::Key_Delete); // without a modifier nothing is lost
    QVERIFY(rig.page->model().chat(chat)->record.deletedMs == 0);
    QTest::keyClick(list, Qt::Key_Delete, Qt::ControlModifier);
    QVERIFY(rig.page->model().chat(chat)->record.deletedMs > 0);
    QVERIFY(rig.page->currentChat() != chat);
    QPushButton *undo = nullptr;
    for (QPushButton *button : rig.page->list()->findChildren<QPushButton *>())
        if (button->text() == u"Undo")
            undo = button;
    QVERIFY(undo && undo->isVisible());
    QTest::mouseClick(undo, Qt::LeftButton);
    QCOMPARE(rig.page->currentChat(), chat);
    QCOMPARE(rig.branch().size(), 2);
    QCOMPARE(rig.page->model().trashCount(), 0);
}

void TestChatPage::searchFindsMessages()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("alpha\n\nwith a needle in the text"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    rig.page->newChat();
    rig.type(QStringLiteral("beta"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_K, Qt::ControlModifier);
    QVERIFY(rig.page->list()->searchField()->hasFocus());
    QTest::keyClicks(rig.page->list()->searchField(), QStringLiteral("needle"));
    QTRY_COMPARE(rig.page->model().rowCount(), 1);
    QCOMPARE(rig.page->model().index(0).data().toString(), QStringLiteral("alpha"));
    QTest::keyClick(rig.page->list()->searchField(), Qt::Key_Escape);
    QCOMPARE(rig.page->model().rowCount(), 2);
}

void TestChatPage::notSavedIsSaid()
{
    QFile blocker(m_dir->filePath(QStringLiteral("lathe")));
    QVERIFY(blocker.open(QIODevice::WriteOnly));
    blocker.close();
    Rig rig(m_dir->path());
    QCOMPARE(rig.page->store().status().mode, StoreStatus::Mode::Unavailable);
    QTRY_VERIFY(rig.page->notice()->isVisible());
    QVERIFY2(rig.page->notice()->text().contains(QStringLiteral("not saved")), qPrintable(rig.page->notice()->text()));
    rig.type(QStringLiteral("q"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    QCOMPARE(rig.branch().size(), 2);
    QVERIFY(rig.page->view()->document().message(1).view.footer.text.contains(QStringLiteral("not saved")));
    savePicture(*rig.page, "not-saved");
    QVERIFY(blocker.remove());
    QTRY_VERIFY_WITH_TIMEOUT(rig.page->store().status().saving, 10000);
    QTRY_VERIFY(!rig.page->notice()->isVisible());
    QTRY_VERIFY(!rig.page->view()->document().message(1).view.footer.text.contains(QStringLiteral("not saved")));
}

void TestChatPage::draftsStayWithTheirChat()
{
    Rig rig(m_dir->path());
    rig.type(QStringLiteral("one"));
    const qint64 first = rig.page->currentChat();
    QVERIFY(rig.finish(first));
    rig.page->composer()->edit()->setPlainText(QStringLiteral("half a thought"));
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_N, Qt::ControlModifier);
    QVERIFY(rig.page->currentChat() != first);
    QVERIFY(rig.page->composer()->edit()->document()->isEmpty());
    rig.page->openChat(first);
    QCOMPARE(rig.page->composer()->edit()->toPlainText(), QStringLiteral("half a thought"));
}

void TestChatPage::linksAreShownBeforeTheyOpen()
{
    Rig rig(m_dir->path());
    emit rig.page->view()->linkActivated(QStringLiteral("javascript:alert(1)"));
    QVERIFY(!rig.page->findChild<QDialog *>(QStringLiteral("linkQuestion")));
    emit rig.page->view()->linkActivated(QStringLiteral("https://ex\u0430mple.org/<b>x"));
    auto *dialog = rig.page->findChild<QDialog *>(QStringLiteral("linkQuestion"));
    QVERIFY(dialog);
    auto *label = dialog->findChild<QLabel *>(QStringLiteral("linkAddress"));
    QCOMPARE(label->textFormat(), Qt::PlainText);
    QVERIFY2(label->text().startsWith(QStringLiteral("https://xn--")), qPrintable(label->text()));
    dialog->reject();
}

void TestChatPage::shortcutsAndTabOrder()
{
    Rig rig(m_dir->path());
    PromptEdit *edit = rig.page->composer()->edit();
    edit->setFocus();
    QSet<QWidget *> visited;
    for (int i = 0; i < 30; ++i) {
        QWidget *focus = QApplication::focusWidget();
        QVERIFY(focus);
        visited << focus;
        QTest::keyClick(focus, Qt::Key_Tab);
    }
    QVERIFY(visited.contains(edit));
    QVERIFY(visited.contains(rig.page->view()));
    QVERIFY(visited.contains(rig.page->list()->searchField()));
    QVERIFY(visited.contains(rig.page->list()->view()));
    QTest::keyClick(QApplication::focusWidget(), Qt::Key_K, Qt::ControlModifier);
    QVERIFY(rig.page->list()->searchField()->hasFocus());
}

/// The whole page while eight chats of one batch stream at 50 tokens/s each.
void TestChatPage::eightChatsKeepTheWindowFluid()
{
    const Blocks own = fluidRun([&](Blocks &run) { streamEightChats(run); });
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(own.fluid(), own.text().constData());
}

void TestChatPage::streamEightChats(Blocks &own)
{
    auto *app = static_cast<TimedApplication *>(qApp);
    FakeEngineScript script;
    script.stepMs = 20;
    script.answerTokens = 1000000;
    script.answer =
        "A block is **a page** of the cache, and `code` too.\n\n- one\n- two\n\n```cpp\nint a = 1;\n```\n\n";
    const QTemporaryDir dir;
    Rig rig(dir.path(), script, false);
    rig.client->loadModel(QStringLiteral("/models/tiny.gguf"));
    QTRY_VERIFY(rig.client->model());
    for (int i = 0; i < 8; ++i) {
        rig.page->newChat();
        rig.type(QStringLiteral("question %1").arg(i));
    }
    QTest::qWait(500);
    const int seconds = shared_data::fullTier() ? 30 : 5;
    app->startRecording();
    QEventLoop loop;
    QTimer::singleShot(seconds * 1000, &loop, &QEventLoop::quit);
    QTimer switching; // the reader looks at one chat after the other
    int at = 0;
    connect(&switching, &QTimer::timeout, &loop,
            [&] { rig.page->openChat(rig.page->model().index(at++ % 8).data(ChatModel::IdRole).toLongLong()); });
    switching.start(700);
    loop.exec();
    app->stopRecording();
    own = app->report("page with 8 running chats");
    QVERIFY(rig.branch().last().text.size() > 200);
}

void TestChatPage::pictures()
{
    Rig rig(m_dir->path());
    rig.page->resize(1014, 960);
    rig.type(QStringLiteral("Regex for log lines"));
    QVERIFY(rig.finish(rig.page->currentChat()));
    rig.page->newChat();
    rig.type(QStringLiteral("Bash: rename photos by date"));
    rig.page->newChat();
    rig.type(QStringLiteral("Explain paged attention like I know operating systems."));
    QTest::keyClick(rig.page->composer()->edit(), Qt::Key_R, Qt::ControlModifier);
    for (int i = 0; i < 30; ++i)
        rig.engine->step();
    QTest::qWait(400);
    rig.engine->step();
    QTest::qWait(100);
    savePicture(*rig.page, "page-dark");
    rig.theme.setMode(ThemeMode::Light);
    savePicture(*rig.page, "page-light");
    QCOMPARE(rig.page->model().rowCount(), 3);
}

int main(int argc, char **argv)
{
    TimedApplication app(argc, argv);
    TestChatPage test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_chat_page.moc"
