// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/settings.h"

#include "ui/parameters.h"

#include <QDir>
#include <QFileInfo>

#include <cmath>
#include <string>

namespace ui {

namespace {

constexpr qsizetype recentLimit = 12;

// A relative path in such a variable is invalid by the specification and ignored.
QString base(const char *variable, const char *fallback)
{
    const QString value = qEnvironmentVariable(variable);
    return QDir::isAbsolutePath(value) ? value : QDir::homePath() + QLatin1Char('/') + QLatin1String(fallback);
}

QString keyOf(const engine::ParameterSpec &spec)
{
    const auto text = [](std::string_view view) { return QString::fromUtf8(view.data(), qsizetype(view.size())); };
    return text(spec.group) + QLatin1Char('/') + text(spec.key);
}

template<typename Target> void readValues(const QSettings &store, Target &target, bool keepFaulty)
{
    for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
        bool ok = false;
        const double value = store.value(keyOf(spec)).toDouble(&ok);
        if (!ok || std::isnan(value) || !parameterValue(target, spec.key))
            continue;
        if (const std::string fault = engine::checkParameter(spec, value); !fault.empty()) {
            qInfo("%s: %s", qPrintable(store.fileName()), fault.c_str());
            if (!keepFaulty)
                continue;
        }
        setParameterValue(target, spec.key, value);
    }
}

template<typename Source> void writeValues(QSettings &store, const Source &source)
{
    for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
        if (const auto value = parameterValue(source, spec.key))
            store.setValue(keyOf(spec), *value);
    }
}

} // namespace

namespace paths {

QString config()
{
    return base("XDG_CONFIG_HOME", ".config") + QStringLiteral("/lathe");
}

QString data()
{
    return base("XDG_DATA_HOME", ".local/share") + QStringLiteral("/lathe");
}

QString state()
{
    return base("XDG_STATE_HOME", ".local/state") + QStringLiteral("/lathe");
}

QString models()
{
    return data() + QStringLiteral("/models");
}

} // namespace paths

Settings::Settings(const QString &file, QObject *parent)
    : QObject(parent)
    , m_store(file.isEmpty() ? paths::config() + QStringLiteral("/lathe.conf") : file, QSettings::IniFormat)
{
}

ThemeMode Settings::themeMode() const
{
    const QString mode = m_store.value(QStringLiteral("theme")).toString();
    if (mode == QLatin1String("light"))
        return ThemeMode::Light;
    return mode == QLatin1String("dark") ? ThemeMode::Dark : ThemeMode::System;
}

void Settings::setThemeMode(ThemeMode mode)
{
    static constexpr const char *names[] = {"system", "light", "dark"};
    setValue(QStringLiteral("theme"), QLatin1String(names[int(mode)]));
}

engine::SamplingParams Settings::sampling() const
{
    engine::SamplingParams sampling;
    readValues(m_store, sampling, true); // shown as asked for, beside what is used
    return sampling;
}

void Settings::setSampling(const engine::SamplingParams &sampling)
{
    writeValues(m_store, sampling);
    emit changed(QStringLiteral("sampling"));
}

engine::EngineConfig Settings::engineConfig() const
{
    engine::EngineConfig config;
    readValues(m_store, config, false);
    return config;
}

void Settings::setEngineConfig(const engine::EngineConfig &config)
{
    writeValues(m_store, config);
    emit changed(QStringLiteral("engine"));
}

QStringList Settings::recentModels() const
{
    return m_store.value(QStringLiteral("models/recent")).toStringList();
}

void Settings::addRecentModel(const QString &path)
{
    const QString absolute = QFileInfo(path).absoluteFilePath();
    QStringList recent = recentModels();
    recent.removeAll(absolute);
    recent.prepend(absolute);
    m_store.setValue(QStringLiteral("models/recent"), recent.mid(0, recentLimit));
    emit recentModelsChanged();
}

void Settings::removeRecentModel(const QString &path)
{
    QStringList recent = recentModels();
    recent.removeAll(path);
    m_store.setValue(QStringLiteral("models/recent"), recent);
    emit recentModelsChanged();
}

QVariant Settings::value(const QString &key, const QVariant &fallback) const
{
    return m_store.value(key, fallback);
}

void Settings::setValue(const QString &key, const QVariant &value)
{
    if (m_store.value(key) == value)
        return;
    m_store.setValue(key, value);
    emit changed(key);
}

bool Settings::sync()
{
    m_store.sync();
    return m_store.status() == QSettings::NoError;
}

} // namespace ui
