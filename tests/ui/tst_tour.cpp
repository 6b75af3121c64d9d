// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "tests/support/fake_server_control.h"
#include "ui/tour.h"

#include <QApplication>
#include <QDir>
#include <QFile>
#include <QImage>
#include <QTemporaryDir>
#include <QTest>

namespace {

std::unique_ptr<engine::Engine> fakeEngine(const std::string &loadError = {})
{
    FakeEngineScript script;
    script.stepMs = 4;
    script.numBlocks = 700;
    script.promptTokens = 60;
    script.loadError = loadError;
    return std::make_unique<FakeEngine>(script);
}

} // namespace

class TestTour : public QObject {
    Q_OBJECT
private slots:
    void initTestCase()
    {
        QVERIFY(m_dir.isValid());
        m_model = m_dir.filePath(QStringLiteral("Example-135M.gguf"));
        QFile file(m_model);
        QVERIFY(file.open(QIODevice::WriteOnly));
    }

    void onePictureOfEveryViewInBothThemes()
    {
        const QString folder = qEnvironmentVariable("LATHE_TOUR_DIR", m_dir.filePath(QStringLiteral("tour")));
        FakeServerControl server;
        QCOMPARE(ui::runTour(fakeEngine(), folder, m_model, &server), 0);
        for (const char *view :
             {"start", "chat-streaming", "chat", "models", "tune", "tune-running", "tune-compared", "devices",
              "large-throughput", "large-batch", "large-pages", "large-devices", "large-latency", "server", "why"}) {
            const QImage dark(QStringLiteral("%1/%2-dark.png").arg(folder, QLatin1String(view)));
            const QImage light(QStringLiteral("%1/%2-light.png").arg(folder, QLatin1String(view)));
            QVERIFY2(!dark.isNull() && !light.isNull(), view);
            QCOMPARE(dark.size(), light.size());
            const QPoint at(20, dark.height() * 2 / 5);
            QVERIFY2(dark.pixelColor(at).lightnessF() < 0.3, view);
            QVERIFY2(light.pixelColor(at).lightnessF() > 0.8, view);
        }
    }

    void refusedModel()
    {
        QCOMPARE(
            ui::runTour(fakeEngine("magic is 'BAD!', wanted 'GGUF'"), m_dir.filePath(QStringLiteral("none")), m_model),
            3);
    }

    void unknownModel()
    {
        QCOMPARE(
            ui::runTour(fakeEngine(), m_dir.filePath(QStringLiteral("none")), QStringLiteral("no-such-model-anywhere")),
            3);
    }

    void folderThatCannotBeMade()
    {
        QCOMPARE(ui::runTour(fakeEngine(), m_model + QStringLiteral("/below-a-file"), m_model), 1);
    }

private:
    QTemporaryDir m_dir;
    QString m_model;
};

int main(int argc, char **argv)
{
    QApplication::setStyle(QStringLiteral("Fusion"));
    QApplication application(argc, argv);
    TestTour test;
    return QTest::qExec(&test, argc, argv);
}

#include "tst_tour.moc"
