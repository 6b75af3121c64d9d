// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QBasicTimer>
#include <QElapsedTimer>
#include <QWidget>

namespace ui {

/// A framed surface: title at the left, the one figure that sums it up at the right, content below.
///
/// A subclass either paints its content in paintContent() or puts widgets into contentRect(). Repaints asked for by
/// scheduleUpdate() are at most 30 a second and none while hidden.
class Card : public QWidget {
    Q_OBJECT
public:
    Card(Theme &theme, const QString &title, QWidget *parent = nullptr);

    [[nodiscard]] QString title() const { return m_title; }
    void setTitle(const QString &title);
    /// The figure at the right; also the accessible description.
    void setSummary(const QString &summary);
    [[nodiscard]] QString summary() const { return m_summary; }
    /// Where content goes, inside the padding and below the title.
    [[nodiscard]] QRectF contentRect() const;
    /// Repaints within the next frame of 33 ms.
    void scheduleUpdate();
    /// Paints so far; tests check the repaint limit with it.
    [[nodiscard]] int paintCount() const { return m_paints; }
    /// Room kept free at the right of the title, for a button there.
    void setHeaderReserve(int pixels);

    static constexpr int padding = 14;
    static constexpr int headerHeight = 36;

signals:
    /// Double click, or Enter while focused: the inspector shows it over the whole content area.
    void enlargeRequested();

protected:
    void paintEvent(QPaintEvent *event) override;
    void timerEvent(QTimerEvent *event) override;
    void showEvent(QShowEvent *event) override;
    void mouseDoubleClickEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    virtual void paintContent(QPainter &painter, const QRectF &rect);
    [[nodiscard]] Theme &theme() const { return m_theme; }

private:
    Theme &m_theme;
    QString m_title;
    QString m_summary;
    QBasicTimer m_frame;
    QElapsedTimer m_sincePaint;
    int m_reserve = 0;
    int m_paints = 0;
};

} // namespace ui
