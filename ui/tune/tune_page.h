// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

#include <string_view>

class QScrollArea;

namespace ui {

class Card;
class EngineClient;
class ParameterPanel;
class Settings;
class StatsHistory;

/// The knobs at the left, what they do to the running requests at the right.
class TunePage : public QWidget {
    Q_OBJECT
public:
    TunePage(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, QWidget *parent = nullptr);
    /// Brings the knob of this parameter into sight and gives it the focus; other keys do nothing.
    void showKnob(std::string_view key);
    [[nodiscard]] ParameterPanel *samplingPanel() const { return m_sampling; }
    [[nodiscard]] ParameterPanel *enginePanel() const { return m_engine; }

protected:
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;

private:
    QWidget *createKnobs();
    QWidget *createCharts();
    void summarize();
    void reset();

    Theme &m_theme;
    EngineClient &m_client;
    StatsHistory &m_history;
    Settings &m_settings;
    Card *m_knobs = nullptr;
    ParameterPanel *m_sampling = nullptr;
    ParameterPanel *m_engine = nullptr;
    QScrollArea *m_scroll = nullptr;
    bool m_watching = false;
};

} // namespace ui
