// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "tests/support/fake_server_control.h"
#include "ui/chat/chat_page.h"
#include "ui/chat/composer.h"
#include "ui/engine_client.h"
#include "ui/inspect/inspector.h"
#include "ui/inspect/live_card.h"
#include "ui/main_window.h"
#include "ui/server/server_page.h"
#include "ui/settings.h"
#include "ui/status_line.h"
#include "ui/tune/parameter_panel.h"
#include "ui/tune/tune_page.h"
#include "ui/widgets/knob_slider.h"
#include "ui/widgets/notice_bar.h"

#include <QAbstractButton>
#include <QAccessible>
#include <QDockWidget>
#include <QDropEvent>
#include <QFile>
#include <QLineEdit>
#include <QMenu>
#include <QMimeData>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <memory>
#include <utility>

using ui::MainWindow;

class TestMainWindow : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_dir = std::make_unique<QTemporaryDir>();
        qputenv("XDG_DATA_HOME", QFile::encodeName(m_dir->path()));
        qputenv("XDG_CONFIG_HOME", QFile::encodeName(m_dir->path()));
        qputenv("XDG_STATE_HOME", QFile::encodeName(m_dir->path()));
        open();
    }

    void cleanup() { close(); }

    void keysReachEveryPlace()
    {
        for (const auto &[key, place] :
             {std::pair{Qt::Key_2, MainWindow::ModelsPlace}, std::pair{Qt::Key_3, MainWindow::TunePlace},
              std::pair{Qt::Key_4, MainWindow::DevicesPlace}, std::pair{Qt::Key_1, MainWindow::ChatPlace}}) {
            QTest::keyClick(m_window.get(), key, Qt::ControlModifier);
            QCOMPARE(m_window->place(), place);
        }
        QTest::keyClick(m_window.get(), Qt::Key_Comma, Qt::ControlModifier);
        QCOMPARE(m_window->place(), MainWindow::TunePlace);
        m_window->showPlace(MainWindow::ChatPlace);
        QTest::keyClick(m_window.get(), Qt::Key_B, Qt::ControlModifier);
        QVERIFY(!m_window->inspector()->isVisible());
        QTest::keyClick(m_window.get(), Qt::Key_B, Qt::ControlModifier);
        QVERIFY(m_window->inspector()->isVisible());
        QTest::keyClick(m_window.get(), Qt::Key_Q, Qt::ControlModifier);
        QVERIFY(!m_window->isVisible());
    }

    void theServerHasAPlaceWhereThereIsOne()
    {
        QVERIFY(!m_window->serverPage());
        FakeServerControl control;
        MainWindow window(m_theme, *m_client, *m_settings, &control);
        m_window->hide();
        window.show();
        window.activateWindow();
        QVERIFY(QTest::qWaitForWindowActive(&window));
        QTest::keyClick(&window, Qt::Key_5, Qt::ControlModifier);
        QCOMPARE(window.place(), MainWindow::ServerPlace);
        QVERIFY(window.serverPage()->isVisible());
        window.enlargeCard(QStringLiteral("latency"));
        QVERIFY(!window.serverPage()->isVisible());
        window.enlargeCard({});
        QVERIFY(window.serverPage()->isVisible());
    }

    void statusIsAlwaysTrue()
    {
        QVERIFY(m_window->statusLine()->text().contains(QStringLiteral("no model")));
        load();
        QString text = m_window->statusLine()->text();
        for (const char *part :
             {"example", "cpu avx2", "4 threads", "KV 0 % of 96 pages", "running 0 / 64", "waiting 0"})
            QVERIFY2(text.contains(QLatin1String(part)), qPrintable(text));
        engine::Request request;
        request.prompt = "why";
        m_client->submit(request);
        m_fake->step();
        QTRY_VERIFY2(m_window->statusLine()->text().contains(QStringLiteral("running 1 / 64")),
                     qPrintable(m_window->statusLine()->text()));
        m_client->cancelAll();
        QTRY_VERIFY2(m_window->statusLine()->text().contains(QStringLiteral("running 0 / 64")),
                     qPrintable(m_window->statusLine()->text()));
        QVERIFY(m_window->statusLine()->text().contains(QStringLiteral("decode 0 tok/s")));
    }

    void badFileLeavesTheModelAlone()
    {
        load();
        m_window->openModel(QStringLiteral("/models/broken.bad"));
        QTRY_VERIFY(m_window->notice()->isVisible());
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("wanted 'GGUF'")));
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("stays loaded")));
        QVERIFY(!m_window->progress()->isVisible());
        QVERIFY(m_window->statusLine()->text().contains(QStringLiteral("example")));
        QVERIFY(!m_settings->recentModels().contains(QStringLiteral("/models/broken.bad")));
    }

    void changedFileIsSaid()
    {
        load();
        m_fake->push(engine::ModelFileChanged{"/models/example.gguf", "the file is 12 bytes long, wanted 100"});
        QTRY_VERIFY(m_window->notice()->isVisible());
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("12 bytes")));
    }

    void refusedSamplingIsSaid()
    {
        load();
        m_fake->push(engine::SamplingRefused{4, "top-p: found 7, wanted 0 to 1"});
        QTRY_VERIFY(m_window->notice()->isVisible());
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("request 4")));
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("found 7, wanted 0 to 1")));
        m_fake->push(engine::ModelFileChanged{"/models/example.gguf", "the file is gone"});
        QTRY_VERIFY(m_window->notice()->text().contains(QStringLiteral("gone")));
        m_fake->push(engine::SamplingRefused{5, "min-p: found 7, wanted 0 to 1"});
        QTest::qWait(100);
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("gone"))); // it offers to load again
    }

    void noticesOfTheEngineAreSaid()
    {
        load();
        m_fake->push(engine::EngineNotice{engine::EngineNotice::Kind::StepStalled, 7, "step 7 takes longer than 60 s"});
        QTRY_VERIFY(m_window->notice()->isVisible());
        QCOMPARE(m_window->notice()->text(), QStringLiteral("Step 7 takes longer than 60 s."));
    }

    // Requests wait for a decision: nothing takes its button away.
    void lostDeviceOffersTheProcessor()
    {
        load();
        m_fake->push(engine::EngineNotice{engine::EngineNotice::Kind::DeviceLost, 7, "cuda:0 is lost"});
        QTRY_VERIFY(m_window->notice()->isVisible());
        QCOMPARE(m_window->notice()->text(), QStringLiteral("Cuda:0 is lost."));
        m_fake->push(engine::SamplingRefused{4, "top-p: found 7, wanted 0 to 1"});
        m_window->openModel(QStringLiteral("/models/broken.bad"));
        QTRY_VERIFY(m_window->notice()->text().contains(QStringLiteral("wanted 'GGUF'")));
        QVERIFY(m_window->notice()->text().contains(QStringLiteral("is lost")));
        QPushButton *shown = nullptr;
        for (QPushButton *button : m_window->notice()->findChildren<QPushButton *>()) {
            if (button->isVisible())
                QVERIFY2(!std::exchange(shown, button), qPrintable(button->text()));
        }
        QVERIFY(shown);
        shown->click();
        QCOMPARE(m_fake->continuedOn(), std::string("cpu"));
    }

    void dropOpens()
    {
        QMimeData data;
        data.setUrls({QUrl::fromLocalFile(QStringLiteral("/models/größe 模型.gguf"))});
        QDragEnterEvent enter({400, 300}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QCoreApplication::sendEvent(m_window.get(), &enter);
        QVERIFY(enter.isAccepted());
        QDropEvent drop({400, 300}, Qt::CopyAction, &data, Qt::LeftButton, Qt::NoModifier);
        QCoreApplication::sendEvent(m_window.get(), &drop);
        QTRY_VERIFY(m_client->model().has_value());
        QCOMPARE(QString::fromStdString(m_client->model()->path), QStringLiteral("/models/größe 模型.gguf"));
        QCOMPARE(m_settings->recentModels().value(0), QStringLiteral("/models/größe 模型.gguf"));
        const QList<QAction *> actions = m_window->menu()->actions();
        QVERIFY(std::any_of(actions.begin(), actions.end(), [](const QAction *action) {
            return action->text() == QStringLiteral("Open recent") && action->isEnabled();
        }));
    }

    void cardsEnlargeTearOffHideAndMove()
    {
        ui::Inspector *inspector = m_window->inspector();
        ui::LiveCard *pages = inspector->card(QStringLiteral("pages"));
        const QSize small = pages->size();
        QTest::mouseDClick(pages, Qt::LeftButton, {}, {60, 15});
        QVERIFY(pages->isExpanded());
        QTest::qWait(20);
        QVERIFY(pages->width() > small.width() * 2);
        QTest::keyClick(pages, Qt::Key_Escape);
        QVERIFY(!pages->isExpanded());
        QVERIFY(inspector->isAncestorOf(pages) && pages->isVisible());

        m_window->tearOff(pages);
        QVERIFY(!inspector->isAncestorOf(pages) && pages->isVisible());
        auto *dock = m_window->findChild<QDockWidget *>();
        QVERIFY(dock && dock->isFloating());
        dock->close();
        QTRY_VERIFY(inspector->isAncestorOf(pages) && pages->isVisible());

        inspector->setCardShown(pages, false);
        QVERIFY(!pages->isVisible());
        inspector->moveCard(pages, -2);
        QCOMPARE(inspector->cards().indexOf(pages), 0);
        close();
        open(); // order and hidden cards are kept
        QCOMPARE(m_window->inspector()->cards()[0]->key(), QStringLiteral("pages"));
        QVERIFY(!m_window->inspector()->isCardShown(m_window->inspector()->cards()[0]));
    }

    void hiddenViewsDoNotWatch()
    {
        load();
        QVERIFY(m_fake->isWatched(engine::Topic::Blocks));
        m_window->showPlace(MainWindow::ModelsPlace);
        QVERIFY(!m_fake->isWatched(engine::Topic::Blocks));
        QVERIFY(!m_fake->isWatched(engine::Topic::Devices));
        m_window->showPlace(MainWindow::DevicesPlace);
        QVERIFY(m_fake->isWatched(engine::Topic::Devices));
        m_window->hide();
        QVERIFY(!m_fake->isWatched(engine::Topic::Devices));
    }

    void atMostThirtyRepaintsASecond()
    {
        close();
        FakeEngineScript script;
        script.stepMs = 3;
        open(script);
        load();
        engine::Request request;
        request.prompt = "why";
        request.sampling.maxTokens = 100000;
        m_client->submit(request);
        QTest::qWait(300);
        QList<int> before;
        for (const ui::LiveCard *card : m_window->inspector()->cards())
            before << card->paintCount();
        QElapsedTimer elapsed;
        elapsed.start();
        QTest::qWait(1500);
        const double seconds = double(elapsed.elapsed()) / 1000;
        for (int i = 0; i < before.size(); ++i) {
            const ui::LiveCard *card = m_window->inspector()->cards()[i];
            const double rate = (card->paintCount() - before[i]) / seconds;
            // The page map is a child; its blit may repaint the card below it once more in a frame.
            QVERIFY2(rate <= (card->key() == QStringLiteral("pages") ? 61 : 31),
                     qPrintable(card->key() + QString::number(rate)));
        }
        m_window->showPlace(MainWindow::ModelsPlace);
        QTest::qWait(50);
        const int hidden = m_window->inspector()->cards()[0]->paintCount();
        QTest::qWait(300);
        QCOMPARE(m_window->inspector()->cards()[0]->paintCount(), hidden);
        m_client->cancelAll();
        QTRY_COMPARE(m_client->activeRequests(), 0);
    }

    // A narrow window gives the chat the room: live cards go, the button stays whole.
    void narrowWindowKeepsTheChat()
    {
        load();
        m_window->resize(900, 600);
        QTRY_VERIFY(!m_window->inspector()->isVisible());
        QVERIFY(m_window->isInspectorShown());
        for (QAction *action : m_window->menu()->actions()) { // where it made room, one call brings it back
            if (action->text().startsWith(QStringLiteral("Inspector")))
                action->trigger();
        }
        QVERIFY(m_window->inspector()->isVisible() && m_window->isInspectorShown());
        m_window->resize(1600, 600);
        m_window->resize(900, 600);
        QTRY_VERIFY(!m_window->inspector()->isVisible());
        for (const int width : {900, 1180, 1600}) {
            m_window->resize(width, 600);
            QCoreApplication::processEvents();
            const ui::Composer *composer = m_window->chatPage()->composer();
            for (const QAbstractButton *button : composer->findChildren<QAbstractButton *>()) {
                if (!button->isVisible())
                    continue;
                QTRY_VERIFY2(button->width() >= button->sizeHint().width(),
                             qPrintable(QStringLiteral("%1 at %2").arg(button->text()).arg(composer->width())));
                QVERIFY2(composer->rect().contains(button->geometry()), qPrintable(button->text()));
            }
        }
        QVERIFY(m_window->inspector()->isVisible());
    }

    void figuresOfTheComposerLeadToTheirKnob()
    {
        load();
        for (const char *const key : {"temperature", "top-p", "max-tokens"}) {
            m_window->showPlace(MainWindow::ChatPlace);
            emit m_window->chatPage()->composer()->samplingRequested(QString::fromLatin1(key));
            QCOMPARE(m_window->place(), MainWindow::TunePlace);
            const ui::KnobSlider *knob = m_window->tunePage()->samplingPanel()->knob(key);
            QVERIFY(knob);
            QCOMPARE(QApplication::focusWidget(), knob->track());
            QVERIFY2(!knob->visibleRegion().isEmpty(), key);
        }
    }

    void geometryIsKept()
    {
        m_window->resize(1111, 777);
        close();
        open();
        QCOMPARE(m_window->size(), QSize(1111, 777));
    }

    void controlsAreNamed()
    {
        load();
        QStringList nameless;
        for (const int place : {0, 1, 2, 3}) {
            m_window->showPlace(MainWindow::Place(place));
            for (QWidget *widget : m_window->findChildren<QWidget *>()) {
                const bool control = qobject_cast<QAbstractButton *>(widget) || qobject_cast<QSlider *>(widget)
                    || qobject_cast<QLineEdit *>(widget);
                if (!control || !widget->isVisible())
                    continue;
                const QAccessibleInterface *face = QAccessible::queryAccessibleInterface(widget);
                if (!face || face->text(QAccessible::Name).isEmpty())
                    nameless << QStringLiteral("%1 in place %2")
                                    .arg(QLatin1String(widget->metaObject()->className()))
                                    .arg(place);
            }
        }
        QVERIFY2(nameless.isEmpty(), qPrintable(nameless.join(u'\n')));
    }

    void tabVisitsEachControlOnce()
    {
        load();
        m_window->showPlace(MainWindow::TunePlace);
        QSet<QWidget *> seen;
        QWidget *widget = QApplication::focusWidget();
        for (int i = 0; i < 300 && widget && !seen.contains(widget); ++i) {
            seen.insert(widget);
            QTest::keyClick(widget, Qt::Key_Tab);
            widget = QApplication::focusWidget();
        }
        QVERIFY2(seen.size() > 20, qPrintable(QString::number(seen.size())));
    }

private:
    void open(FakeEngineScript script = {})
    {
        m_settings = std::make_unique<ui::Settings>(m_dir->filePath(QStringLiteral("lathe.conf")));
        m_theme.setMode(ui::ThemeMode::Dark);
        auto owned = std::make_unique<FakeEngine>(script);
        m_fake = owned.get();
        m_client = std::make_unique<ui::EngineClient>(std::move(owned));
        m_window = std::make_unique<MainWindow>(m_theme, *m_client, *m_settings);
        m_window->show();
        QVERIFY(QTest::qWaitForWindowActive(m_window.get()));
    }

    void close()
    {
        if (m_window)
            m_window->close();
        m_window.reset();
        m_client.reset();
        m_settings.reset();
    }

    void load()
    {
        m_window->openModel(QStringLiteral("/models/example.gguf"));
        QTRY_VERIFY(m_client->model().has_value());
    }

    std::unique_ptr<QTemporaryDir> m_dir;
    ui::Theme m_theme;
    std::unique_ptr<ui::Settings> m_settings;
    FakeEngine *m_fake = nullptr;
    std::unique_ptr<ui::EngineClient> m_client;
    std::unique_ptr<MainWindow> m_window;
};

QTEST_MAIN(TestMainWindow)
#include "tst_main_window.moc"
