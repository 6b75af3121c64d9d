// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/server/server_page.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/server/requests_card.h"
#include "ui/server_link.h"
#include "ui/settings.h"
#include "ui/widgets/card.h"
#include "ui/widgets/page_title.h"

#include <QApplication>
#include <QBoxLayout>
#include <QCheckBox>
#include <QClipboard>
#include <QFocusEvent>
#include <QGridLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStyle>

namespace ui {

using Phase = ServerState::Phase;

namespace {

constexpr int mostPort = 65535;
constexpr int narrowWidth = 900; // below it the cards stand one above the other
const QString portSetting = QStringLiteral("server/port"), keySetting = QStringLiteral("server/withKey");

QLabel *rowLabel(const QString &text, QWidget *buddy)
{
    auto *label = new QLabel(text);
    label->setProperty("tone", QStringLiteral("muted"));
    label->setBuddy(buddy);
    return label;
}

} // namespace

ServerPage::ServerPage(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings,
                       ServerLink &server, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_client(client)
    , m_settings(settings)
    , m_server(server)
{
    createLayout(client, history);
    connect(m_toggle, &QPushButton::clicked, this, &ServerPage::startOrStop);
    connect(m_port, &QSpinBox::valueChanged, this, [this](int port) { m_settings.setValue(portSetting, port); });
    connect(m_withKey, &QCheckBox::toggled, this, [this](bool on) { m_settings.setValue(keySetting, on); });
    connect(&server, &ServerLink::stateChanged, this, &ServerPage::refresh);
    refresh();
}

void ServerPage::createLayout(EngineClient &client, StatsHistory &history)
{
    m_row = new QBoxLayout(QBoxLayout::LeftToRight);
    m_row->setSpacing(12);
    m_row->addWidget(createCard(), 5);
    m_row->addWidget(new RequestsCard(m_theme, client, history), 6);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(16, 0, 16, 14);
    column->setSpacing(0);
    column->addWidget(
        new PageTitle(m_theme, tr("Server"), tr("answers programs on this machine that speak the OpenAI protocol")));
    column->addLayout(m_row, 1);
}

QWidget *ServerPage::createCard()
{
    m_card = new Card(m_theme, tr("OpenAI-compatible server"));
    m_card->setFocusPolicy(Qt::NoFocus);
    m_status = new QLabel;
    m_status->setTextFormat(Qt::PlainText);
    m_status->setWordWrap(true);
    m_status->setTextInteractionFlags(Qt::TextSelectableByMouse);
    m_toggle = new QPushButton;
    m_port = new QSpinBox;
    m_port->setRange(0, mostPort);
    m_port->setButtonSymbols(QAbstractSpinBox::NoButtons); // typed, seldom stepped; arrow keys and the wheel step
    m_port->setFrame(false);
    m_port->setMinimumWidth(110);
    m_port->setSpecialValueText(tr("any free one"));
    m_port->setValue(m_settings.value(portSetting, ServerWish().port).toInt());
    m_port->setAccessibleName(tr("Port"));
    m_port->setToolTip(tr("Where the server listens; 0 takes any free port"));
    m_withKey = new QCheckBox(tr("Clients must give the API key"));
    m_withKey->setChecked(m_settings.value(keySetting, true).toBool());
    m_withKey->setToolTip(tr("Without it every program and user of this machine may ask"));
    auto *grid = new QGridLayout;
    grid->setHorizontalSpacing(12);
    grid->setVerticalSpacing(8);
    grid->setColumnStretch(1, 1);
    grid->addWidget(rowLabel(tr("Port"), m_port), 0, 0);
    grid->addWidget(m_port, 0, 1, Qt::AlignLeft);
    grid->addWidget(m_withKey, 1, 1, 1, 2);
    m_address = addCopied(grid, 2, tr("Address"));
    m_key = addCopied(grid, 3, tr("API key"));
    m_model = addCopied(grid, 4, tr("Model"));
    auto *hint = new QLabel(tr("Only this machine can reach it. Closing the window stops it."));
    hint->setProperty("tone", QStringLiteral("quiet"));
    hint->setWordWrap(true);
    auto *buttons = new QHBoxLayout;
    buttons->addWidget(m_toggle);
    buttons->addStretch();
    auto *column = new QVBoxLayout(m_card);
    column->setContentsMargins(Card::padding, Card::headerHeight + 4, Card::padding, Card::padding);
    column->setSpacing(14);
    column->addWidget(m_status);
    column->addLayout(grid);
    column->addLayout(buttons);
    column->addWidget(hint);
    column->addStretch();
    return m_card;
}

QLineEdit *ServerPage::addCopied(QGridLayout *grid, int row, const QString &name)
{
    auto *edit = new QLineEdit;
    edit->setReadOnly(true);
    edit->setAccessibleName(name);
    edit->setFont(m_theme.mono(12.5));
    edit->setPlaceholderText(tr("while the server runs"));
    auto *copy = new QPushButton(tr("Copy"));
    copy->setAccessibleName(tr("Copy: %1").arg(name));
    copy->setEnabled(false);
    connect(edit, &QLineEdit::textChanged, copy, [copy](const QString &text) { copy->setEnabled(!text.isEmpty()); });
    connect(copy, &QPushButton::clicked, edit, [edit] { QApplication::clipboard()->setText(edit->text()); });
    grid->addWidget(rowLabel(name, edit), row, 0);
    grid->addWidget(edit, row, 1);
    grid->addWidget(copy, row, 2);
    return edit;
}

void ServerPage::startOrStop()
{
    if (m_server.isOn())
        m_server.stop();
    else
        m_server.start({m_port->value(), m_withKey->isChecked()});
}

void ServerPage::refresh()
{
    const ServerState &state = m_server.state();
    const bool on = m_server.isOn(), runs = state.phase == Phase::Running;
    m_status->setText(m_server.sentence());
    const bool bad = state.phase == Phase::Failed, warns = runs && !state.problem.empty();
    m_status->setProperty("tone",
                          bad         ? QStringLiteral("bad")
                              : warns ? QStringLiteral("warn")
                              : runs  ? QStringLiteral("ok")
                                      : QStringLiteral("muted"));
    m_status->style()->unpolish(m_status);
    m_status->style()->polish(m_status);
    m_toggle->setText(on ? tr("Stop") : tr("Start"));
    m_toggle->setEnabled(state.phase != Phase::Stopping);
    m_toggle->setProperty("primary", !on);
    m_toggle->style()->unpolish(m_toggle);
    m_toggle->style()->polish(m_toggle);
    m_port->setEnabled(!on);
    m_withKey->setEnabled(!on);
    m_address->setText(m_server.baseUrl());
    m_key->setText(QString::fromStdString(state.apiKey));
    m_key->setPlaceholderText(runs ? tr("none is asked for") : tr("while the server runs"));
    m_model->setText(QString::fromStdString(state.model));
    for (QLineEdit *edit : {m_address, m_key, m_model})
        edit->setCursorPosition(0);
    m_card->setSummary(runs     ? format::counted(state.connections, tr("connection"), tr("connections"))
                           : on ? tr("starting")
                                : tr("off"));
}

void ServerPage::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    if (!m_watching)
        m_client.watchSteps(true);
    m_watching = true;
}

void ServerPage::hideEvent(QHideEvent *event)
{
    QWidget::hideEvent(event);
    if (m_watching)
        m_client.watchSteps(false);
    m_watching = false;
}

void ServerPage::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    m_row->setDirection(width() < narrowWidth ? QBoxLayout::TopToBottom : QBoxLayout::LeftToRight);
}

void ServerPage::focusInEvent(QFocusEvent *event)
{
    QWidget::focusInEvent(event);
    m_toggle->setFocus(event->reason());
}

} // namespace ui
