// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/inspector.h"

#include "ui/inspect/batch_card.h"
#include "ui/inspect/devices_card.h"
#include "ui/inspect/latency_card.h"
#include "ui/inspect/pages_card.h"
#include "ui/inspect/throughput_card.h"
#include "ui/settings.h"

#include <QAction>
#include <QBoxLayout>
#include <QMenu>
#include <QPainter>
#include <QScrollArea>
#include <QToolButton>

#include <algorithm>

namespace ui {

Inspector::Inspector(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_settings(settings)
    , m_scroll(new QScrollArea(this))
    , m_column(new QWidget)
{
    setAccessibleName(tr("Inspector"));
    setMinimumWidth(380);
    m_layout = new QVBoxLayout(m_column);
    m_layout->setContentsMargins(2, 14, 8, 12);
    m_layout->setSpacing(12);
    m_scroll->setWidget(m_column);
    m_scroll->setWidgetResizable(true);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setFocusPolicy(Qt::NoFocus);
    m_column->setAutoFillBackground(false);
    m_scroll->viewport()->setAutoFillBackground(false);
    auto *outer = new QVBoxLayout(this);
    outer->setContentsMargins(8, 0, 4, 0);
    outer->addWidget(m_scroll);
    addCard(new ThroughputCard(theme, client, history, this));
    addCard(new BatchCard(theme, client, history, this));
    addCard(new PagesCard(theme, client, this));
    addCard(new DevicesCard(theme, client, this));
    addCard(new LatencyCard(theme, client, history, this));
    restore();
    rebuild();
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void Inspector::addCard(LiveCard *card)
{
    m_cards.append(card);
    auto *shown = new QAction(card->title(), this);
    shown->setCheckable(true);
    shown->setChecked(true);
    m_shown.insert(card, shown);
    connect(shown, &QAction::toggled, this, [this, card](bool on) { setCardShown(card, on); });
    connect(card, &Card::enlargeRequested, this, [this, card] { emit enlargeRequested(card); });
    connect(card, &LiveCard::moveRequested, this, [this, card](int rows) { moveCard(card, rows); });
    connect(card, &LiveCard::dragged, this, [this, card](const QPoint &at) { dragCard(card, at); });
    fillMenu(card);
}

void Inspector::fillMenu(LiveCard *card)
{
    auto *menu = new QMenu(card->menuButton());
    menu->addAction(tr("Enlarge"), this, [this, card] { emit enlargeRequested(card); });
    menu->addAction(tr("Tear off"), this, [this, card] { emit tearOffRequested(card); });
    menu->addSeparator();
    menu->addAction(tr("Move up\tAlt+Up"), this, [this, card] { moveCard(card, -1); });
    menu->addAction(tr("Move down\tAlt+Down"), this, [this, card] { moveCard(card, 1); });
    menu->addSeparator();
    menu->addAction(tr("Hide"), this, [this, card] { m_shown[card]->setChecked(false); });
    card->menuButton()->setMenu(menu);
}

LiveCard *Inspector::card(const QString &key) const
{
    const auto it = std::find_if(m_cards.begin(), m_cards.end(), [&](const LiveCard *c) { return c->key() == key; });
    return it == m_cards.end() ? nullptr : *it;
}

void Inspector::moveCard(LiveCard *card, int rows)
{
    const auto from = m_cards.indexOf(card);
    const auto to = std::clamp<qsizetype>(from + rows, 0, m_cards.size() - 1);
    if (from == to)
        return;
    m_cards.move(from, to);
    rebuild();
    save();
    card->setFocus();
}

// The dragged card changes places with a neighbour as soon as the pointer is beyond the neighbour's middle.
void Inspector::dragCard(LiveCard *card, const QPoint &globalPosition)
{
    if (m_lent.contains(card))
        return;
    const int y = m_column->mapFromGlobal(globalPosition).y();
    const auto index = m_cards.indexOf(card);
    if (index > 0 && y < m_cards[index - 1]->geometry().center().y())
        moveCard(card, -1);
    else if (index + 1 < m_cards.size() && y > m_cards[index + 1]->geometry().center().y())
        moveCard(card, 1);
}

void Inspector::setCardShown(LiveCard *card, bool shown)
{
    m_shown[card]->setChecked(shown);
    rebuild();
    save();
}

bool Inspector::isCardShown(LiveCard *card) const
{
    return m_shown[card]->isChecked();
}

void Inspector::lend(LiveCard *card)
{
    if (!m_lent.contains(card))
        m_lent.append(card);
    m_layout->removeWidget(card);
    rebuild();
}

void Inspector::giveBack(LiveCard *card)
{
    m_lent.removeAll(card);
    card->setExpanded(false);
    rebuild();
}

QList<QAction *> Inspector::cardActions() const
{
    QList<QAction *> actions;
    for (LiveCard *card : m_cards)
        actions.append(m_shown[card]);
    return actions;
}

void Inspector::rebuild()
{
    while (QLayoutItem *item = m_layout->takeAt(0))
        delete item;
    QWidget *before = nullptr;
    for (LiveCard *card : m_cards) {
        if (m_lent.contains(card))
            continue;
        card->setParent(m_column);
        const bool shown = m_shown[card]->isChecked();
        card->setVisible(shown);
        if (!shown)
            continue;
        const bool grows = card->key() == QLatin1String("pages");
        card->setMinimumHeight(grows ? 158 : card->sizeHint().height());
        card->setMaximumHeight(grows ? QWIDGETSIZE_MAX : card->sizeHint().height());
        m_layout->addWidget(card, grows ? 1 : 0);
        if (before)
            QWidget::setTabOrder(before, card);
        before = card;
    }
    m_layout->addStretch(0);
}

void Inspector::restore()
{
    const QStringList order = m_settings.value(QStringLiteral("inspector/order")).toStringList();
    std::stable_sort(m_cards.begin(), m_cards.end(), [&](const LiveCard *a, const LiveCard *b) {
        const auto rank = [&](const LiveCard *c) {
            const auto at = order.indexOf(c->key());
            return at < 0 ? order.size() : at;
        };
        return rank(a) < rank(b);
    });
    const QStringList hidden = m_settings.value(QStringLiteral("inspector/hidden")).toStringList();
    for (LiveCard *card : m_cards) {
        const QSignalBlocker blocker(m_shown[card]);
        m_shown[card]->setChecked(!hidden.contains(card->key()));
    }
}

void Inspector::save() const
{
    QStringList order, hidden;
    for (LiveCard *card : m_cards) {
        order << card->key();
        if (!m_shown[card]->isChecked())
            hidden << card->key();
    }
    m_settings.setValue(QStringLiteral("inspector/order"), order);
    m_settings.setValue(QStringLiteral("inspector/hidden"), hidden);
}

void Inspector::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.fillRect(rect(), m_theme.tokens().bg);
}

} // namespace ui
