// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "ui/theme.h"

#include <QList>
#include <QWidget>

#include <memory>
#include <vector>

class QVBoxLayout;

namespace ui {

class DeviceCard;
class EngineClient;

/// Every device of the machine with its sensors over the last minutes. Watches them only while shown.
class DevicesPage : public QWidget {
    Q_OBJECT
public:
    DevicesPage(Theme &theme, EngineClient &client, QWidget *parent = nullptr);
    [[nodiscard]] const QList<DeviceCard *> &cards() const { return m_cards; }

protected:
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;

private:
    void take(const std::shared_ptr<const std::vector<engine::DeviceStats>> &devices);

    Theme &m_theme;
    EngineClient &m_client;
    QVBoxLayout *m_column = nullptr;
    QList<DeviceCard *> m_cards;
    bool m_watching = false;
};

} // namespace ui
