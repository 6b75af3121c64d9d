// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/settings.h"

#include <QDir>
#include <QFile>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

using ui::Settings;

class TestSettings : public QObject {
    Q_OBJECT
private slots:
    void init() { m_dir = std::make_unique<QTemporaryDir>(); }

    void valuesSurvive()
    {
        engine::SamplingParams sampling;
        sampling.temperature = 0.3;
        sampling.topK = 7;
        sampling.maxTokens = 512;
        engine::EngineConfig config;
        config.limits.maxNumSeqs = 12;
        config.kv.blockTokens = 32;
        config.kv.budgetBytes = std::size_t(5) << 30;
        {
            Settings settings(file());
            settings.setSampling(sampling);
            settings.setEngineConfig(config);
            settings.setThemeMode(ui::ThemeMode::Dark);
            QVERIFY(settings.sync());
        }
        const Settings settings(file());
        QVERIFY(settings.sampling() == sampling);
        QVERIFY(settings.engineConfig().limits == config.limits);
        QVERIFY(settings.engineConfig().kv == config.kv);
        QVERIFY(settings.themeMode() == ui::ThemeMode::Dark);
    }

    void brokenValuesReadAsDefaults()
    {
        write("[General]\ntheme=pink\n[sampling]\ntemperature=warm\ntop-p=nan\n[engine]\nblock-size=seventeen\n");
        const Settings settings(file());
        QVERIFY(settings.sampling() == engine::SamplingParams());
        QVERIFY(settings.engineConfig().kv == engine::KvPoolConfig());
        QVERIFY(settings.themeMode() == ui::ThemeMode::System);
    }

    // What was asked for is kept, so that it can be shown beside what is used; an engine cannot start with such values.
    void samplingOutOfRangeIsKept()
    {
        write("[sampling]\ntemperature=99\ntop-p=nan\n[engine]\nblock-size=13\n");
        const ui::Settings settings(file());
        QCOMPARE(settings.sampling().temperature, 99.0);
        QCOMPARE(settings.sampling().topP, engine::SamplingParams().topP);
        QCOMPARE(settings.engineConfig().kv.blockTokens, engine::EngineConfig().kv.blockTokens);
    }

    void recentModels()
    {
        Settings settings(file());
        QSignalSpy changed(&settings, &Settings::recentModelsChanged);
        for (int i = 0; i < 20; ++i)
            settings.addRecentModel(QStringLiteral("/m/%1.gguf").arg(i));
        settings.addRecentModel(QStringLiteral("/m/15.gguf"));
        QCOMPARE(changed.count(), 21);
        const QStringList recent = settings.recentModels();
        QCOMPARE(recent.size(), 12);
        QCOMPARE(recent[0], QStringLiteral("/m/15.gguf"));
        QCOMPARE(recent[1], QStringLiteral("/m/19.gguf"));
        QCOMPARE(recent.count(QStringLiteral("/m/15.gguf")), 1);
        settings.removeRecentModel(QStringLiteral("/m/15.gguf"));
        QVERIFY(!settings.recentModels().contains(QStringLiteral("/m/15.gguf")));
    }

    void foldersFollowTheEnvironment()
    {
        const QByteArray before = qgetenv("XDG_STATE_HOME");
        qputenv("XDG_STATE_HOME", "/tmp/elsewhere");
        QCOMPARE(ui::paths::state(), QStringLiteral("/tmp/elsewhere/lathe"));
        qputenv("XDG_STATE_HOME", "not/absolute");
        QCOMPARE(ui::paths::state(), QDir::homePath() + QStringLiteral("/.local/state/lathe"));
        qputenv("XDG_STATE_HOME", before);
    }

private:
    [[nodiscard]] QString file() const { return m_dir->filePath(QStringLiteral("sub/lathe.conf")); }

    void write(const char *text)
    {
        QVERIFY(QDir(m_dir->path()).mkpath(QStringLiteral("sub")));
        QFile out(file());
        QVERIFY(out.open(QIODevice::WriteOnly));
        out.write(text);
    }

    std::unique_ptr<QTemporaryDir> m_dir;
};

QTEST_GUILESS_MAIN(TestSettings)
#include "tst_settings.moc"
