// SPDX-License-Identifier: GPL-3.0-or-later
// The window: lathe [MODEL], lathe --tour DIR [MODEL].
#include "app/window/window_server.h"
#include "engine/api/engine.h"
#include "engine/api/error.h"
#include "engine/api/worker.h"
#include "engine/library/model_store.h"
#include "ui/engine_client.h"
#include "ui/log_file.h"
#include "ui/main_window.h"
#include "ui/quit_signals.h"
#include "ui/settings.h"
#include "ui/theme.h"
#include "ui/tour.h"

#include <QApplication>
#include <QCommandLineParser>
#include <QFileInfo>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <utility>

namespace {

constexpr int wrongUsage = 2;
constexpr int noDisplay = 4; // packaging/run goes on in the terminal then

struct Arguments {
    QString model;
    QString tourFolder; ///< empty = the ordinary window
};

void fail(const QString &why)
{
    std::fprintf(stderr, "error: %s\n", qPrintable(why));
}

/// Qt aborts the program when no display answers; here that is an error like any other. Only in force while the
/// application object is made.
void duringStart(QtMsgType type, const QMessageLogContext &, const QString &message)
{
    if (type != QtFatalMsg) {
        std::fprintf(stderr, "%s\n", qPrintable(message));
        return;
    }
    fail(QStringLiteral(
             "no window can be opened: found DISPLAY \"%1\", WAYLAND_DISPLAY \"%2\" and QT_QPA_PLATFORM \"%3\", "
             "wanted a display that answers; lathe-cli needs none")
             .arg(qEnvironmentVariable("DISPLAY"), qEnvironmentVariable("WAYLAND_DISPLAY"),
                  qEnvironmentVariable("QT_QPA_PLATFORM")));
    std::_Exit(noDisplay);
}

/// Reads the command line; --help and --version end the program here, as they need no window.
std::optional<Arguments> parse(const QStringList &words)
{
    QCommandLineParser parser;
    parser.setApplicationDescription(QStringLiteral("A workbench for running language models: the window.\n"
                                                    "lathe-cli does the same work without one."));
    parser.addPositionalArgument(QStringLiteral("MODEL"),
                                 QStringLiteral("model to open: a .gguf file or a Hugging Face folder"),
                                 QStringLiteral("[MODEL]"));
    const QCommandLineOption help({QStringLiteral("h"), QStringLiteral("help")}, QStringLiteral("Say how it is used."));
    const QCommandLineOption version(QStringLiteral("version"), QStringLiteral("Say which version this is."));
    const QCommandLineOption tour(
        QStringLiteral("tour"),
        QStringLiteral("Play a scripted session and write one PNG of every view, light and dark, into DIR."),
        QStringLiteral("DIR"));
    parser.addOptions({help, version, tour});
    if (!parser.parse(words)) {
        fail(parser.errorText());
        return std::nullopt;
    }
    if (parser.isSet(help) || parser.isSet(version)) {
        std::printf("%s",
                    qPrintable(parser.isSet(help) ? parser.helpText() : QStringLiteral("lathe " LATHE_VERSION "\n")));
        std::exit(EXIT_SUCCESS);
    }
    if (parser.positionalArguments().size() > 1) {
        fail(QStringLiteral("found %1 models, wanted at most one").arg(parser.positionalArguments().size()));
        return std::nullopt;
    }
    return Arguments{parser.positionalArguments().value(0), parser.value(tour)};
}

QStringList wordsOf(int argc, char **argv)
{
    QStringList words;
    for (int i = 0; i < argc; ++i)
        words << QString::fromLocal8Bit(argv[i]);
    return words;
}

/// A path as it is, else the installed model of that name; a name nobody knows goes on to the engine, which says so.
QString pathOf(const QString &model)
{
    try {
        return QFileInfo::exists(model) ? model : QString::fromStdString(engine::resolveModel(model.toStdString()));
    } catch (const engine::Error &) {
        return model;
    }
}

int runWindow(const Arguments &arguments)
{
    ui::Settings settings;
    ui::Theme theme;
    theme.setMode(settings.themeMode());
    engine::EngineSides sides = engine::shareEngine(engine::makeEngine(engine::ownWorkerCommand()));
    app::WindowServer server(std::move(sides.guest)); // ends after the window and before the engine
    ui::EngineClient client(std::move(sides.owner));
    client.setSampling(settings.sampling());
    client.setConfig(settings.engineConfig());
    ui::MainWindow window(theme, client, settings, &server);
    const ui::QuitSignals quitSignals;
    QObject::connect(&quitSignals, &ui::QuitSignals::received, &window, &QWidget::close);
    window.show();
    if (!arguments.model.isEmpty())
        window.openModel(pathOf(arguments.model));
    const int status = QApplication::exec();
    qInfo("the window was closed");
    return status;
}

int run(int argc, char **argv, const Arguments &arguments)
{
    const QtMessageHandler usualHandler = qInstallMessageHandler(duringStart);
    QApplication application(argc, argv);
    qInstallMessageHandler(usualHandler);
    QApplication::setStyle(QStringLiteral("Fusion"));
    QApplication::setApplicationName(QStringLiteral("lathe"));
    QApplication::setApplicationDisplayName(QStringLiteral("Lathe"));
    QApplication::setApplicationVersion(QStringLiteral(LATHE_VERSION));
    QApplication::setDesktopFileName(QStringLiteral("lathe"));
    const ui::LogFile log(ui::paths::state());
    qInfo("Lathe %s, Qt %s, platform %s", LATHE_VERSION, qVersion(), qPrintable(QApplication::platformName()));
    if (arguments.tourFolder.isEmpty())
        return runWindow(arguments);
    engine::EngineSides sides = engine::shareEngine(engine::makeEngine(engine::ownWorkerCommand()));
    app::WindowServer server(std::move(sides.guest));
    return ui::runTour(std::move(sides.owner), arguments.tourFolder, arguments.model, &server);
}

} // namespace

int main(int argc, char **argv)
{
    if (const std::optional<int> code = engine::runAsWorker(argc, argv))
        return *code;
    const std::optional<Arguments> arguments = parse(wordsOf(argc, argv));
    if (!arguments)
        return wrongUsage;
    try {
        return run(argc, argv, *arguments);
    } catch (const std::exception &fault) {
        fail(QString::fromUtf8(fault.what()));
        return EXIT_FAILURE;
    }
}
