// SPDX-License-Identifier: GPL-3.0-or-later
// Reasoning and tool calls of an answer: how they are written down, shown, folded, kept and sent again.
#include "engine/api/output.h"
#include "tests/support/chat_fixtures.h"
#include "tests/support/fake_engine.h"
#include "ui/chat/chat_model.h"
#include "ui/chat/chat_page.h"
#include "ui/chat/chat_runner.h"
#include "ui/chat/chat_store.h"
#include "ui/chat/tool_calls.h"
#include "ui/engine_client.h"
#include "ui/settings.h"
#include "ui/theme.h"

#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QMenu>
#include <QScrollBar>
#include <QTemporaryDir>
#include <QtTest>

using namespace ui;
using namespace chat_fixtures;
using Kind = Block::Kind;

namespace {

const char *const thoughts = "The user asks about pages. A page table maps virtual to physical memory, and a block "
                             "table does the same for a sequence.\n\nSo I compare the two.";

QVector<Kind> kindsOf(const ChatDocument &document, int message)
{
    QVector<Kind> kinds;
    for (int i = document.message(message).firstBlock; i < document.endBlock(message); ++i)
        kinds << document.block(i).kind;
    return kinds;
}

double heightOf(const ChatDocument &document, Kind kind)
{
    double height = 0;
    for (int i = 0; i < document.blockCount(); ++i)
        if (document.block(i).kind == kind)
            height += document.heights().at(i);
    return height;
}

BlockTarget foldOf(const ChatView &view, int message)
{
    const auto targets = view.messageTargets(message);
    for (const BlockTarget &target : targets)
        if (target.kind == BlockTarget::Kind::Fold)
            return target;
    return {};
}

void savePicture(QWidget &widget, const char *name)
{
    if (const QString dir = qEnvironmentVariable("LATHE_PICTURES"); !dir.isEmpty())
        widget.grab().save(dir + u'/' + QString::fromLatin1(name) + QStringLiteral(".png"));
}

} // namespace

class TestChatParts : public QObject {
    Q_OBJECT

private slots:
    void initTestCase() { m_theme.setMode(ThemeMode::Dark); }
    void init();
    void cleanup();
    void callsAreOneGrowingText();
    void marksInsideCallsAreLeftOut();
    void reasoningIsFolded();
    void clickAndKeyboardUnfold();
    void labelSaysHowLong();
    void emptyReasoningShowsNothing();
    void streamedPartsEqualWhole();
    void reasoningAfterTheAnswer();
    void unfoldingKeepsTheLineInPlace();
    void callsAreCards();
    void selectionTakesWhatIsShown();
    void farPartsComeBack();
    void assistiveToolsHearIt();
    void answerOfAThinkingModel();
    void stoppedWhileThinking();
    void copyTakesTheAnswer();
    void pictures();

private:
    ChatView &view() { return *m_view; }
    void startPage(FakeEngineScript script);
    void ask(const QString &text);
    bool finish();
    [[nodiscard]] MessageRecord last() const { return m_page->model().branch(m_page->currentChat()).last(); }

    Theme m_theme;
    std::unique_ptr<ChatView> m_view;
    std::unique_ptr<QTemporaryDir> m_dir;
    std::unique_ptr<Settings> m_settings;
    FakeEngine *m_engine = nullptr;
    std::unique_ptr<EngineClient> m_client;
    std::unique_ptr<ChatPage> m_page;
};

void TestChatParts::init()
{
    m_view = std::make_unique<ChatView>(m_theme);
    m_view->resize(774, 760);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
}

void TestChatParts::cleanup()
{
    m_page.reset();
    m_client.reset();
    m_settings.reset();
    m_view.reset();
    m_dir.reset();
}

void TestChatParts::startPage(FakeEngineScript script)
{
    m_view->hide();
    m_page.reset();
    m_client.reset();
    if (!m_dir)
        m_dir = std::make_unique<QTemporaryDir>();
    qputenv("XDG_DATA_HOME", m_dir->path().toLocal8Bit());
    m_settings = std::make_unique<Settings>(m_dir->filePath(QStringLiteral("test.conf")));
    auto engine = std::make_unique<FakeEngine>(std::move(script));
    m_engine = engine.get();
    m_client = std::make_unique<EngineClient>(std::move(engine));
    m_page = std::make_unique<ChatPage>(m_theme, *m_client, *m_settings);
    m_page->resize(1010, 760);
    m_page->show();
    m_client->loadModel(QStringLiteral("/models/thinker.gguf"));
    QVERIFY(QTest::qWaitFor([this] {
        m_engine->step();
        return m_client->model().has_value() && m_page->store().status().mode == StoreStatus::Mode::Writable;
    }));
}

void TestChatParts::ask(const QString &text)
{
    m_page->send(text);
    QVERIFY(m_page->runner().isRunning(m_page->currentChat()));
}

bool TestChatParts::finish()
{
    return QTest::qWaitFor([this] {
        m_engine->step();
        return !m_page->runner().isRunning(m_page->currentChat());
    });
}

void TestChatParts::callsAreOneGrowingText()
{
    int last = -1;
    QString text = toolCallText({{0, "weather", ""}, {0, "", "{\"city\": "}}, &last);
    text += toolCallText({{0, "", "\"Bonn\"}"}, {1, "now", ""}}, &last);
    const QVector<ToolCallText> expected{{QStringLiteral("weather"), QStringLiteral("{\"city\": \"Bonn\"}")},
                                         {QStringLiteral("now"), {}}};
    QCOMPARE(toolCallsOf(text), expected);
    QVector<ToolCallText> grown;
    const qsizetype name = text.indexOf(u'\x1F') + 1;
    extendToolCalls(grown, QStringView(text).left(name));
    const qsizetype second = text.lastIndexOf(u'\x1E');
    for (qsizetype i = name; i < second; ++i) // arguments may be cut anywhere
        extendToolCalls(grown, QStringView(text).mid(i, 1));
    extendToolCalls(grown, QStringView(text).mid(second));
    QCOMPARE(grown, expected);
    QCOMPARE(readableToolCalls(text), QStringLiteral("weather {\"city\": \"Bonn\"}\nnow"));
    QCOMPARE(engineCallsOf(text)[1].arguments, std::string("{}"));
}

void TestChatParts::marksInsideCallsAreLeftOut()
{
    int last = -1;
    const QString text = toolCallText({{0,
                                        "a\x1F"
                                        "b",
                                        "{\x1E}"}},
                                      &last);
    QCOMPARE(toolCallsOf(text), (QVector<ToolCallText>{{QStringLiteral("ab"), QStringLiteral("{}")}}));
    QCOMPARE(toolCallsOf(u"{no call"), (QVector<ToolCallText>{{{}, QStringLiteral("{no call")}}));
    QCOMPARE(toolCallsOf(u"\x1Eno end"), (QVector<ToolCallText>{{QStringLiteral("no end"), {}}}));
}

void TestChatParts::reasoningIsFolded()
{
    ViewMessage answer = assistant(1, QStringLiteral("The answer."));
    answer.reasoning = QString::fromLatin1(thoughts);
    answer.reasoningMs = 3214;
    view().addMessage(answer);
    view().grab();
    QCOMPARE(kindsOf(view().document(), 0),
             QVector<Kind>({Kind::Sender, Kind::ThoughtHead, Kind::Thought, Kind::Body, Kind::Footer}));
    QCOMPARE(heightOf(view().document(), Kind::Thought), 0.0);
    QCOMPARE(foldOf(view(), 0).label, QStringLiteral("Thought for 3.2 s"));
    const double folded = view().document().heights().total();
    view().setUnfolded(1, true);
    view().grab();
    QVERIFY(heightOf(view().document(), Kind::Thought) > 60);
    view().setUnfolded(1, false);
    view().grab();
    QCOMPARE(view().document().heights().total(), folded);
}

void TestChatParts::clickAndKeyboardUnfold()
{
    ViewMessage answer = assistant(2, QStringLiteral("The answer."));
    answer.reasoning = QString::fromLatin1(thoughts);
    view().addMessage(user(1, QStringLiteral("q")));
    view().addMessage(answer);
    view().grab();
    const auto unfolded = [this] { return view().document().message(1).view.unfolded; };
    QTest::mouseClick(view().viewport(), Qt::LeftButton, {}, foldOf(view(), 1).rect.center().toPoint());
    QVERIFY(unfolded());
    view().grab();
    QTest::mouseClick(view().viewport(), Qt::LeftButton, {}, foldOf(view(), 1).rect.center().toPoint());
    QVERIFY(!unfolded());
    view().setFocus();
    QTest::keyClick(&view(), Qt::Key_Space); // without a current message: the last that has some
    QVERIFY(unfolded());
    view().setCurrentMessage(1);
    QTest::keyClick(&view(), Qt::Key_Space);
    QVERIFY(unfolded()); // a question has none
    view().setCurrentMessage(2);
    QTest::keyClick(&view(), Qt::Key_Space);
    QVERIFY(!unfolded());
}

void TestChatParts::labelSaysHowLong()
{
    ViewMessage answer = assistant(1, {}, false);
    QVERIFY(!isThinking(answer));
    answer.reasoning = QStringLiteral("hm");
    QVERIFY(isThinking(answer));
    QCOMPARE(thoughtLabel(answer), QStringLiteral("Thinking…"));
    answer.source = QStringLiteral("\n\nSo");
    QVERIFY(!isThinking(answer));
    QCOMPARE(thoughtLabel(answer), QStringLiteral("Reasoning"));
    answer.reasoningMs = 3249;
    QCOMPARE(thoughtLabel(answer), QStringLiteral("Thought for 3.2 s"));
    answer.reasoningMs = 59960;
    QCOMPARE(thoughtLabel(answer), QStringLiteral("Thought for 1 min 0 s"));
    answer.reasoningMs = 125400;
    QCOMPARE(thoughtLabel(answer), QStringLiteral("Thought for 2 min 5 s"));
}

void TestChatParts::emptyReasoningShowsNothing()
{
    ViewMessage answer = assistant(1, QStringLiteral("The answer."));
    answer.reasoning = QStringLiteral("\n\n");
    view().addMessage(answer);
    view().grab();
    QCOMPARE(kindsOf(view().document(), 0), QVector<Kind>({Kind::Sender, Kind::Body, Kind::Footer}));
}

void TestChatParts::streamedPartsEqualWhole()
{
    const QString reasoning = QString::fromLatin1(thoughts).repeated(40);
    const QString calls = QStringLiteral("\x1E"
                                         "find\x1F{\"what\": \"pages\", \"limit\": 3}\x1E"
                                         "now\x1F");
    ViewMessage whole = assistant(1, sample());
    whole.reasoning = reasoning;
    whole.calls = toolCallsOf(calls);
    whole.reasoningMs = 2000;
    for (const bool unfold : {false, true}) {
        view().clear();
        ChatView other(m_theme);
        other.resize(view().size());
        other.show();
        other.addMessage(whole);
        other.setUnfolded(1, unfold);
        view().addMessage(assistant(1, {}, false));
        for (qsizetype i = 0; i < reasoning.size(); i += 7) {
            view().append(1, reasoning.mid(i, 7), MessagePart::Reasoning);
            if (i == 21)
                view().setUnfolded(1, unfold);
            if (i % 70 == 0)
                view().flush();
        }
        QCOMPARE(foldOf(view(), 0).label, QStringLiteral("Thinking…"));
        view().setReasoningTime(1, 2000);
        for (qsizetype i = 0; i < sample().size(); i += 9)
            view().append(1, sample().mid(i, 9));
        view().flush();
        view().append(1, calls, MessagePart::ToolCalls);
        view().finish(1, whole.footer);
        view().jumpToEnd();
        other.jumpToEnd();
        const ChatDocument &a = view().document();
        const ChatDocument &b = other.document();
        QCOMPARE(kindsOf(a, 0), kindsOf(b, 0));
        for (int i = 0; i < a.blockCount(); ++i) {
            QCOMPARE(a.block(i).range.begin, b.block(i).range.begin);
            QCOMPARE(a.block(i).range.end, b.block(i).range.end);
        }
        QCOMPARE(view().grab().toImage(), other.grab().toImage());
    }
}

void TestChatParts::reasoningAfterTheAnswer()
{
    view().addMessage(assistant(1, QStringLiteral("First "), false));
    view().append(1, QStringLiteral("some thoughts"), MessagePart::Reasoning);
    view().flush();
    view().append(1, QStringLiteral("words.\n\nMore."));
    view().flush();
    view().append(1, QStringLiteral(" and others"), MessagePart::Reasoning);
    view().flush();
    view().finish(1, {});
    view().setUnfolded(1, true);
    view().grab();
    QCOMPARE(kindsOf(view().document(), 0),
             QVector<Kind>({Kind::Sender, Kind::Body, Kind::ThoughtHead, Kind::Thought, Kind::Body, Kind::Footer}));
    QCOMPARE(view().document().block(3).pieces[0].piece.text, QStringLiteral("some thoughts and others"));
}

void TestChatParts::unfoldingKeepsTheLineInPlace()
{
    addHistory(view(), 100);
    ViewMessage answer = assistant(1, sample().repeated(2));
    answer.reasoning = QString::fromLatin1(thoughts).repeated(30);
    view().addMessage(answer);
    view().grab();
    QVERIFY(view().isFollowing());
    const int message = view().document().indexOf(1);
    view().setCurrentMessage(1);
    view().grab();
    const double before = foldOf(view(), message).rect.top();
    view().setUnfolded(1, true);
    view().grab();
    QCOMPARE(foldOf(view(), message).rect.top(), before);
    QVERIFY(!view().isFollowing());
    view().setUnfolded(1, false);
    view().grab();
    QCOMPARE(foldOf(view(), message).rect.top(), before);
}

void TestChatParts::callsAreCards()
{
    ViewMessage answer = assistant(1, {});
    answer.calls = {{QStringLiteral("weather"), QStringLiteral("{\"city\": \"Bonn\"}")},
                    {QStringLiteral("now"), {}},
                    {QStringLiteral("long"), QString(50000, u'7')}};
    view().addMessage(answer);
    view().resize(774, 2600);
    view().grab();
    QCOMPARE(kindsOf(view().document(), 0),
             QVector<Kind>({Kind::Sender, Kind::ToolCall, Kind::ToolCall, Kind::ToolCall, Kind::Footer}));
    const Block &card = view().document().block(1);
    QCOMPARE(card.pieces[0].piece.text, QStringLiteral("weather"));
    QCOMPARE(card.pieces[1].piece.text, QStringLiteral("{\"city\": \"Bonn\"}"));
    QVERIFY(view().document().block(3).pieces[1].piece.text.endsWith(QStringLiteral("… 46000")));
    QVector<BlockTarget> copies = view().messageTargets(0);
    copies.removeIf([](const BlockTarget &target) { return target.kind != BlockTarget::Kind::CopyCode; });
    QCOMPARE(copies.size(), 2); // what has no arguments has nothing to copy
    QTest::mouseClick(view().viewport(), Qt::LeftButton, {}, copies[0].rect.center().toPoint());
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("{\"city\": \"Bonn\"}"));
    QTest::mouseClick(view().viewport(), Qt::LeftButton, {}, copies[1].rect.center().toPoint());
    QCOMPARE(QApplication::clipboard()->text().size(), 50000);
}

void TestChatParts::selectionTakesWhatIsShown()
{
    ViewMessage answer = assistant(1, QStringLiteral("The *answer*."));
    answer.reasoning = QStringLiteral("first\nsecond");
    answer.calls = {{QStringLiteral("now"), QStringLiteral("{}")}};
    view().addMessage(answer);
    view().grab();
    view().selectAll();
    QCOMPARE(view().selectedText(), QStringLiteral("The *answer*.\n\nnow\n{}"));
    view().setUnfolded(1, true);
    view().grab();
    QCOMPARE(view().selectedText(), QStringLiteral("first\nsecond\n\nThe *answer*.\n\nnow\n{}"));
}

/// Layouts far from what is seen are dropped; what they held is there again when it is seen again.
void TestChatParts::farPartsComeBack()
{
    ViewMessage answer = assistant(1, QStringLiteral("The answer."));
    answer.reasoning = QStringLiteral("hm");
    answer.unfolded = true;
    answer.calls = {{QStringLiteral("now"), {}}};
    answer.notice.text = QStringLiteral("It ended here.");
    view().addMessage(answer);
    view().grab();
    const QImage before = view().grab(QRect(0, 0, 700, 240)).toImage();
    addHistory(view(), 100);
    view().jumpToEnd();
    view().grab();
    for (const int block : {2, 3, 4, 5})
        QVERIFY(view().document().block(block).pieces.empty());
    view().verticalScrollBar()->setValue(0);
    QCOMPARE(view().grab(QRect(0, 0, 700, 240)).toImage(), before);
    for (const int block : {2, 3, 4, 5})
        QVERIFY(!view().document().block(block).pieces.empty());
}

void TestChatParts::assistiveToolsHearIt()
{
    ViewMessage answer = assistant(1, {}, false);
    answer.reasoning = QStringLiteral("hm");
    view().addMessage(answer);
    view().grab();
    QAccessibleInterface *message = QAccessible::queryAccessibleInterface(&view())->child(0);
    QCOMPARE(message->text(QAccessible::Name), QStringLiteral("SmolLM2: Thinking…"));
    QAccessibleInterface *fold = message->child(0);
    QCOMPARE(fold->text(QAccessible::Name), QStringLiteral("Thinking…"));
    QVERIFY(fold->state().expandable && fold->state().collapsed && !fold->state().expanded);
    fold->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
    QVERIFY(fold->state().expanded);
    QVERIFY(view().document().message(0).view.unfolded);
}

void TestChatParts::answerOfAThinkingModel()
{
    FakeEngineScript script;
    script.reasoning = thoughts;
    script.toolCall = {"find", "{\"what\": \"pages\"}"};
    startPage(script);
    ask(QStringLiteral("What is a block?"));
    const ChatDocument &document = m_page->view()->document();
    QVERIFY(QTest::qWaitFor([this] {
        m_engine->step();
        return !last().reasoning.isEmpty();
    }));
    m_page->view()->flush();
    QCOMPARE(foldOf(*m_page->view(), 1).label, QStringLiteral("Thinking…"));
    const auto activity = [this] { return m_page->model().chat(m_page->currentChat())->activity; };
    QVERIFY2(activity().startsWith(QStringLiteral("thinking")), qPrintable(activity()));
    QVERIFY(finish());
    MessageRecord answer = last();
    QCOMPARE(answer.reasoning, QString::fromLatin1(thoughts));
    QVERIFY(answer.text.startsWith(QStringLiteral("A block is")));
    QCOMPARE(toolCallsOf(answer.toolCalls),
             (QVector<ToolCallText>{{QStringLiteral("find"), QStringLiteral("{\"what\": \"pages\"}")}}));
    QVERIFY(answer.reasoningMs > 0);
    QVERIFY(answer.ttftMs > 0);
    m_page->view()->flush();
    QVERIFY(foldOf(*m_page->view(), 1).label.startsWith(QStringLiteral("Thought for ")));
    QCOMPARE(document.message(1).view.reasoning, answer.reasoning);
    QCOMPARE(m_page->model().chat(m_page->currentChat())->record.title, QStringLiteral("What is a block?"));

    ask(QStringLiteral("And a page?"));
    const auto sent = m_engine->submitted().back().messages;
    QCOMPARE(sent.size(), 3u);
    QCOMPARE(sent[1].reasoning, std::string(thoughts));
    QCOMPARE(QString::fromStdString(sent[1].content), answer.text);
    QCOMPARE(sent[1].toolCalls.size(), 1u);
    QVERIFY(finish());
    m_page->regenerateLast();
    QVERIFY(finish());
    QCOMPARE(last().reasoning, QString::fromLatin1(thoughts));

    const auto branch = m_page->model().branch(m_page->currentChat());
    m_page->flush();
    startPage({}); // a restart shows the same
    const QModelIndex old = m_page->model().index(m_page->model().rowCount() - 1);
    m_page->openChat(old.data(ChatModel::IdRole).toLongLong());
    QTRY_COMPARE(m_page->model().branch(m_page->currentChat()), branch);
    QVERIFY(foldOf(*m_page->view(), 1).label.startsWith(QStringLiteral("Thought for ")));
}

void TestChatParts::stoppedWhileThinking()
{
    FakeEngineScript script;
    script.reasoning = std::string(2000, 'x').append(" y");
    for (int i = 0; i < 500; ++i)
        script.reasoning += " hm";
    startPage(script);
    ask(QStringLiteral("q"));
    QVERIFY(QTest::qWaitFor([this] {
        m_engine->step();
        return last().reasoning.size() > 2010;
    }));
    m_page->stop();
    QVERIFY(finish());
    QCOMPARE(last().state, MessageState::Stopped);
    QVERIFY(last().text.isEmpty());
    QVERIFY(last().reasoningMs > 0);
    m_page->view()->flush();
    QVERIFY(foldOf(*m_page->view(), 1).label.startsWith(QStringLiteral("Thought for ")));
    ask(QStringLiteral("again"));
    QCOMPARE(m_engine->submitted().back().messages.size(), 1u); // both questions, for there was no answer
}

void TestChatParts::copyTakesTheAnswer()
{
    FakeEngineScript script;
    script.reasoning = thoughts;
    startPage(script);
    QApplication::clipboard()->setText(QStringLiteral("before"));
    ask(QStringLiteral("q"));
    QVERIFY(QTest::qWaitFor([this] {
        m_engine->step();
        return !last().reasoning.isEmpty();
    }));
    const auto copy = [this] { QTest::keyClick(m_page.get(), Qt::Key_C, Qt::ControlModifier | Qt::ShiftModifier); };
    copy();
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("before"));
    QVERIFY(finish());
    copy();
    QCOMPARE(QApplication::clipboard()->text(), last().text);
    emit m_page->view()->menuRequested(last().id, m_page->mapToGlobal(QPoint(300, 300)));
    auto *menu = m_page->findChild<QMenu *>();
    QVERIFY(menu);
    const auto actions = menu->actions();
    const auto show = std::find_if(actions.begin(), actions.end(),
                                   [](const QAction *a) { return a->text() == u"Show the reasoning"; });
    QVERIFY(show != actions.end());
    (*show)->trigger();
    QVERIFY(m_page->view()->document().message(1).view.unfolded);
    menu->close();
}

void TestChatParts::pictures()
{
    FakeEngineScript script;
    script.reasoning = thoughts;
    script.toolCall = {"search_notes", "{\"query\": \"page table\", \"limit\": 3}"};
    script.answerTokens = 44;
    startPage(script);
    m_page->resize(1014, 860);
    ask(QStringLiteral("Explain paged attention like I know operating systems."));
    QVERIFY(finish());
    m_page->view()->setUnfolded(last().id, true);
    ask(QStringLiteral("And what does a block table hold?"));
    for (int i = 0; i < 9; ++i)
        m_engine->step();
    QTRY_VERIFY(!last().reasoning.isEmpty());
    QTest::qWait(100);
    savePicture(*m_page, "reasoning-dark");
    m_theme.setMode(ThemeMode::Light);
    QTest::qWait(50);
    savePicture(*m_page, "reasoning-light");
    m_theme.setMode(ThemeMode::Dark);
    QCOMPARE(foldOf(*m_page->view(), 3).label, QStringLiteral("Thinking…"));
}

QTEST_MAIN(TestChatParts)
#include "tst_chat_parts.moc"
