// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QWidget>

class QLabel;
class QVBoxLayout;

namespace ui {

class LiveCard;

/// One live card over the whole content area, with a way back and an export.
class EnlargedView : public QWidget {
    Q_OBJECT
public:
    explicit EnlargedView(Theme &theme, QWidget *parent = nullptr);
    /// Shows the card, which the caller has taken from the inspector; null shows nothing.
    void setCard(LiveCard *card);
    [[nodiscard]] LiveCard *card() const { return m_card; }

signals:
    void closed();

private:
    void exportCard();

    QVBoxLayout *m_layout = nullptr;
    QLabel *m_fault = nullptr;
    LiveCard *m_card = nullptr;
};

} // namespace ui
