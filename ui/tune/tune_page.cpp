// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/tune_page.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/settings.h"
#include "ui/tune/comparison_card.h"
#include "ui/tune/gap_card.h"
#include "ui/tune/live_settings.h"
#include "ui/tune/parameter_panel.h"
#include "ui/tune/rate_card.h"
#include "ui/tune/report_writer.h"
#include "ui/tune/timeline_card.h"
#include "ui/tune/tuner.h"
#include "ui/tune/workload_panel.h"
#include "ui/widgets/knob_slider.h"
#include "ui/widgets/page_title.h"

#include <QBoxLayout>
#include <QDate>
#include <QFileDialog>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>
#include <QShortcut>

namespace ui {

namespace {

constexpr int knobsWidth = 400;

QLabel *groupLabel(Theme &theme, const QString &text)
{
    auto *label = new QLabel(text);
    label->setFont(theme.ui(10.5, QFont::DemiBold));
    label->setProperty("tone", QStringLiteral("quiet"));
    label->setContentsMargins(4, 8, 4, 4);
    return label;
}

} // namespace

TunePage::TunePage(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_client(client)
    , m_history(history)
    , m_settings(settings)
    , m_sampling(new ParameterPanel(theme, client, settings, "sampling"))
    , m_engine(new ParameterPanel(theme, client, settings, "engine"))
    , m_workload(new WorkloadPanel(theme, settings))
    , m_tuner(new Tuner(client, settings, this))
    , m_writer(new ReportWriter(theme, this))
{
    auto *row = new QHBoxLayout;
    row->setSpacing(16);
    row->addWidget(createKnobs());
    row->addWidget(createCharts(), 1);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(16, 0, 16, 14);
    column->setSpacing(0);
    column->addWidget(new PageTitle(theme, tr("Tune"), tr("change a knob, run the same workload, keep what wins")));
    column->addLayout(row, 1);
    connect(m_sampling, &ParameterPanel::refreshed, this, &TunePage::summarize);
    connect(m_engine, &ParameterPanel::refreshed, this, &TunePage::summarize);
    connect(m_tuner, &Tuner::changed, this, &TunePage::refresh);
    connect(m_writer, &ReportWriter::written, this,
            [this](const QString &path) { m_changes->setText(tr("The report is in “%1”.").arg(path)); });
    connect(m_writer, &ReportWriter::failed, m_changes, &QLabel::setText);
    connect(new QShortcut(Qt::Key_F5, this), &QShortcut::activated, this, &TunePage::runWorkload);
    refresh();
}

QWidget *TunePage::createKnobs()
{
    auto *inside = new QWidget;
    auto *column = new QVBoxLayout(inside);
    column->setContentsMargins(6, 0, 8, 0);
    column->setSpacing(4);
    column->addWidget(groupLabel(m_theme, tr("ENGINE")));
    column->addWidget(m_engine);
    column->addWidget(groupLabel(m_theme, tr("WORKLOAD")));
    column->addWidget(m_workload);
    column->addWidget(groupLabel(m_theme, tr("SAMPLING")));
    column->addWidget(m_sampling);
    column->addStretch();
    auto *scroll = m_scroll = new QScrollArea;
    scroll->setWidget(inside);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    scroll->viewport()->setAutoFillBackground(false);
    inside->setAutoFillBackground(false);

    m_knobs = new Card(m_theme, tr("Knobs"));
    m_knobs->setFocusPolicy(Qt::NoFocus);
    m_knobs->setFixedWidth(knobsWidth);
    auto *layout = new QVBoxLayout(m_knobs);
    layout->setContentsMargins(8, Card::headerHeight, 4, 12);
    layout->addWidget(scroll, 1);
    layout->addWidget(createButtons());
    return m_knobs;
}

QWidget *TunePage::createButtons()
{
    const auto button = [this](const QString &text, const QString &tip, void (TunePage::*act)()) {
        auto *made = new QPushButton(text);
        made->setToolTip(tip);
        connect(made, &QPushButton::clicked, this, act);
        return made;
    };
    m_run = button({}, tr("Measures the settings before and after in turn, while chats go on"), &TunePage::runWorkload);
    m_run->setProperty("primary", true);
    m_revert = button(tr("Revert to before"), tr("Ask for the settings before the change again"), &TunePage::revert);
    m_keep = button(tr("Keep"), tr("What is set now is “before” for the next change"), &TunePage::keep);
    m_defaults = button(tr("Defaults"), tr("Set every knob to its default"), &TunePage::reset);
    m_export = button(tr("Export…"), tr("Write the comparison as Markdown, CSV or PNG"), &TunePage::chooseReportFile);
    m_changes = new QLabel;
    m_changes->setWordWrap(true);
    m_changes->setTextFormat(Qt::PlainText);
    m_changes->setFont(m_theme.ui(11.5));
    m_changes->setProperty("tone", QStringLiteral("muted"));
    m_buttonRows = {new QBoxLayout(QBoxLayout::LeftToRight), new QBoxLayout(QBoxLayout::LeftToRight)};
    for (QPushButton *one : {m_run, m_revert})
        m_buttonRows[0]->addWidget(one, 1);
    for (QPushButton *one : {m_keep, m_defaults, m_export})
        m_buttonRows[1]->addWidget(one, 1);
    auto *buttons = new QWidget;
    auto *column = new QVBoxLayout(buttons);
    column->setContentsMargins(10, 4, 14, 0);
    column->addWidget(m_changes);
    for (QBoxLayout *row : m_buttonRows)
        column->addLayout(row);
    return buttons;
}

/// A row whose texts are too long for the column, as those of another language may be, stands upright.
void TunePage::fitButtons()
{
    constexpr int room = knobsWidth - 40; // less the margins of card and buttons
    for (QBoxLayout *row : m_buttonRows) {
        int wanted = row->spacing() * (row->count() - 1);
        for (int i = 0; i < row->count(); ++i)
            wanted += row->itemAt(i)->minimumSize().width();
        row->setDirection(wanted > room ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
    }
}

QWidget *TunePage::createCharts()
{
    m_comparison = new ComparisonCard(m_theme, *m_tuner);
    auto *timeline = new TimelineCard(m_theme, m_client, m_history);
    auto *rates = new RateCard(m_theme, m_history);
    auto *gaps = new GapCard(m_theme, m_history);
    m_comparison->setMinimumHeight(260);
    for (Card *card : {static_cast<Card *>(timeline), static_cast<Card *>(rates), static_cast<Card *>(gaps)})
        card->setMinimumHeight(190);
    m_small = new QBoxLayout(QBoxLayout::LeftToRight);
    m_small->setSpacing(12);
    m_small->addWidget(rates, 3);
    m_small->addWidget(gaps, 2);
    auto *charts = new QWidget;
    auto *column = new QVBoxLayout(charts);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(12);
    column->addWidget(m_comparison, 6);
    column->addWidget(timeline, 4);
    column->addLayout(m_small, 4);
    auto *scroll = new QScrollArea;
    scroll->setWidget(charts);
    scroll->setWidgetResizable(true);
    scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    scroll->setFocusPolicy(Qt::NoFocus);
    scroll->viewport()->setAutoFillBackground(false);
    charts->setAutoFillBackground(false);
    return scroll;
}

void TunePage::runWorkload()
{
    if (m_tuner->isRunning())
        m_tuner->stop();
    else
        m_tuner->start(m_workload->workload());
}

void TunePage::keep()
{
    m_tuner->keep();
}

void TunePage::revert()
{
    m_tuner->revert();
}

void TunePage::chooseReportFile()
{
    const QString name = QStringLiteral("lathe-tuning-%1.md").arg(QDate::currentDate().toString(Qt::ISODate));
    const QString path = QFileDialog::getSaveFileName(this, tr("Export the comparison"), name,
                                                      tr("Markdown (*.md);;CSV (*.csv);;Picture (*.png)"));
    if (!path.isEmpty())
        saveReport(path);
}

void TunePage::saveReport(const QString &path)
{
    if (m_tuner->result())
        m_writer->write(*m_tuner->result(), path);
}

void TunePage::refresh()
{
    const bool running = m_tuner->isRunning(), changed = m_tuner->isChanged();
    m_engine->setEnabled(!running);
    m_workload->setEnabled(!running);
    m_defaults->setEnabled(!running);
    m_run->setText(running ? tr("Stop  F5") : tr("Run workload  F5"));
    m_keep->setEnabled(!running && changed);
    m_revert->setEnabled(!running && changed);
    m_export->setEnabled(!running && m_tuner->result().has_value());
    if (running)
        m_changes->setText(tr("Knobs of the engine are held while the workload runs."));
    else
        m_changes->setText(changed ? tr("Since before: %1").arg(liveChangeText(m_tuner->before(), m_client.config()))
                                   : tr("No knob of the engine was moved since before."));
    fitButtons();
    summarize();
}

void TunePage::summarize()
{
    const int deviations = m_engine->deviations() + m_sampling->deviations();
    if (!m_client.model())
        m_knobs->setSummary(tr("kept for the next model"));
    else if (deviations == 0)
        m_knobs->setSummary(tr("requested = effective"));
    else
        m_knobs->setSummary(tr("requested = effective, except %1").arg(format::count(deviations)));
}

void TunePage::showKnob(std::string_view key)
{
    for (const ParameterPanel *panel : {m_sampling, m_engine}) {
        if (KnobSlider *knob = panel->knob(key)) {
            m_scroll->ensureWidgetVisible(knob, 0, 120);
            knob->takeFocus(Qt::ShortcutFocusReason);
        }
    }
}

void TunePage::reset()
{
    m_client.setSampling({});
    m_settings.setSampling(m_client.sampling());
    const engine::EngineConfig defaults;
    m_client.setLimits(defaults.limits);
    m_client.setKvPool(defaults.kv);
    m_client.setThreads(defaults.threads);
    m_client.setRules(defaults);
    engine::EngineConfig config = m_client.config();
    config.maxModelLen = defaults.maxModelLen;
    config.memoryReserve = defaults.memoryReserve;
    m_client.setConfig(config);
    m_settings.setEngineConfig(m_client.config());
}

void TunePage::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    constexpr int beside = 1150; // width that leaves each of the two small cards room for its figures
    m_small->setDirection(width() >= beside ? QBoxLayout::LeftToRight : QBoxLayout::TopToBottom);
}

void TunePage::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    if (!m_watching)
        m_client.watchSteps(true);
    m_watching = true;
}

void TunePage::hideEvent(QHideEvent *event)
{
    QWidget::hideEvent(event);
    if (m_watching)
        m_client.watchSteps(false);
    m_watching = false;
}

} // namespace ui
