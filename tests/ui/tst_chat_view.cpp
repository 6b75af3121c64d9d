// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/chat_fixtures.h"
#include "ui/chat/chat_view.h"
#include "ui/theme.h"

#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QPushButton>
#include <QScreen>
#include <QScrollBar>
#include <QSignalSpy>
#include <QWheelEvent>
#include <QtTest>

using namespace ui;
using namespace chat_fixtures;

namespace {

/// Where text of the first piece that contains `text` lies, in the viewport.
QPoint pointAt(ChatView &view, const QString &text, int offset = 0)
{
    const ChatDocument &document = view.document();
    for (int i = 0; i < document.blockCount(); ++i) {
        const Block &block = document.block(i);
        const int message = block.message;
        const double top = document.heights().before(i)
            - document.heights().before(document.message(message).firstBlock) + view.messageRect(message).top();
        for (const LaidPiece &laid : block.pieces) {
            if (!laid.layout || !laid.layout->text().contains(text))
                continue;
            const int at = static_cast<int>(laid.layout->text().indexOf(text)) + offset;
            const QTextLine line = laid.layout->lineForTextPosition(at);
            const double column = std::min(view.viewport()->width() - 48.0, 860.0);
            const double left = std::max(24.0, std::floor((view.viewport()->width() - column) / 2));
            const double x = left + BlockPainter::textLeft(block, column) + laid.x + line.cursorToX(at) + 2;
            return {static_cast<int>(x), static_cast<int>(top + laid.y + line.y() + line.height() / 2)};
        }
    }
    return {-1, -1};
}

void savePicture(QWidget &widget, const char *name)
{
    if (const QString dir = qEnvironmentVariable("LATHE_PICTURES"); !dir.isEmpty())
        widget.grab().save(dir + u'/' + QString::fromLatin1(name) + QStringLiteral(".png"));
}

} // namespace

class TestChatView : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void init();
    void cleanup() { m_view.reset(); }
    void streamedEqualsWhole();
    void unchangedPiecesKeepTheirLayout();
    void heightsAreWholePixels();
    void followsOnlyAtTheEnd();
    void scrollingUpKeepsWhatIsBelow();
    void movedPixelsEqualPaintedOnes();
    void widthChangeKeepsTheReader();
    void lateDefinitionsAreApplied();
    void selectsByMouse();
    void doubleClickSelectsAWord();
    void draggingPastTheEdgeScrolls();
    void copiesSourceOfWholeBlocks();
    void copyButtonGivesTheCode();
    void linksAskFirst();
    void longCodeScrollsSideways();
    void userTextIsNotMarkdown();
    void leftwardTextStandsAtTheRight();
    void noticesAndActions();
    void keyboard();
    void removeFromTheMiddle();
    void accessibleListOfMessages();
    void themeSwitchWhileStreaming();
    void pictures();

private:
    std::unique_ptr<Theme> m_theme;
    std::unique_ptr<ChatView> m_view;
};

void TestChatView::initTestCase()
{
    m_theme = std::make_unique<Theme>();
    m_theme->setMode(ThemeMode::Dark);
}

void TestChatView::init()
{
    m_view = std::make_unique<ChatView>(*m_theme);
    m_view->resize(774, 760);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
}

void TestChatView::streamedEqualsWhole()
{
    ChatView whole(*m_theme);
    whole.resize(774, 760);
    whole.show();
    whole.addMessage(assistant(1, sample()));
    m_view->addMessage(assistant(1, {}, false));
    for (qsizetype i = 0; i < sample().size(); i += 3) {
        m_view->append(1, sample().mid(i, 3));
        if (i % 30 == 0)
            m_view->flush();
    }
    m_view->finish(1, assistant(1, {}).footer);
    const ChatDocument &a = m_view->document();
    const ChatDocument &b = whole.document();
    QCOMPARE(a.blockCount(), b.blockCount());
    for (int i = 0; i < a.blockCount(); ++i) {
        QCOMPARE(a.block(i).kind, b.block(i).kind);
        QCOMPARE(a.block(i).range.begin, b.block(i).range.begin);
        QCOMPARE(a.block(i).range.end, b.block(i).range.end);
        QCOMPARE(a.heights().at(i), b.heights().at(i));
    }
    QCOMPARE(m_view->grab().toImage(), whole.grab().toImage());
}

void TestChatView::unchangedPiecesKeepTheirLayout()
{
    m_view->addMessage(assistant(1, QStringLiteral("- one\n- two\n- thr"), false));
    m_view->flush();
    const Block &block = m_view->document().block(1);
    QCOMPARE(block.pieces.size(), 3u);
    const QTextLayout *first = block.pieces[0].layout.get();
    const QTextLayout *last = block.pieces[2].layout.get();
    QVERIFY(first && last);
    m_view->append(1, QStringLiteral("ee\n- four"));
    m_view->flush();
    QCOMPARE(block.pieces.size(), 4u);
    QCOMPARE(block.pieces[0].layout.get(), first);
    QVERIFY(block.pieces[2].layout.get() != last);
}

void TestChatView::heightsAreWholePixels()
{
    m_view->addMessage(user(1, QStringLiteral("Hello")));
    m_view->addMessage(assistant(2, sample()));
    m_view->grab();
    for (int i = 0; i < m_view->document().blockCount(); ++i)
        QCOMPARE(m_view->document().heights().at(i), std::floor(m_view->document().heights().at(i)));
}

void TestChatView::followsOnlyAtTheEnd()
{
    addHistory(*m_view);
    QScrollBar *bar = m_view->verticalScrollBar();
    QCOMPARE(bar->value(), bar->maximum());
    m_view->addMessage(assistant(9000, {}, false));
    const auto stream = [&] {
        for (int i = 0; i < 60; ++i)
            m_view->append(9000, QStringLiteral("some words of an answer that goes on. "));
        m_view->flush();
        QTest::qWait(50);
    };
    stream();
    QCOMPARE(bar->value(), bar->maximum());
    auto *jump = m_view->findChild<QPushButton *>();
    QVERIFY(jump && !jump->isVisible());
    bar->setValue(bar->value() - 300); // the reader goes up
    const int reading = bar->value();
    QVERIFY(!m_view->isFollowing());
    QVERIFY(jump->isVisible());
    stream();
    QCOMPARE(bar->value(), reading);
    QTest::mouseClick(jump, Qt::LeftButton);
    QCOMPARE(bar->value(), bar->maximum());
    QVERIFY(m_view->isFollowing() && !jump->isVisible());
    stream();
    QCOMPARE(bar->value(), bar->maximum());
    bar->setValue(bar->value() - 300);
    bar->setValue(bar->maximum()); // coming back by hand follows again
    stream();
    QCOMPARE(bar->value(), bar->maximum());
}

void TestChatView::scrollingUpKeepsWhatIsBelow()
{
    addHistory(*m_view);
    QScrollBar *bar = m_view->verticalScrollBar();
    m_view->grab();
    const HeightIndex &heights = m_view->document().heights();
    for (int step = 0; step < 60; ++step) {
        const int seen = heights.find(bar->value() + 500); // a block on screen, so laid out
        const double before = heights.before(seen) - bar->value();
        bar->setValue(bar->value() - 97);
        QCOMPARE(heights.before(seen) - bar->value() - before, 97.0);
        QTest::qWait(1);
    }
}

void TestChatView::movedPixelsEqualPaintedOnes()
{
    addHistory(*m_view);
    m_view->addMessage(assistant(9000, {}, false));
    QScrollBar *bar = m_view->verticalScrollBar();
    const auto equal = [&](const char *what) {
        QTest::qWait(60);
        const QImage shown =
            m_view->screen()->grabWindow(m_view->winId()).toImage().convertToFormat(QImage::Format_RGB32);
        const QImage painted = m_view->grab().toImage().convertToFormat(QImage::Format_RGB32);
        if (shown.isNull() || shown.size() != painted.size())
            return false;
        if (shown != painted)
            qWarning("%s: the screen differs from a fresh painting", what);
        return shown == painted;
    };
    if (m_view->screen()->grabWindow(m_view->winId()).size() != m_view->grab().size())
        QSKIP("this platform cannot read the screen back, or not at this scale");
    for (int i = 0; i < 12; ++i) {
        m_view->append(9000, i % 4 == 3 ? QStringLiteral("\n\n```c\nint a;\n```\n\n") : sample().mid(i * 20, 90));
        m_view->flush();
        QVERIFY(equal("following"));
    }
    for (const int by : {-40, -300, -7, 55, 600, -2000, 120}) {
        bar->setValue(bar->value() + by);
        QVERIFY(equal("scrolled"));
    }
    m_view->append(9000, QStringLiteral("more while reading above"));
    m_view->flush();
    QVERIFY(equal("not following"));
}

void TestChatView::widthChangeKeepsTheReader()
{
    addHistory(*m_view);
    QScrollBar *bar = m_view->verticalScrollBar();
    bar->setValue(bar->maximum() / 2);
    m_view->grab();
    int seen = 0;
    while (m_view->messageRect(seen).bottom() < 0)
        ++seen;
    m_view->resize(500, 760);
    m_view->grab();
    QVERIFY(m_view->messageRect(seen).bottom() > 0 && m_view->messageRect(seen).top() < 760);
    QVERIFY(!m_view->isFollowing());
}

void TestChatView::lateDefinitionsAreApplied()
{
    m_view->addMessage(assistant(1, QStringLiteral("See [this][a].\n\nMore text.\n\n"), false));
    m_view->grab();
    QVERIFY(m_view->document().block(1).pieces[0].piece.spans.isEmpty());
    m_view->append(1, QStringLiteral("[a]: https://example.org\n\nx"));
    m_view->flush();
    m_view->grab();
    QCOMPARE(m_view->document().block(1).pieces[0].piece.text, QStringLiteral("See this."));
    QCOMPARE(m_view->document().block(1).pieces[0].piece.spans.size(), 1);
}

void TestChatView::selectsByMouse()
{
    m_view->addMessage(assistant(1, QStringLiteral("alpha beta gamma\n\nsecond paragraph\n\nthird one")));
    m_view->grab();
    QTest::mousePress(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("beta")) - QPoint(1, 0));
    QTest::mouseMove(m_view->viewport(), pointAt(*m_view, QStringLiteral("gamma")));
    QTest::mouseMove(m_view->viewport(), pointAt(*m_view, QStringLiteral("third"), 5) - QPoint(2, 0));
    QTest::mouseRelease(m_view->viewport(), Qt::LeftButton, {},
                        pointAt(*m_view, QStringLiteral("third"), 5) - QPoint(2, 0));
    QCOMPARE(m_view->selectedText(), QStringLiteral("beta gamma\n\nsecond paragraph\n\nthird"));
    m_view->setFocus();
    QTest::keySequence(m_view.get(), QKeySequence::Copy);
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("beta gamma\n\nsecond paragraph\n\nthird"));
    if (QApplication::clipboard()->supportsSelection())
        QCOMPARE(QApplication::clipboard()->text(QClipboard::Selection), m_view->selectedText());
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("alpha")));
    QVERIFY(m_view->selectedText().isEmpty());
}

void TestChatView::doubleClickSelectsAWord()
{
    m_view->addMessage(assistant(1, QStringLiteral("alpha beta gamma")));
    m_view->grab();
    const QPoint at = pointAt(*m_view, QStringLiteral("beta"), 2);
    QTest::mouseDClick(m_view->viewport(), Qt::LeftButton, {}, at);
    QCOMPARE(m_view->selectedText(), QStringLiteral("beta"));
    QTest::mousePress(m_view->viewport(), Qt::LeftButton, {}, at);
    QTest::mouseRelease(m_view->viewport(), Qt::LeftButton, {}, at);
    QCOMPARE(m_view->selectedText(), QStringLiteral("alpha beta gamma"));
}

void TestChatView::draggingPastTheEdgeScrolls()
{
    addHistory(*m_view);
    QScrollBar *bar = m_view->verticalScrollBar();
    bar->setValue(1000);
    m_view->grab();
    QTest::mousePress(m_view->viewport(), Qt::LeftButton, {}, {100, 700});
    QTest::mouseMove(m_view->viewport(), {110, 740});
    QTest::mouseMove(m_view->viewport(), {110, 820});
    QTRY_VERIFY(bar->value() > 1200);
    QTest::mouseRelease(m_view->viewport(), Qt::LeftButton, {}, {110, 820});
    const int at = bar->value();
    QTest::qWait(100);
    QCOMPARE(bar->value(), at);
    QVERIFY2(m_view->selectedText().count(u'\n') > 5, qPrintable(m_view->selectedText()));
}

void TestChatView::copiesSourceOfWholeBlocks()
{
    m_view->addMessage(user(1, QStringLiteral("a *question*")));
    m_view->addMessage(assistant(2, sample()));
    m_view->selectAll();
    QCOMPARE(m_view->selectedText(), QStringLiteral("a *question*\n\n") + sample().trimmed());
}

void TestChatView::copyButtonGivesTheCode()
{
    m_view->addMessage(assistant(
        1, QStringLiteral("x\n\n```cpp\n  int a;\n\n\tint b; // \u202Ex\n```\n\n- item\n  ```py\n  y = 1\n  ```\n")));
    m_view->grab();
    QSignalSpy copied(m_view.get(), &ChatView::codeCopied);
    QVector<QPoint> buttons;
    for (const BlockTarget &target : m_view->messageTargets(0))
        if (target.kind == BlockTarget::Kind::CopyCode)
            buttons << target.rect.center().toPoint();
    QCOMPARE(buttons.size(), 2);
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, buttons[0]);
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("  int a;\n\n\tint b; // \u202Ex\n"));
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, buttons[1]);
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("y = 1"));
    QCOMPARE(copied.count(), 2);
}

void TestChatView::linksAskFirst()
{
    m_view->addMessage(
        assistant(1, QStringLiteral("a [good](https://a.b/c) and [bad](javascript:x) and [file](file:///etc/passwd)")));
    m_view->grab();
    QSignalSpy activated(m_view.get(), &ChatView::linkActivated);
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("good"), 1));
    QCOMPARE(activated.count(), 1);
    QCOMPARE(activated[0][0].toString(), QStringLiteral("https://a.b/c"));
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("bad"), 1));
    QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("file"), 1));
    QCOMPARE(activated.count(), 1);
    // A drag that begins on a link selects and opens nothing.
    QTest::mousePress(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("good"), 1));
    QTest::mouseMove(m_view->viewport(), pointAt(*m_view, QStringLiteral("bad"), 1));
    QTest::mouseRelease(m_view->viewport(), Qt::LeftButton, {}, pointAt(*m_view, QStringLiteral("bad"), 1));
    QCOMPARE(activated.count(), 1);
}

void TestChatView::longCodeScrollsSideways()
{
    m_view->addMessage(
        assistant(1, QStringLiteral("```\n") + QStringLiteral("0123456789").repeated(30) + QStringLiteral("\n```\n")));
    m_view->grab();
    const auto handle = [&] {
        const Block &block = m_view->document().block(1);
        return block.scrollX;
    };
    QVERIFY(m_view->document().block(1).contentWidth > 1000);
    QWheelEvent wheel({200, 90}, m_view->viewport()->mapToGlobal(QPointF(200, 90)), {}, {-240, 0}, Qt::NoButton,
                      Qt::NoModifier, Qt::NoScrollPhase, false);
    QApplication::sendEvent(m_view->viewport(), &wheel);
    QCOMPARE(handle(), 120.0);
    QWheelEvent far({200, 90}, m_view->viewport()->mapToGlobal(QPointF(200, 90)), {}, {-99999, 0}, Qt::NoButton,
                    Qt::NoModifier, Qt::NoScrollPhase, false);
    QApplication::sendEvent(m_view->viewport(), &far);
    QVERIFY(handle() > 1000 && handle() < m_view->document().block(1).contentWidth);
    savePicture(*m_view, "code-scrolled");
}

void TestChatView::leftwardTextStandsAtTheRight()
{
    const QString hebrew = QStringLiteral("\u05E9\u05DC\u05D5\u05DD");
    m_view->addMessage(user(1, hebrew));
    m_view->addMessage(assistant(2, QStringLiteral("latin\n\n") + hebrew + QStringLiteral("\n\n- ") + hebrew));
    m_view->grab();
    const auto span = [](const LaidPiece &laid) {
        const QTextLine line = laid.layout->lineAt(0);
        const double begin = laid.x + line.naturalTextRect().left();
        return std::pair(begin, begin + line.naturalTextWidth());
    };
    const double column = std::min(m_view->viewport()->width() - 48.0, 860.0);
    for (int i = 0; i < m_view->document().blockCount(); ++i) {
        const Block &block = m_view->document().block(i);
        for (const LaidPiece &laid : block.pieces) {
            const auto [left, right] = span(laid);
            if (block.kind == Block::Kind::Plain) { // inside its bubble
                QVERIFY(left >= 0 && right <= block.width + 1);
            } else if (block.kind == Block::Kind::Body) {
                const double expected = laid.piece.marker.isEmpty() ? column : column - metrics::indent;
                if (laid.piece.text == hebrew)
                    QVERIFY2(std::abs(right - expected) < 2, qPrintable(QString::number(right)));
                else
                    QCOMPARE(left, 0.0);
            }
        }
    }
}

void TestChatView::userTextIsNotMarkdown()
{
    QString pasted;
    for (int i = 0; i < 3000; ++i)
        pasted += QStringLiteral("line %1 with *stars* and <b>tags</b>\n").arg(i);
    m_view->addMessage(user(1, QStringLiteral("# no *heading*\n- no list")));
    m_view->addMessage(user(2, pasted));
    m_view->grab();
    QCOMPARE(shownTexts(m_view->document().block(0), m_view->document().message(0)),
             QStringList{QStringLiteral("# no *heading*\u2028- no list")});
    QVERIFY(m_view->document().blockCount() > 10);
    m_view->selectAll();
    QCOMPARE(m_view->selectedText(), QStringLiteral("# no *heading*\n- no list\n\n") + pasted.trimmed());
    savePicture(*m_view, "pasted");
}

void TestChatView::noticesAndActions()
{
    QSignalSpy triggered(m_view.get(), &ChatView::actionTriggered);
    m_view->addMessage(user(1, QStringLiteral("q")));
    m_view->addMessage(assistant(2, QStringLiteral("partial ans"), false));
    m_view->grab();
    const auto click = [&](int message, const QString &id) {
        for (const BlockTarget &target : m_view->messageTargets(message))
            if (target.id == id)
                QTest::mouseClick(m_view->viewport(), Qt::LeftButton, {}, target.rect.center().toPoint());
    };
    click(1, QStringLiteral("stop"));
    QCOMPARE(triggered.count(), 1);
    QCOMPARE(triggered[0][1].toString(), QStringLiteral("stop"));
    MessageNotice notice;
    notice.severity = MessageNotice::Severity::Warning;
    notice.text = QStringLiteral("The context is full: 8,192 of 8,192 tokens <b>are</b> used.");
    notice.actions = {{QStringLiteral("new"), QStringLiteral("New chat with the last messages"), {}}};
    m_view->finish(2, assistant(2, {}).footer, notice);
    m_view->grab();
    click(1, QStringLiteral("new"));
    click(1, QStringLiteral("regenerate"));
    click(0, QStringLiteral("edit"));
    QCOMPARE(triggered.count(), 4);
    QCOMPARE(triggered[1][1].toString(), QStringLiteral("new"));
    QCOMPARE(triggered[3][0].toLongLong(), 1);
    savePicture(*m_view, "notice");
}

void TestChatView::keyboard()
{
    addHistory(*m_view);
    m_view->setFocus();
    QScrollBar *bar = m_view->verticalScrollBar();
    QTest::keyClick(m_view.get(), Qt::Key_Home);
    QCOMPARE(bar->value(), 0);
    QTest::keyClick(m_view.get(), Qt::Key_PageDown);
    QVERIFY(bar->value() > 500);
    QTest::keyClick(m_view.get(), Qt::Key_End);
    QCOMPARE(bar->value(), bar->maximum());
    QSignalSpy menu(m_view.get(), &ChatView::menuRequested);
    QTest::keyClick(m_view.get(), Qt::Key_Up, Qt::ControlModifier);
    QCOMPARE(m_view->currentMessage(), 400);
    QTest::keyClick(m_view.get(), Qt::Key_Up, Qt::ControlModifier);
    QCOMPARE(m_view->currentMessage(), 399);
    QTest::keyClick(m_view.get(), Qt::Key_Return);
    QCOMPARE(menu.count(), 1);
    QCOMPARE(menu[0][0].toLongLong(), 399);
    savePicture(*m_view, "current");
}

void TestChatView::removeFromTheMiddle()
{
    addHistory(*m_view);
    m_view->grab();
    m_view->removeFrom(101);
    QCOMPARE(m_view->document().messageCount(), 100);
    m_view->addMessage(assistant(5000, sample()));
    m_view->grab();
    QCOMPARE(m_view->document().indexOf(5000), 100);
    QCOMPARE(m_view->verticalScrollBar()->value(), m_view->verticalScrollBar()->maximum());
    m_view->clear();
    m_view->grab();
    QCOMPARE(m_view->document().blockCount(), 0);
    QCOMPARE(m_view->document().heights().total(), 0.0);
}

void TestChatView::accessibleListOfMessages()
{
    m_view->addMessage(user(1, QStringLiteral("hello")));
    m_view->addMessage(assistant(2, QStringLiteral("world\n\n```\ncode\n```\n")));
    m_view->grab();
    QAccessibleInterface *list = QAccessible::queryAccessibleInterface(m_view.get());
    QVERIFY(list);
    QCOMPARE(list->role(), QAccessible::List);
    QCOMPARE(list->childCount(), 2);
    QAccessibleInterface *answer = list->child(1);
    QCOMPARE(answer->role(), QAccessible::ListItem);
    QVERIFY(answer->text(QAccessible::Name).startsWith(QStringLiteral("SmolLM2: world")));
    QVERIFY(answer->rect().height() > 80);
    QCOMPARE(list->indexOfChild(answer), 1);
    QCOMPARE(answer->parent(), list);
    QCOMPARE(answer->childCount(), 3); // copy code, copy, regenerate
    QAccessibleInterface *button = answer->child(0);
    QCOMPARE(button->role(), QAccessible::Button);
    QCOMPARE(button->text(QAccessible::Name), QStringLiteral("Copy"));
    button->actionInterface()->doAction(QAccessibleActionInterface::pressAction());
    QCOMPARE(QApplication::clipboard()->text(), QStringLiteral("code\n"));
    m_view->clear();
    QVERIFY(!answer->isValid());
    QVERIFY(!button->isValid());
    QCOMPARE(list->childCount(), 0);
}

void TestChatView::themeSwitchWhileStreaming()
{
    m_view->addMessage(assistant(1, {}, false));
    for (int i = 0; i < 40; ++i) {
        m_view->append(1, sample().mid(i * 20, 20));
        m_view->flush();
        m_theme->setMode(i % 2 ? ThemeMode::Dark : ThemeMode::Light);
        m_view->grab();
    }
    m_theme->setMode(ThemeMode::Dark);
    ChatView fresh(*m_theme);
    fresh.resize(m_view->size());
    fresh.show();
    fresh.addMessage(assistant(1, sample().left(800), false));
    QCOMPARE(m_view->grab().toImage(), fresh.grab().toImage());
}

void TestChatView::pictures()
{
    m_view->resize(774, 1400);
    m_view->addMessage(user(1, QStringLiteral("Explain paged attention like I know operating systems.")));
    m_view->addMessage(assistant(
        2,
        sample()
            + QStringLiteral(
                "\n- [ ] task\n- [x] done\n\n1. item\n   ```py\n   def f(x):  # c\n       return x\n   ```\n\n    "
                "indented code\n\n---\n\n# Heading\n## Second\n### Third\n\nText &amp; more ~~gone~~ ***both***.\n")));
    m_view->addMessage(
        assistant(3, QStringLiteral("Two chats that begin alike share the same blocks until they differ,"), false));
    savePicture(*m_view, "view-dark");
    m_theme->setMode(ThemeMode::Light);
    savePicture(*m_view, "view-light");
    m_theme->setMode(ThemeMode::Dark);
    QVERIFY(m_view->document().blockCount() > 15);
}

QTEST_MAIN(TestChatView)
#include "tst_chat_view.moc"
