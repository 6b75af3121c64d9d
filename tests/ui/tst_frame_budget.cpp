// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/event_timer.h"
#include "tests/support/fake_engine.h"
#include "tests/support/shared_data.h"
#include "ui/engine_client.h"
#include "ui/inspect/inspector.h"
#include "ui/inspect/live_card.h"
#include "ui/main_window.h"
#include "ui/settings.h"
#include "ui/tune/parameter_panel.h"
#include "ui/tune/tune_page.h"
#include "ui/tune/tuner.h"
#include "ui/tune/workload_panel.h"
#include "ui/widgets/knob_slider.h"

#include <QElapsedTimer>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

class TestFrameBudget : public QObject {
    Q_OBJECT
private slots:
    void eightChatsAndAllDashboards_data()
    {
        QTest::addColumn<int>("place");
        QTest::addColumn<bool>("workload");
        QTest::newRow("chat with inspector") << int(ui::MainWindow::ChatPlace) << false;
        QTest::newRow("tune") << int(ui::MainWindow::TunePlace) << false;
        QTest::newRow("tune with a workload") << int(ui::MainWindow::TunePlace) << true;
    }

    // Judged is how long a handler kept the window from the user by its own doing: computing and waiting, but not the
    // time in which other programs had the processor. A run may be repeated; a slow window fails all three.
    void eightChatsAndAllDashboards()
    {
        QFETCH(int, place);
        QFETCH(bool, workload);
        const Blocks own = fluidRun([&](Blocks &run) { measure(ui::MainWindow::Place(place), workload, run); });
        if (QTest::currentTestFailed())
            return;
        QVERIFY2(own.fluid(), own.text().constData());
    }

private:
    void measure(ui::MainWindow::Place place, bool workload, Blocks &own)
    {
        auto *application = static_cast<TimedApplication *>(qApp);
        const QTemporaryDir dir;
        qputenv("XDG_DATA_HOME", QFile::encodeName(dir.path()));
        FakeEngineScript script;
        script.stepMs = 20; // 8 chats x 50 tokens a second
        script.numBlocks = 4096;
        script.promptTokens = 300;
        script.answerTokens = 100000;
        script.answer = "Paged attention cuts the **cache** into `blocks`:\n\n- a block holds 16 tokens\n- blocks are "
                        "shared\n\n```cpp\n"
                        "int block = table[token / blockSize]; // page\n```\n\n";
        ui::Settings settings(dir.filePath(QStringLiteral("lathe.conf")));
        ui::Theme theme;
        theme.setMode(ui::ThemeMode::Dark);
        ui::EngineClient client(std::make_unique<FakeEngine>(script));
        ui::MainWindow window(theme, client, settings);
        window.resize(1600, 1000);
        window.show();
        window.resize(1600, 1000);
        client.loadModel(QStringLiteral("/models/example.gguf"));
        QTRY_VERIFY(client.model().has_value());
        for (int i = 0; i < 8; ++i)
            window.ask(QStringLiteral("Question %1: explain paged attention.").arg(i));
        QTRY_COMPARE(client.activeRequests(), 8);
        for (const ui::LiveCard *card : window.inspector()->cards())
            QVERIFY(window.inspector()->isCardShown(const_cast<ui::LiveCard *>(card)));
        window.showPlace(place);
        QTest::qWait(1000); // first layouts and glyphs

        if (workload) { // short rounds, so that settings change often
            window.tunePage()->workloadPanel()->setWorkload({8, 8, 64, 16, 0, 50, 7});
            QTest::keyClick(window.tunePage()->enginePanel()->knob("block-size")->track(), Qt::Key_Right);
            window.tunePage()->runWorkload();
            QVERIFY(window.tunePage()->tuner()->isRunning());
        }
        const int seconds = shared_data::fullTier() ? 20 : 5;
        application->startRecording();
        QTest::qWait(seconds * 1000);
        application->stopRecording();
        QCOMPARE(window.tunePage()->tuner()->isRunning(), workload);
        window.tunePage()->tuner()->stop();
        QTRY_COMPARE(client.activeRequests(), 8); // they streamed all the time
        own = application->report(QTest::currentDataTag());
        QVERIFY2(own.count > 50, "too few handlers: nothing was drawn");
        client.cancelAll();
        QTRY_COMPARE(client.activeRequests(), 0);
    }
};

int main(int argc, char **argv)
{
    QApplication::setStyle(QStringLiteral("Fusion"));
    TimedApplication application(argc, argv);
    TestFrameBudget test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_frame_budget.moc"
