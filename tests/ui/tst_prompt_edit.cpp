// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/prompt_edit.h"

#include <QClipboard>
#include <QInputMethodEvent>
#include <QMimeData>
#include <QSignalSpy>
#include <QVBoxLayout>
#include <QtTest>

using namespace ui;

class TestPromptEdit : public QObject {
    Q_OBJECT

private slots:
    void init();
    void cleanup() { m_window.reset(); }
    void enterSends();
    void shiftEnterIsANewLine();
    void controlEnterCanBeTheOneThatSends();
    void blankIsNotSent();
    void nothingIsSentWhileComposing();
    void focusOutEndsTheComposition();
    void heldEnterSendsOnce();
    void growsWithItsText();
    void upWantsTheLastMessage();
    void pastesTextOnly();
    void droppedFilesAreLeftToTheWindow();
    void tabLeaves();

private:
    std::unique_ptr<QWidget> m_window;
    PromptEdit *m_edit = nullptr;
};

void TestPromptEdit::init()
{
    m_window = std::make_unique<QWidget>();
    m_window->resize(400, 400);
    auto *layout = new QVBoxLayout(m_window.get());
    m_edit = new PromptEdit(m_window.get());
    layout->addWidget(m_edit);
    layout->addStretch();
    m_window->show();
    QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    m_edit->setFocus();
}

void TestPromptEdit::enterSends()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    QTest::keyClicks(m_edit, QStringLiteral("hello"));
    QTest::keyClick(m_edit, Qt::Key_Return);
    QCOMPARE(sent.count(), 1);
    QCOMPARE(sent[0][0].toString(), QStringLiteral("hello"));
    QCOMPARE(m_edit->toPlainText(), QStringLiteral("hello")); // the receiver clears it
    QTest::keyClick(m_edit, Qt::Key_Enter, Qt::KeypadModifier);
    QCOMPARE(sent.count(), 2);
}

void TestPromptEdit::shiftEnterIsANewLine()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    QTest::keyClicks(m_edit, QStringLiteral("a"));
    QTest::keyClick(m_edit, Qt::Key_Return, Qt::ShiftModifier);
    QTest::keyClicks(m_edit, QStringLiteral("b"));
    QCOMPARE(sent.count(), 0);
    QTest::keyClick(m_edit, Qt::Key_Return);
    QCOMPARE(sent[0][0].toString(), QStringLiteral("a\nb"));
}

void TestPromptEdit::controlEnterCanBeTheOneThatSends()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    m_edit->setControlEnterSends(true);
    QTest::keyClicks(m_edit, QStringLiteral("a"));
    QTest::keyClick(m_edit, Qt::Key_Return);
    QCOMPARE(sent.count(), 0);
    QTest::keyClick(m_edit, Qt::Key_Return, Qt::ControlModifier);
    QCOMPARE(sent[0][0].toString(), QStringLiteral("a\n"));
}

void TestPromptEdit::blankIsNotSent()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    QTest::keyClick(m_edit, Qt::Key_Return);
    QTest::keyClicks(m_edit, QStringLiteral("   "));
    QTest::keyClick(m_edit, Qt::Key_Return);
    QCOMPARE(sent.count(), 0);
}

void TestPromptEdit::nothingIsSentWhileComposing()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    QInputMethodEvent compose(QStringLiteral("ni hao"), {});
    QApplication::sendEvent(m_edit, &compose);
    QVERIFY(m_edit->isComposing());
    QTest::keyClick(m_edit, Qt::Key_Return);
    m_edit->submit(); // by the button
    QCOMPARE(sent.count(), 0);
    QCOMPARE(m_edit->toPlainText(), QString()); // and no line was added
    QInputMethodEvent commit;
    commit.setCommitString(QStringLiteral("你好"));
    QApplication::sendEvent(m_edit, &commit);
    QVERIFY(!m_edit->isComposing());
    QCOMPARE(m_edit->toPlainText(), QStringLiteral("你好"));
    QTest::keyClick(m_edit, Qt::Key_Return);
    QCOMPARE(sent.count(), 1);
    QCOMPARE(sent[0][0].toString(), QStringLiteral("你好"));
}

void TestPromptEdit::focusOutEndsTheComposition()
{
    QInputMethodEvent compose(QStringLiteral("x"), {});
    QApplication::sendEvent(m_edit, &compose);
    m_edit->clearFocus();
    QVERIFY(!m_edit->isComposing());
}

void TestPromptEdit::heldEnterSendsOnce()
{
    QSignalSpy sent(m_edit, &PromptEdit::submitted);
    m_edit->setPlainText(QStringLiteral("x"));
    QTest::keyPress(m_edit, Qt::Key_Return);
    for (int i = 0; i < 5; ++i) {
        QKeyEvent repeat(QEvent::KeyPress, Qt::Key_Return, Qt::NoModifier, QStringLiteral("\r"), true);
        QApplication::sendEvent(m_edit, &repeat);
    }
    QCOMPARE(sent.count(), 1);
}

void TestPromptEdit::growsWithItsText()
{
    const int one = m_edit->height();
    m_edit->setPlainText(QStringLiteral("a\nb\nc"));
    QTRY_VERIFY(m_edit->height() > 2 * one - 10);
    const int three = m_edit->height();
    m_edit->setPlainText(QStringLiteral("a\n").repeated(100));
    QTRY_VERIFY(m_edit->height() > three);
    QVERIFY(m_edit->height() < 10 * one);
    m_edit->clear();
    QTRY_COMPARE(m_edit->height(), one);
}

void TestPromptEdit::upWantsTheLastMessage()
{
    QSignalSpy wanted(m_edit, &PromptEdit::previousRequested);
    QTest::keyClick(m_edit, Qt::Key_Up);
    QCOMPARE(wanted.count(), 1);
    m_edit->setPlainText(QStringLiteral("text"));
    QTest::keyClick(m_edit, Qt::Key_Up);
    QCOMPARE(wanted.count(), 1);
}

void TestPromptEdit::pastesTextOnly()
{
    auto *data = new QMimeData;
    data->setHtml(QStringLiteral("<b>bold</b><img src='http://x/y.png'>"));
    data->setText(QStringLiteral("bold"));
    QApplication::clipboard()->setMimeData(data);
    m_edit->paste();
    QCOMPARE(m_edit->toPlainText(), QStringLiteral("bold"));
}

void TestPromptEdit::droppedFilesAreLeftToTheWindow()
{
    const auto takes = [this](const QMimeData &data) {
        QDragEnterEvent enter({4, 4}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QCoreApplication::sendEvent(m_edit->viewport(), &enter);
        return enter.isAccepted();
    };
    QMimeData data;
    data.setText(QStringLiteral("https://example.org/a"));
    data.setUrls({QUrl(QStringLiteral("https://example.org/a"))});
    QVERIFY(takes(data));
    data.setUrls({QUrl::fromLocalFile(QStringLiteral("/models/a.gguf"))});
    QVERIFY(!takes(data));
}

void TestPromptEdit::tabLeaves()
{
    auto *next = new QWidget(m_window.get());
    next->setFocusPolicy(Qt::StrongFocus);
    next->show();
    QTest::keyClick(m_edit, Qt::Key_Tab);
    QVERIFY(!m_edit->hasFocus());
    QCOMPARE(m_edit->toPlainText(), QString());
}

QTEST_MAIN(TestPromptEdit)
#include "tst_prompt_edit.moc"
