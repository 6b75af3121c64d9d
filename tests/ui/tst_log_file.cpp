// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/log_file.h"
#include "ui/quit_signals.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <thread>
#include <vector>

namespace {

QByteArray contents(const QString &path)
{
    QFile file(path);
    return file.open(QIODevice::ReadOnly) ? file.readAll() : QByteArray();
}

} // namespace

class TestLogFile : public QObject {
    Q_OBJECT
private slots:
    void messagesAreKeptWhole()
    {
        const QTemporaryDir dir;
        const QString folder = dir.filePath(QStringLiteral("state/lathe"));
        {
            const ui::LogFile log(folder);
            qInfo("hello %d", 7);
            std::vector<std::jthread> writers;
            for (int i = 0; i < 4; ++i)
                writers.emplace_back([] {
                    for (int k = 0; k < 100; ++k)
                        qInfo("a line from a thread");
                });
        }
        qInfo("after it is gone");
        const QByteArray text = contents(folder + QStringLiteral("/lathe.log"));
        QVERIFY(text.contains(" info hello 7\n"));
        QVERIFY(!text.contains("after it is gone"));
        QCOMPARE(text.count("a line from a thread\n"), 400);
        QCOMPARE(text.count('\n'), 401);
    }

    void largeFileIsPutAside()
    {
        const QTemporaryDir dir;
        const QString path = dir.filePath(QStringLiteral("lathe.log"));
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(QByteArray(ui::LogFile::limitBytes + 1, 'x'));
        file.close();
        {
            const ui::LogFile log(dir.path());
            qInfo("new");
        }
        QVERIFY(QFile(path).size() < 1000);
        QCOMPARE(QFile(path + QStringLiteral(".old")).size(), ui::LogFile::limitBytes + 1);
    }

    void folderThatCannotBeWritten()
    {
        const QTemporaryDir dir;
        QFile file(dir.filePath(QStringLiteral("file")));
        QVERIFY(file.open(QIODevice::WriteOnly));
        const ui::LogFile log(file.fileName() + QStringLiteral("/below"));
        QVERIFY(log.path().isEmpty());
        qInfo("goes nowhere, quietly");
    }

    void terminationArrivesAsASignal()
    {
        const ui::QuitSignals watch;
        QSignalSpy received(&watch, &ui::QuitSignals::received);
        std::raise(SIGTERM);
        QTRY_COMPARE(received.count(), 1);
    }
};

QTEST_GUILESS_MAIN(TestLogFile)
#include "tst_log_file.moc"
