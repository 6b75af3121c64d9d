// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QLabel>

namespace ui {

/// One line of plain text at the left, ended by "…" where it does not fit; the full text is its tool tip.
class ElidedLabel final : public QLabel {
public:
    explicit ElidedLabel(QWidget *parent = nullptr);
    [[nodiscard]] QSize minimumSizeHint() const override;
    /// What is on the screen.
    [[nodiscard]] QString shownText() const;

protected:
    void paintEvent(QPaintEvent *event) override;
};

} // namespace ui
