// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/tune_page.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/settings.h"
#include "ui/tune/gap_card.h"
#include "ui/tune/parameter_panel.h"
#include "ui/tune/rate_card.h"
#include "ui/tune/timeline_card.h"
#include "ui/widgets/knob_slider.h"
#include "ui/widgets/page_title.h"

#include <QBoxLayout>
#include <QLabel>
#include <QPushButton>
#include <QScrollArea>

namespace ui {

namespace {

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
{
    auto *row = new QHBoxLayout;
    row->setSpacing(16);
    row->addWidget(createKnobs());
    row->addWidget(createCharts(), 1);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(16, 0, 16, 14);
    column->setSpacing(0);
    column->addWidget(new PageTitle(theme, tr("Tune"), tr("change a knob while chats run and watch what it does")));
    column->addLayout(row, 1);
    connect(m_sampling, &ParameterPanel::refreshed, this, &TunePage::summarize);
    connect(m_engine, &ParameterPanel::refreshed, this, &TunePage::summarize);
    summarize();
}

QWidget *TunePage::createKnobs()
{
    auto *inside = new QWidget;
    auto *column = new QVBoxLayout(inside);
    column->setContentsMargins(6, 0, 8, 0);
    column->setSpacing(4);
    column->addWidget(groupLabel(m_theme, tr("ENGINE")));
    column->addWidget(m_engine);
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
    auto *defaults = new QPushButton(tr("Defaults"));
    defaults->setToolTip(tr("Set every knob to its default"));
    connect(defaults, &QPushButton::clicked, this, &TunePage::reset);

    m_knobs = new Card(m_theme, tr("Knobs"));
    m_knobs->setFocusPolicy(Qt::NoFocus);
    m_knobs->setFixedWidth(400);
    auto *layout = new QVBoxLayout(m_knobs);
    layout->setContentsMargins(8, Card::headerHeight, 4, 12);
    layout->addWidget(scroll, 1);
    auto *buttons = new QHBoxLayout;
    buttons->setContentsMargins(10, 0, 14, 0);
    buttons->addWidget(defaults);
    buttons->addStretch();
    layout->addLayout(buttons);
    return m_knobs;
}

QWidget *TunePage::createCharts()
{
    auto *charts = new QWidget;
    auto *column = new QVBoxLayout(charts);
    column->setContentsMargins(0, 0, 0, 0);
    column->setSpacing(12);
    column->addWidget(new RateCard(m_theme, m_history), 5);
    column->addWidget(new TimelineCard(m_theme, m_client, m_history), 5);
    column->addWidget(new GapCard(m_theme, m_history), 4);
    return charts;
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
