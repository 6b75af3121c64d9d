// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QList>
#include <QWidget>

#include <string_view>

class QBoxLayout;
class QLabel;
class QPushButton;
class QScrollArea;

namespace ui {

class Card;
class ComparisonCard;
class EngineClient;
class ParameterPanel;
class ReportWriter;
class Settings;
class StatsHistory;
class Tuner;
class WorkloadPanel;

/// The knobs at the left; at the right what they do: figures of a workload before and after, and the running requests.
class TunePage : public QWidget {
    Q_OBJECT
public:
    TunePage(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, QWidget *parent = nullptr);
    /// Brings the knob of this parameter into sight and gives it the focus; other keys do nothing.
    void showKnob(std::string_view key);
    [[nodiscard]] ParameterPanel *samplingPanel() const { return m_sampling; }
    [[nodiscard]] ParameterPanel *enginePanel() const { return m_engine; }
    [[nodiscard]] WorkloadPanel *workloadPanel() const { return m_workload; }
    [[nodiscard]] ComparisonCard *comparisonCard() const { return m_comparison; }
    [[nodiscard]] Tuner *tuner() const { return m_tuner; }
    /// Starts the workload, or stops the one that runs.
    void runWorkload();
    /// Writes the last comparison; says in the page how that went.
    void saveReport(const QString &path);

protected:
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;

private:
    QWidget *createKnobs();
    QWidget *createButtons();
    void fitButtons();
    QWidget *createCharts();
    void chooseReportFile();
    void keep();
    void revert();
    void refresh();
    void summarize();
    void reset();

    Theme &m_theme;
    EngineClient &m_client;
    StatsHistory &m_history;
    Settings &m_settings;
    Card *m_knobs = nullptr;
    ParameterPanel *m_sampling = nullptr;
    ParameterPanel *m_engine = nullptr;
    WorkloadPanel *m_workload = nullptr;
    Tuner *m_tuner = nullptr;
    ReportWriter *m_writer = nullptr;
    ComparisonCard *m_comparison = nullptr;
    QBoxLayout *m_small = nullptr; ///< rates and gaps: beside each other, or in a narrow window one above the other
    QList<QBoxLayout *> m_buttonRows;
    QLabel *m_changes = nullptr;
    QPushButton *m_run = nullptr;
    QPushButton *m_revert = nullptr;
    QPushButton *m_keep = nullptr;
    QPushButton *m_defaults = nullptr;
    QPushButton *m_export = nullptr;
    QScrollArea *m_scroll = nullptr;
    bool m_watching = false;
};

} // namespace ui
