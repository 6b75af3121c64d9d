// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/devices/devices_page.h"

#include "ui/devices/device_card.h"
#include "ui/engine_client.h"
#include "ui/widgets/page_title.h"

#include <QBoxLayout>
#include <QScrollArea>

namespace ui {

DevicesPage::DevicesPage(Theme &theme, EngineClient &client, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_client(client)
{
    auto *inside = new QWidget;
    m_column = new QVBoxLayout(inside);
    m_column->setContentsMargins(0, 0, 6, 0);
    m_column->setSpacing(12);
    m_column->addStretch();
    auto *scroll = new QScrollArea;
    scroll->setWidget(inside);
    scroll->setWidgetResizable(true);
    scroll->setAccessibleName(tr("Devices"));
    scroll->viewport()->setAutoFillBackground(false);
    inside->setAutoFillBackground(false);
    auto *outer = new QVBoxLayout(this);
    outer->setContentsMargins(16, 0, 10, 14);
    outer->setSpacing(0);
    outer->addWidget(
        new PageTitle(theme, tr("Devices"), tr("sensors of this machine, read while this page or the card is open")));
    outer->addWidget(scroll, 1);
    connect(&client, &EngineClient::devicesRead, this, &DevicesPage::take);
}

void DevicesPage::showEvent(QShowEvent *event)
{
    QWidget::showEvent(event);
    if (!m_watching)
        m_client.watchDevices(true);
    m_watching = true;
}

void DevicesPage::hideEvent(QHideEvent *event)
{
    QWidget::hideEvent(event);
    if (m_watching)
        m_client.watchDevices(false);
    m_watching = false;
}

void DevicesPage::take(const std::shared_ptr<const std::vector<engine::DeviceStats>> &devices)
{
    if (!devices)
        return;
    const auto count = qsizetype(devices->size());
    while (m_cards.size() < count) {
        m_cards.append(new DeviceCard(m_theme));
        m_column->insertWidget(m_column->count() - 1, m_cards.constLast());
    }
    while (m_cards.size() > count)
        delete m_cards.takeLast();
    for (qsizetype i = 0; i < count; ++i)
        m_cards[i]->setStats((*devices)[std::size_t(i)]);
}

} // namespace ui
