// SPDX-License-Identifier: GPL-3.0-or-later
// How long the conversation keeps the UI thread, and what it opens meanwhile.
#include "tests/support/chat_fixtures.h"
#include "tests/support/event_timer.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"
#include "ui/chat/chat_view.h"
#include "ui/theme.h"

#include <QScrollBar>
#include <QTemporaryDir>
#include <QtTest>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdarg>

using namespace ui;
using namespace chat_fixtures;

namespace {

std::atomic<int> forbiddenCalls{0};
std::atomic<bool> watching{false};

/// Fonts and the system's own files may be opened while text is drawn; nothing else.
void noteOpen(const char *path)
{
    if (!watching)
        return;
    const QByteArray name(path);
    for (const char *good :
         {"/usr/share/", "/usr/lib", "/lib", "/etc/", "/proc/", "/sys/", "/dev/", "/var/cache/fontconfig"})
        if (name.startsWith(good))
            return;
    if (name.contains("fontconfig"))
        return;
    ++forbiddenCalls;
    fprintf(stderr, "opened: %s\n", path);
}

template<typename F> F next(const char *name)
{
    return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

} // namespace

// The program's own definitions come before the C library's for every library that Qt pulls in.
extern "C" int open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = va_arg(list, int);
    va_end(list);
    noteOpen(path);
    return next<int (*)(const char *, int, int)>("open")(path, flags, mode);
}

extern "C" int open64(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = va_arg(list, int);
    va_end(list);
    noteOpen(path);
    return next<int (*)(const char *, int, int)>("open64")(path, flags, mode);
}

extern "C" int connect(int socket, const sockaddr *address, socklen_t size)
{
    if (watching)
        ++forbiddenCalls;
    return next<int (*)(int, const sockaddr *, socklen_t)>("connect")(socket, address, size);
}

class TestChatViewLoad : public QObject {
    Q_OBJECT

private slots:
    void init();
    void cleanup() { m_view.reset(); }
    void historyOf200kTokens();
    void hookSeesFilesAndConnections();
    void hostileText_data();
    void hostileText();
    void hostileParts_data() { hostileText_data(); }
    void hostileParts();
    void eightChatsStream();

private:
    void stream(const QString &source, MessagePart part);
    void streamText(const QString &source, Blocks &own);
    void streamParts(const QString &source, Blocks &own);
    void streamEightChats(Blocks &own);

    std::unique_ptr<Theme> m_theme;
    std::unique_ptr<ChatView> m_view;
};

void TestChatViewLoad::init()
{
    m_view.reset(); // it uses the theme
    m_theme = std::make_unique<Theme>();
    m_theme->setMode(ThemeMode::Dark);
    m_view = std::make_unique<ChatView>(*m_theme);
    m_view->resize(774, 760);
    m_view->show();
    QVERIFY(QTest::qWaitForWindowExposed(m_view.get()));
}

void TestChatViewLoad::historyOf200kTokens()
{
    QElapsedTimer timer;
    timer.start();
    addHistory(*m_view);
    const double added = timer.nsecsElapsed() / 1e6;
    timer.start();
    m_view->grab();
    const double painted = timer.nsecsElapsed() / 1e6;
    QVector<double> steps;
    QScrollBar *bar = m_view->verticalScrollBar();
    for (int i = 0; i < 400; ++i) {
        timer.start();
        bar->setValue(i % 10 == 9 ? (i * 7919) % bar->maximum() : bar->value() - 66);
        QCoreApplication::processEvents();
        steps << timer.nsecsElapsed() / 1e6;
    }
    std::sort(steps.begin(), steps.end());
    int laid = 0;
    for (int i = 0; i < m_view->document().blockCount(); ++i)
        laid += m_view->document().block(i).pieces.empty() ? 0 : 1;
    qInfo("%d blocks; added %.1f ms, first paint %.1f ms; scroll step median %.2f, P99 %.2f, worst %.2f ms; %d blocks "
          "laid out",
          m_view->document().blockCount(), added, painted, steps[200], steps[396], steps[399], laid);
    QVERIFY(laid < 1500);
    QVERIFY2(steps[396] < 50, "a scroll step took 50 ms or more");
}

/// The control of the hook below: it must notice what Qt opens.
void TestChatViewLoad::hookSeesFilesAndConnections()
{
    QTemporaryDir dir;
    watching = true;
    forbiddenCalls = 0;
    QFile file(dir.filePath(QStringLiteral("note")));
    QVERIFY(file.open(QIODevice::WriteOnly));
    QVERIFY(forbiddenCalls.exchange(0) > 0);
    sockaddr nowhere{};
    ::connect(-1, &nowhere, sizeof nowhere);
    watching = false;
    QCOMPARE(forbiddenCalls.load(), 1);
}

void TestChatViewLoad::hostileText_data()
{
    QTest::addColumn<QString>("source");
    QTest::newRow("1 MB without a line end") << QStringLiteral("lorem ipsum dolor ").repeated(58000);
    QTest::newRow("1 MB without a space") << QString(1000000, u'x');
    QTest::newRow("1 MB line of code") << QStringLiteral("```\n") + QStringLiteral("int a;").repeated(170000);
    QTest::newRow("20,000 combining marks")
        << QString(u'e') + QString(20000, QChar(0x301)) + QStringLiteral(" `x\u202Ey`");
    QTest::newRow("control bytes") << QStringLiteral("a\x1b[31m b\a\b\x01\x02 c").repeated(2000);
    QTest::newRow("right to left") << QStringLiteral("\u05d0\u05d1\u05d2 abc \u202E def \u202C ").repeated(4000);
    const hostile::Cases cases;
    for (const hostile::Case &input : cases.group(QStringLiteral("markdown")))
        QTest::newRow(qPrintable(input.name)) << QString::fromUtf8(shared_data::read(input.path));
}

void TestChatViewLoad::stream(const QString &source, MessagePart part)
{
    const qsizetype step = std::max<qsizetype>(4, source.size() / 60);
    for (qsizetype i = 0; i < source.size(); i += step) {
        m_view->append(1, source.mid(i, step), part);
        runLoop(ChatView::frameMs / 2);
    }
}

/// The same as reasoning that is shown while it grows, then as a call's arguments; at last the block is folded.
void TestChatViewLoad::hostileParts()
{
    QFETCH(QString, source);
    const Blocks own = fluidRun([&](Blocks &run) { streamParts(source, run); }, Blocks::longestLimitMs);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(own.longest <= Blocks::longestLimitMs, own.text().constData());
}

void TestChatViewLoad::streamParts(const QString &source, Blocks &own)
{
    init();
    auto *app = static_cast<TimedApplication *>(qApp);
    m_view->addMessage(assistant(1, {}, false));
    m_view->append(1, QStringLiteral("So: "), MessagePart::Reasoning);
    m_view->setUnfolded(1, true);
    m_view->grab(); // fonts are loaded
    app->startRecording();
    stream(source, MessagePart::Reasoning);
    m_view->append(1,
                   QStringLiteral("\x1E"
                                  "call\x1F"),
                   MessagePart::ToolCalls);
    stream(source, MessagePart::ToolCalls);
    m_view->finish(1, {});
    m_view->setUnfolded(1, false);
    m_view->setUnfolded(1, true);
    QCoreApplication::processEvents();
    app->stopRecording();
    own = app->report(QTest::currentDataTag());
    QVERIFY(m_view->document().message(0).view.reasoning.size() > source.size());
}

/// Streams the text and looks at the longest time the UI thread was kept, and at what was opened meanwhile.
void TestChatViewLoad::hostileText()
{
    QFETCH(QString, source);
    const Blocks own = fluidRun([&](Blocks &run) { streamText(source, run); }, Blocks::longestLimitMs);
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(own.longest <= Blocks::longestLimitMs, own.text().constData());
}

void TestChatViewLoad::streamText(const QString &source, Blocks &own)
{
    init();
    auto *app = static_cast<TimedApplication *>(qApp);
    m_view->addMessage(assistant(1, {}, false));
    m_view->grab(); // fonts are loaded
    watching = true;
    forbiddenCalls = 0;
    app->startRecording();
    stream(source, MessagePart::Text);
    m_view->finish(1, {});
    m_view->selectAll();
    QCoreApplication::processEvents();
    app->stopRecording();
    watching = false;
    own = app->report(QTest::currentDataTag());
    QCOMPARE(forbiddenCalls.load(), 0);
    m_view->clear();
    m_view->addMessage(assistant(2, sample())); // a control works afterwards
    m_view->grab();
    QVERIFY(m_view->document().blockCount() > 8);
}

/// Eight chats stream at 50 tokens/s each into views in one window, one into 1 MB of text and one under 200k tokens.
void TestChatViewLoad::eightChatsStream()
{
    const Blocks own = fluidRun([&](Blocks &run) { streamEightChats(run); });
    if (QTest::currentTestFailed())
        return;
    QVERIFY2(own.fluid(), own.text().constData());
}

void TestChatViewLoad::streamEightChats(Blocks &own)
{
    auto *app = static_cast<TimedApplication *>(qApp);
    QWidget window;
    window.resize(1600, 1000);
    QVector<ChatView *> views;
    for (int i = 0; i < 8; ++i) {
        auto *view = new ChatView(*m_theme, &window);
        view->setGeometry(i % 4 * 400, i / 4 * 500, 400, 500);
        views << view;
    }
    window.show();
    QVERIFY(QTest::qWaitForWindowExposed(&window));
    addHistory(*views[0]);
    views[1]->addMessage(user(1, QStringLiteral("a long one")));
    views[1]->addMessage(assistant(9000, sample().repeated(1000), false));
    for (int i = 0; i < 8; ++i)
        if (i != 1)
            views[i]->addMessage(assistant(9000, {}, false));
    QTest::qWait(300);
    const int seconds = shared_data::fullTier() ? 30 : 6;
    QVector<int> at(8, 0);
    QTimer tokens;
    int next = 0;
    connect(&tokens, &QTimer::timeout, &tokens, [&] { // 400 tokens a second over eight chats
        for (int n = 0; n < 2; ++n, next = (next + 1) % 8) {
            const QString piece = sample().mid(at[next] % sample().size(), 4);
            at[next] += 4;
            views[next]->append(9000, piece);
        }
    });
    app->startRecording();
    tokens.setTimerType(Qt::PreciseTimer);
    tokens.start(5);
    runLoop(seconds * 1000);
    tokens.stop();
    app->stopRecording();
    own = app->report("8 chats, all visible");
    QVERIFY(at[0] > seconds * 100);
}

int main(int argc, char **argv)
{
    TimedApplication app(argc, argv);
    TestChatViewLoad test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_chat_view_load.moc"
