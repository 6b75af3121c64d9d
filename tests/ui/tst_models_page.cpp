// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/fake_engine.h"
#include "ui/engine_client.h"
#include "ui/models/model_list.h"
#include "ui/models/models_page.h"
#include "ui/settings.h"

#include <QDir>
#include <QFile>
#include <QLabel>
#include <QListView>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using ui::ModelList;

class TestModelsPage : public QObject {
    Q_OBJECT
private slots:
    void init()
    {
        m_dir = std::make_unique<QTemporaryDir>();
        qputenv("XDG_DATA_HOME", QFile::encodeName(m_dir->path()));
        QVERIFY(QDir().mkpath(ui::paths::models()));
        write(ui::paths::models() + QStringLiteral("/broken.gguf"), "this is no model");
        m_settings = std::make_unique<ui::Settings>(m_dir->filePath(QStringLiteral("lathe.conf")));
        m_client = std::make_unique<ui::EngineClient>(std::make_unique<FakeEngine>());
        m_page = std::make_unique<ui::ModelsPage>(m_theme, *m_client, *m_settings);
    }

    void cleanup()
    {
        m_page.reset();
        m_client.reset();
        m_settings.reset();
    }

    void brokenFilesSayWhy()
    {
        const QString gone = m_dir->filePath(QStringLiteral("gone.gguf"));
        const auto rows = ModelList::read(ui::paths::models(), {gone});
        QCOMPARE(rows.size(), std::size_t(4)); // two headings, a recent and an installed file
        QVERIFY(rows[1].recent && rows[1].problem.contains(gone));
        QCOMPARE(rows[3].name, QStringLiteral("broken"));
        QVERIFY(!rows[3].problem.isEmpty());
    }

    void emptyFolderSaysSo()
    {
        const QString folder = m_dir->filePath(QStringLiteral("nowhere"));
        ModelList list;
        list.setRows(ModelList::read(folder, {}));
        QCOMPARE(list.rowCount(), 2);
        QVERIFY(list.index(0).data(ModelList::HeaderRole).toBool());
        QVERIFY(list.index(1).data(ModelList::DetailRole).toString().contains(folder));
        QCOMPARE(list.flags(list.index(1)), Qt::NoItemFlags);
    }

    void listIsReadOffTheWindowsThread()
    {
        m_page->show();
        QCOMPARE(m_page->list()->model()->rowCount(), 0); // shown at once, filled later
        QTRY_COMPARE(m_page->list()->model()->rowCount(), 2);
    }

    void pageMayGoWhileTheFolderIsRead()
    {
        for (int i = 0; i < 20; ++i) {
            ui::ModelsPage page(m_theme, *m_client, *m_settings);
            page.show();
        }
        QTest::qWait(50);
    }

    void recentOpens()
    {
        const QString path = m_dir->filePath(QStringLiteral("good 模型.gguf"));
        write(path, "as good as it gets for a fake");
        m_settings->addRecentModel(path);
        m_page->show();
        QTRY_COMPARE(m_page->list()->model()->rowCount(), 4);
        QCOMPARE(m_page->list()->currentIndex().row(), 1); // the first one that can be opened
        QSignalSpy open(m_page.get(), &ui::ModelsPage::openRequested);
        QTest::keyClick(m_page->list(), Qt::Key_Return);
        QCOMPARE(open.count(), 1);
        QCOMPARE(open[0][0].toString(), path);
    }

    void brokenDoesNotOpen()
    {
        m_page->show();
        QTRY_COMPARE(m_page->list()->model()->rowCount(), 2);
        QSignalSpy open(m_page.get(), &ui::ModelsPage::openRequested);
        QTest::keyClick(m_page->list(), Qt::Key_Return);
        QCOMPARE(open.count(), 0);
    }

    void failureStaysReadable()
    {
        m_client->loadModel(QStringLiteral("/models/<b>evil</b>.bad"));
        QTRY_VERIFY(!m_client->isLoading());
        bool shown = false;
        for (const QLabel *label : m_page->findChildren<QLabel *>()) {
            if (label->text().contains(QStringLiteral("<b>evil</b>"))) {
                QCOMPARE(label->textFormat(), Qt::PlainText);
                shown = true;
            }
        }
        QVERIFY(shown);
    }

private:
    static void write(const QString &path, const char *text)
    {
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly));
        file.write(text);
    }

    std::unique_ptr<QTemporaryDir> m_dir;
    ui::Theme m_theme;
    std::unique_ptr<ui::Settings> m_settings;
    std::unique_ptr<ui::EngineClient> m_client;
    std::unique_ptr<ui::ModelsPage> m_page;
};

QTEST_MAIN(TestModelsPage)
#include "tst_models_page.moc"
