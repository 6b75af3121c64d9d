// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QHash>
#include <QImage>
#include <QList>
#include <QWidget>

namespace ui {

/// A map of many small cells: one state each, stamped from a sprite into an image, so that only changed cells cost.
///
/// Colour never speaks alone: shared cells have a dot, cached ones only an outline, free ones the surface colour;
/// a bar along the foot marks those that are also in layers which keep only a window.
class PageMap : public QWidget {
    Q_OBJECT
public:
    /// Low byte: series of the owner; the flags change how the cell looks.
    enum Flag : quint16 { Shared = 0x100, Cached = 0x200, Free = 0x400, InWindow = 0x800 };

    explicit PageMap(Theme &theme, QWidget *parent = nullptr);

    /// Replaces all states; cells that stay are not stamped again. Returns how many changed.
    int setCells(const QList<quint16> &cells);
    [[nodiscard]] qsizetype cellCount() const { return m_cells.size(); }
    [[nodiscard]] quint16 cell(int index) const { return m_cells[index]; }
    /// The cell under a point of the widget, or -1.
    [[nodiscard]] int cellAt(const QPointF &point) const;
    /// The visible square of a cell.
    [[nodiscard]] QRectF cellRect(int index) const;
    /// Side of a cell with its gap, in pixels.
    [[nodiscard]] double pitch() const { return m_pitch; }
    /// Height at which all cells fit into `width` with squares of at least `pitch`; less when all fit into `least`.
    [[nodiscard]] int heightFor(int width, int least, double pitch) const;
    /// The largest pitch used when there is room.
    void setMaximumPitch(double pitch);
    /// Draws one cell of the given state; legends use it.
    static void paintCell(QPainter &painter, const Theme &theme, const QRectF &rect, quint16 state);
    [[nodiscard]] int currentCell() const { return m_current; }

signals:
    /// The pointer or the arrow keys went to a cell; -1 when they left.
    void currentChanged(int index);

protected:
    void paintEvent(QPaintEvent *event) override;
    void resizeEvent(QResizeEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void leaveEvent(QEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;

private:
    void rebuild();
    void stamp(int index);
    void setCurrent(int index);
    [[nodiscard]] QImage sprite(quint16 state) const;
    [[nodiscard]] double gap() const;

    Theme &m_theme;
    QList<quint16> m_cells;
    QHash<quint16, QImage> m_sprites;
    QImage m_image;
    int m_columns = 1;
    int m_current = -1;
    double m_pitch = 11;
    double m_maximumPitch = 11;
};

} // namespace ui
