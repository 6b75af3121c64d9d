// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/request.h"
#include "ui/theme.h"

#include <QObject>
#include <QSettings>
#include <QString>
#include <QStringList>
#include <QVariant>

namespace ui {

/// Where the program keeps its files, by the XDG base directory rules.
namespace paths {
[[nodiscard]] QString config(); ///< $XDG_CONFIG_HOME/lathe: settings
[[nodiscard]] QString data();   ///< $XDG_DATA_HOME/lathe: chats, models/
[[nodiscard]] QString state();  ///< $XDG_STATE_HOME/lathe: logs
[[nodiscard]] QString models(); ///< data()/models
} // namespace paths

/// What the program remembers between runs. A broken or foreign value reads as its default. Thread: UI.
class Settings : public QObject {
    Q_OBJECT
public:
    /// `file` is made with its folder when something is written; the default is paths::config()/lathe.conf.
    explicit Settings(const QString &file = {}, QObject *parent = nullptr);

    [[nodiscard]] ThemeMode themeMode() const;
    void setThemeMode(ThemeMode mode);

    /// Values outside their ParameterSpec's range read as the default.
    [[nodiscard]] engine::SamplingParams sampling() const;
    void setSampling(const engine::SamplingParams &sampling);
    [[nodiscard]] engine::EngineConfig engineConfig() const;
    void setEngineConfig(const engine::EngineConfig &config);

    /// Newest first, at most 12, without repetition; files that are gone stay listed and are marked by the page.
    [[nodiscard]] QStringList recentModels() const;
    void addRecentModel(const QString &path);
    void removeRecentModel(const QString &path);

    /// For everything small that a page wants to keep: "inspector/order", "chat/ctrlEnterSends".
    [[nodiscard]] QVariant value(const QString &key, const QVariant &fallback = {}) const;
    void setValue(const QString &key, const QVariant &value);

    /// Writes to the disk now; false when the file system refused.
    bool sync();

signals:
    void recentModelsChanged();
    void changed(const QString &key);

private:
    QSettings m_store;
};

} // namespace ui
