// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/shared_data.h"

#include <QFile>
#include <QFileInfo>
#include <QImage>
#include <QProcess>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>

// The program itself, as a user starts it; it is built beside the tests.
class TestLatheProgram : public QObject {
    Q_OBJECT
private slots:
    void initTestCase()
    {
        m_program = QStringLiteral(LATHE_BIN_DIR "/lathe");
        QVERIFY2(QFileInfo(m_program).isExecutable(), "the window's program is not built");
    }

    void versionAndHelpNeedNoWindow()
    {
        const auto [status, out, err] = run({QStringLiteral("--version")}, "no-such-platform");
        QCOMPARE(status, 0);
        QVERIFY(out.startsWith("lathe "));
        const auto help = run({QStringLiteral("--help")}, "no-such-platform");
        QCOMPARE(help.status, 0);
        QVERIFY(help.out.contains("--tour"));
    }

    void wrongUsage_data()
    {
        QTest::addColumn<QStringList>("words");
        QTest::newRow("option") << QStringList{QStringLiteral("--no-such-option")};
        QTest::newRow("two models") << QStringList{QStringLiteral("a.gguf"), QStringLiteral("b.gguf")};
        QTest::newRow("tour without a folder") << QStringList{QStringLiteral("--tour")};
    }

    void wrongUsage()
    {
        QFETCH(QStringList, words);
        const auto result = run(words);
        QCOMPARE(result.status, 2);
        QVERIFY(result.out.isEmpty());
        QCOMPARE(result.err.count('\n'), 1);
        QVERIFY(result.err.startsWith("error: "));
    }

    void tourRefusesABrokenModel()
    {
        const QTemporaryDir dir;
        QFile file(dir.filePath(QStringLiteral("broken.gguf")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write("this is no model");
        file.close();
        const auto result = run({QStringLiteral("--tour"), dir.filePath(QStringLiteral("out")), file.fileName()});
        QCOMPARE(result.status, 3);
        QVERIFY2(result.err.contains("broken.gguf"), result.err.constData());
    }

    void aDisplayThatDoesNotAnswerIsAnError()
    {
        const auto result = run({}, "no-such-platform");
        QCOMPARE(result.status, 4);
        QVERIFY(result.out.isEmpty());
        QCOMPARE(result.err.count("error: "), 1);
        QVERIFY2(result.err.contains("error: no window can be opened") && result.err.contains("no-such-platform"),
                 result.err.constData());
    }

    // The window opens, a signal ends it like a closed window, and log and settings are where XDG says.
    void opensAndEnds()
    {
        const QTemporaryDir home;
        QProcess process;
        prepare(process, home.path(), "offscreen");
        process.start(m_program, {});
        QVERIFY(process.waitForStarted());
        const QString settings = home.filePath(QStringLiteral("config/lathe/lathe.conf"));
        QTRY_VERIFY_WITH_TIMEOUT(QFileInfo(home.filePath(QStringLiteral("state/lathe/lathe.log"))).size() > 0, 20000);
        QTest::qWait(1500);
        QCOMPARE(process.state(), QProcess::Running);
        process.terminate();
        QVERIFY(process.waitForFinished(10000));
        QCOMPARE(process.exitStatus(), QProcess::NormalExit);
        QCOMPARE(process.exitCode(), 0);
        QVERIFY(QFileInfo::exists(settings));
    }

    void tourOfTheDemoModel()
    {
        const QString model = shared_data::demoModel();
        if (model.isEmpty())
            QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is not here");
        const QTemporaryDir dir;
        const QString out = dir.filePath(QStringLiteral("tour"));
        const auto result = run({QStringLiteral("--tour"), out, model});
        QVERIFY2(result.status == 0, result.err.constData());
        for (const char *view : {"chat", "models", "tune", "devices"}) {
            for (const char *theme : {"dark", "light"})
                QVERIFY2(!QImage(QStringLiteral("%1/%2-%3.png").arg(out, QLatin1String(view), QLatin1String(theme)))
                              .isNull(),
                         view);
        }
    }

private:
    struct Result {
        int status;
        QByteArray out;
        QByteArray err;
    };

    static void prepare(QProcess &process, const QString &home, const char *platform)
    {
        QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
        environment.insert(QStringLiteral("QT_QPA_PLATFORM"), QLatin1String(platform));
        for (const char *name : {"CONFIG", "STATE", "DATA"})
            environment.insert(QStringLiteral("XDG_%1_HOME").arg(QLatin1String(name)),
                               home + u'/' + QString::fromLatin1(name).toLower());
        environment.insert(QStringLiteral("XDG_RUNTIME_DIR"), home);
        process.setProcessEnvironment(environment);
    }

    [[nodiscard]] Result run(const QStringList &words, const char *platform = "offscreen") const
    {
        const QTemporaryDir home;
        QProcess process;
        prepare(process, home.path(), platform);
        process.start(m_program, words);
        const bool ended = process.waitForFinished(300000);
        QByteArray err = process.readAllStandardError();
        if (!ended)
            process.kill();
        process.waitForFinished();
        return {ended && process.exitStatus() == QProcess::NormalExit ? process.exitCode() : -1,
                process.readAllStandardOutput(), err};
    }

    QString m_program;
};

QTEST_GUILESS_MAIN(TestLatheProgram)
#include "tst_lathe_program.moc"
