// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

namespace ui {

class Theme;

/// How much of the context a chat uses: a figure and a thin bar. Amber from 85 %, as the end then is near.
class ContextMeter final : public QWidget {
    Q_OBJECT

public:
    explicit ContextMeter(const Theme &theme, QWidget *parent = nullptr);
    /// `total` 0: no model is loaded, nothing is shown.
    static constexpr int unknown = -1; ///< tokens of a chat whose length was never counted
    void setTokens(int used, int total);
    [[nodiscard]] int used() const { return m_used; }
    [[nodiscard]] int total() const { return m_total; }
    [[nodiscard]] QSize sizeHint() const override { return {206, 30}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {120, 30}; }

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    const Theme &m_theme;
    int m_used = 0;
    int m_total = 0;
};

} // namespace ui
