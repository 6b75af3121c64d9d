// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tour.h"

#include "engine/library/model_store.h"
#include "ui/engine_client.h"
#include "ui/main_window.h"
#include "ui/server_link.h"
#include "ui/settings.h"
#include "ui/theme.h"

#include <QApplication>
#include <QDialog>
#include <QDir>
#include <QElapsedTimer>
#include <QEventLoop>
#include <QFileInfo>
#include <QTemporaryDir>
#include <QTimer>

#include <cstdio>
#include <exception>

namespace ui {

namespace {

constexpr int done = 0, failed = 1, refused = 3;
constexpr int loadLimitMs = 300'000, answerLimitMs = 300'000, settleMs = 700;
constexpr QSize windowSize(1600, 1000);

/// One failure of the tour, with the exit status it ends with.
struct TourFault {
    int status;
    QString why;
};

/// Lets the window live until `condition` holds; false when `limitMs` was over first.
template<typename Condition> bool waitUntil(Condition condition, int limitMs)
{
    QElapsedTimer elapsed;
    elapsed.start();
    while (!condition()) {
        if (elapsed.elapsed() > limitMs)
            return false;
        QCoreApplication::processEvents(QEventLoop::AllEvents | QEventLoop::WaitForMoreEvents, 50);
    }
    return true;
}

void settle(int ms = settleMs)
{
    QEventLoop loop;
    QTimer::singleShot(ms, &loop, &QEventLoop::quit);
    loop.exec();
}

/// Folders of the session's own, so that a tour neither reads nor changes what belongs to the user.
class OwnFolders {
public:
    OwnFolders()
    {
        for (const char *name : names) {
            m_before.append(qgetenv(name));
            qputenv(name, QFile::encodeName(m_folder.filePath(QString::fromLatin1(name))));
        }
    }
    ~OwnFolders()
    {
        for (int i = 0; i < m_before.size(); ++i) {
            if (m_before[i].isNull())
                qunsetenv(names[i]);
            else
                qputenv(names[i], m_before[i]);
        }
    }
    OwnFolders(const OwnFolders &) = delete;
    OwnFolders &operator=(const OwnFolders &) = delete;

private:
    static constexpr const char *names[] = {"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"};
    QTemporaryDir m_folder;
    QList<QByteArray> m_before;
};

const QStringList firstQuestions{
    QStringLiteral("Explain paged attention like I know operating systems."),
    QStringLiteral("Explain paged attention like I know operating systems, with a short C++ example."),
    QStringLiteral("Write a bash loop that renames photos by their date."),
    QStringLiteral("Write a polite letter that asks for a copy of a tax form."),
};
const QStringList secondQuestions{
    QStringLiteral("What is a good first chess opening for beginners, and why?"),
    QStringLiteral("Give me three regular expressions for log lines and explain each one."),
    QStringLiteral("Tell me a story about a lathe, in four paragraphs."),
};

/// A theme that is set before the window is made, as the program's is: controls take their font at birth.
struct DarkTheme : Theme {
    DarkTheme() { setMode(ThemeMode::Dark); }
};

/// The workload is one that a processor of two cores measures in some seconds.
struct TourSettings : Settings {
    TourSettings()
    {
        setValue(QStringLiteral("workload/requests"), 8);
        setValue(QStringLiteral("workload/prompt"), 48);
        setValue(QStringLiteral("workload/output"), 16);
        setValue(QStringLiteral("workload/rounds"), 3);
    }
};

/// The script: what is asked and which views are taken.
class Tour {
public:
    Tour(std::unique_ptr<engine::Engine> engine, const QString &folder, ServerControl *server)
        : m_folder(folder)
        , m_client(std::move(engine))
        , m_window(m_theme, m_client, m_settings, server)
    {
        engine::SamplingParams sampling;
        sampling.temperature = 0; // the same words every time
        sampling.maxTokens = 400;
        m_client.setSampling(sampling);
        QObject::connect(&m_client, &EngineClient::textAppended, &m_window,
                         [this](quint64, const QString &, int tokens) { m_tokens += tokens; });
        QObject::connect(&m_client, &EngineClient::requestFinished, &m_window,
                         [this](quint64, const engine::RequestFinished &end) {
                             if (end.reason == engine::FinishReason::Failed)
                                 m_fault = QString::fromStdString(end.error);
                         });
    }

    void play(const QString &model)
    {
        m_window.resize(windowSize);
        m_window.show();
        m_window.resize(windowSize);
        picture("start");
        load(model);
        m_window.showPlace(MainWindow::ChatPlace);
        ask(firstQuestions);
        picture("chat-streaming");
        large();
        finish();
        picture("chat");
        why();
        ask(secondQuestions);
        tune();
        finish();
        compare();
        machine();
        serve();
    }

private:
    void load(const QString &model)
    {
        QString fault;
        const auto connection = QObject::connect(&m_client, &EngineClient::loadFailed, &m_window,
                                                 [&](const QString &, const QString &message) { fault = message; });
        m_window.openModel(model);
        const bool ended = waitUntil([&] { return m_client.model().has_value() || !fault.isEmpty(); }, loadLimitMs);
        QObject::disconnect(connection);
        if (!fault.isEmpty())
            throw TourFault{refused, fault};
        if (!ended)
            throw TourFault{failed, QStringLiteral("%1: not loaded after %2 s").arg(model).arg(loadLimitMs / 1000)};
    }

    // Chats at once, some beginning alike, so that pages are shared.
    void ask(const QStringList &questions)
    {
        for (const QString &question : questions)
            m_window.ask(question);
        const int before = m_tokens;
        if (!waitUntil([&] { return m_tokens >= before + 90 || m_client.activeRequests() == 0; }, answerLimitMs))
            throw TourFault{failed, QStringLiteral("no answer within %1 s").arg(answerLimitMs / 1000)};
        check();
    }

    void finish()
    {
        if (!waitUntil([&] { return m_client.activeRequests() == 0; }, answerLimitMs))
            throw TourFault{failed, QStringLiteral("answers did not end within %1 s").arg(answerLimitMs / 1000)};
        check();
    }

    void check()
    {
        if (!m_fault.isEmpty())
            throw TourFault{failed, QStringLiteral("an answer failed: %1").arg(m_fault)};
        if (m_tokens == 0)
            throw TourFault{failed, QStringLiteral("the answers hold no tokens")};
    }

    // A changed knob while chats run: its marker stands in the plots.
    void tune()
    {
        m_window.showPlace(MainWindow::TunePlace);
        settle(1500);
        engine::BatchLimits limits = m_client.config().limits;
        limits.maxNumSeqs = 32;
        m_client.setLimits(limits);
        settle(1500);
        picture("tune");
    }

    // A change measured to its end: figures before and after with their intervals.
    void compare()
    {
        m_window.showPlace(MainWindow::TunePlace);
        engine::KvPoolConfig kv = m_client.config().kv;
        kv.blockTokens = 64;
        m_client.setKvPool(kv);
        engine::BatchLimits limits = m_client.config().limits;
        limits.maxNumSeqs = 2;
        m_client.setLimits(limits);
        m_window.runWorkload();
        const auto progress = [&] { return m_window.workloadProgress().value_or(1); };
        if (!waitUntil([&] { return progress() > 0.5; }, answerLimitMs))
            throw TourFault{failed, QStringLiteral("half a measurement took more than %1 s").arg(answerLimitMs / 1000)};
        picture("tune-running");
        if (!waitUntil([&] { return !m_window.workloadProgress(); }, answerLimitMs))
            throw TourFault{failed,
                            QStringLiteral("the measurement did not end within %1 s").arg(answerLimitMs / 1000)};
        if (!m_window.workloadFault().isEmpty())
            throw TourFault{failed, m_window.workloadFault()};
        picture("tune-compared");
    }

    // What the last answer took its time for.
    void why()
    {
        m_window.explainLastAnswer();
        auto *dialog = m_window.findChild<QDialog *>(QStringLiteral("sentences"));
        if (!dialog)
            throw TourFault{failed, QStringLiteral("nothing is known of how the last answer came to be")};
        picture("why", dialog);
        dialog->close();
    }

    void serve()
    {
        ServerLink *server = m_window.serverLink();
        if (!server)
            return;
        m_window.showPlace(MainWindow::ServerPlace);
        server->start({0, true});
        const bool ended = waitUntil(
            [&] {
                const ServerState::Phase phase = server->state().phase;
                return phase == ServerState::Phase::Running || phase == ServerState::Phase::Failed;
            },
            loadLimitMs);
        if (!ended || server->state().phase == ServerState::Phase::Failed)
            throw TourFault{failed, QStringLiteral("the server did not start: %1").arg(server->sentence())};
        picture("server");
        server->stop();
    }

    void machine()
    {
        m_window.showPlace(MainWindow::ModelsPlace);
        picture("models");
        m_window.showPlace(MainWindow::DevicesPlace);
        settle(2500); // some readings of the sensors
        picture("devices");
    }

    void large()
    {
        for (const QString &card : m_window.cardKeys()) {
            m_window.enlargeCard(card);
            picture(qPrintable(QStringLiteral("large-") + card));
        }
        m_window.enlargeCard({});
    }

    // Both themes of the same moment; the second switch goes back to where the session was.
    void picture(const char *view, QWidget *shown = nullptr)
    {
        settle();
        for (const ThemeMode mode : {ThemeMode::Dark, ThemeMode::Light}) {
            m_theme.setMode(mode);
            QCoreApplication::processEvents();
            const QString path =
                QStringLiteral("%1/%2-%3.png")
                    .arg(m_folder, QLatin1String(view), QLatin1String(mode == ThemeMode::Dark ? "dark" : "light"));
            if (!(shown ? shown : &m_window)->grab().save(path))
                throw TourFault{failed, QStringLiteral("%1: cannot be written").arg(path)};
        }
        m_theme.setMode(ThemeMode::Dark);
    }

    QString m_folder;
    TourSettings m_settings;
    DarkTheme m_theme;
    EngineClient m_client;
    MainWindow m_window;
    QString m_fault;
    int m_tokens = 0;
};

QString findModel(const QString &wanted)
{
    if (QFileInfo(wanted).exists())
        return QFileInfo(wanted).absoluteFilePath();
    if (!wanted.isEmpty())
        return QString::fromStdString(engine::resolveModel(wanted.toStdString()));
    for (const engine::InstalledModel &model : engine::listModels()) {
        if (model.problem.empty())
            return QString::fromStdString(model.path);
    }
    throw TourFault{
        refused,
        QStringLiteral("no model is installed in %1; name one").arg(QString::fromStdString(engine::modelFolder()))};
}

} // namespace

int runTour(std::unique_ptr<engine::Engine> engine, const QString &folder, const QString &model, ServerControl *server)
{
    TourFault fault{done, {}};
    try {
        const QString path = findModel(model);
        if (!QDir().mkpath(folder))
            throw TourFault{failed, QStringLiteral("%1: the folder cannot be made").arg(folder)};
        const OwnFolders own;
        Tour(std::move(engine), folder, server).play(path);
    } catch (const TourFault &found) {
        fault = found;
    } catch (const std::exception &found) {
        fault = {refused, QString::fromUtf8(found.what())};
    }
    if (fault.status != done)
        std::fprintf(stderr, "error: %s\n", qPrintable(fault.why));
    return fault.status;
}

} // namespace ui
