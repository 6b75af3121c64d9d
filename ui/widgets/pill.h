// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QAbstractButton>

namespace ui {

/// A small rounded button with a short text: a choice when checkable, else an action or a mere label.
class Pill : public QAbstractButton {
    Q_OBJECT
public:
    Pill(Theme &theme, const QString &text, QWidget *parent = nullptr);
    /// A label takes no focus and no clicks.
    void setLabelOnly(bool on);
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    Theme &m_theme;
    bool m_labelOnly = false;
};

} // namespace ui
