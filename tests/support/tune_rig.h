// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "tests/support/fake_engine.h"
#include "ui/engine_client.h"
#include "ui/settings.h"
#include "ui/stats_history.h"
#include "ui/tune/tune_page.h"

#include <QTemporaryDir>
#include <QTest>

#include <memory>

/// A tune page on a scripted engine, for test classes to derive from. UI thread.
class TuneRig : public QObject {
protected:
    void start(const FakeEngineScript &script, bool load)
    {
        m_dir = std::make_unique<QTemporaryDir>();
        m_settings = std::make_unique<ui::Settings>(m_dir->filePath(QStringLiteral("lathe.conf")));
        auto owned = std::make_unique<FakeEngine>(script);
        m_fake = owned.get();
        m_client = std::make_unique<ui::EngineClient>(std::move(owned));
        m_history = std::make_unique<ui::StatsHistory>(*m_client);
        m_page = std::make_unique<ui::TunePage>(m_theme, *m_client, *m_history, *m_settings);
        if (load) {
            m_client->loadModel(QStringLiteral("/models/example.gguf"));
            QTRY_VERIFY(m_client->model().has_value());
        }
    }

    void stop()
    {
        m_page.reset();
        m_history.reset();
        m_client.reset();
        m_settings.reset();
    }

    ui::Theme m_theme;
    std::unique_ptr<QTemporaryDir> m_dir;
    std::unique_ptr<ui::Settings> m_settings;
    FakeEngine *m_fake = nullptr;
    std::unique_ptr<ui::EngineClient> m_client;
    std::unique_ptr<ui::StatsHistory> m_history;
    std::unique_ptr<ui::TunePage> m_page;
};
