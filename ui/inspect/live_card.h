// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

class QMenu;
class QToolButton;

namespace ui {

/// A card of the inspector: watches the engine only while it is visible, and can be shown large.
class LiveCard : public Card {
    Q_OBJECT
public:
    LiveCard(Theme &theme, const QString &key, const QString &title, QWidget *parent = nullptr);

    /// Stable name for the settings: "throughput", "batch", "pages", "devices".
    [[nodiscard]] QString key() const { return m_key; }
    /// Shown over the whole content area: more of everything, and plots that zoom and export.
    void setExpanded(bool expanded);
    [[nodiscard]] bool isExpanded() const { return m_expanded; }
    /// The button in the header that opens the card's menu; the inspector fills the menu.
    [[nodiscard]] QToolButton *menuButton() const { return m_button; }
    /// Writes what the card shows; the default writes a picture. False with a sentence when that failed.
    virtual bool exportTo(const QString &path, QString *why);
    /// File name filters of exportTo().
    [[nodiscard]] virtual QString exportFilters() const;

signals:
    void moveRequested(int rows); ///< -1 up, 1 down; also by dragging the header
    void dragged(const QPoint &globalPosition);

protected:
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mousePressEvent(QMouseEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    /// Subscribes to or leaves the engine's topics.
    virtual void setWatching(bool on) = 0;
    virtual void expandedChanged(bool expanded);
    virtual void layoutContent();

private:
    QString m_key;
    QToolButton *m_button = nullptr;
    QPoint m_pressed;
    bool m_watching = false;
    bool m_expanded = false;
};

} // namespace ui
