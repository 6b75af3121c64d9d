// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

namespace ui {

class EngineClient;

/// What the loaded model is: key figures, memory by part, and where it runs, as it is in force.
class ModelCard : public Card {
    Q_OBJECT
public:
    ModelCard(Theme &theme, EngineClient &client, QWidget *parent = nullptr);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;

private:
    void refresh();
    void paintMemory(QPainter &painter, const QRectF &rect) const;

    EngineClient &m_client;
};

} // namespace ui
