// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QList>
#include <QString>
#include <QWidget>

#include <vector>

class QCustomPlot;
class QLabel;

namespace ui {

/// A plot for reading values: wheel zooms, dragging pans, a double click follows again, hover shows the values,
/// and it can be exported. Follows its data until the user zooms. Replots are queued, at most ten a second.
class Plot : public QWidget {
    Q_OBJECT
public:
    Plot(Theme &theme, const QString &name, const QString &xLabel, const QString &yLabel, QWidget *parent = nullptr);
    ~Plot() override;

    /// Adds a line in the colour of `seriesIndex`; returns its number. `unit` is shown with hovered values.
    int addLine(const QString &name, int seriesIndex, const QString &unit, bool fill = false);
    /// \pre x and y have one size, x ascends
    void setData(int line, const std::vector<double> &x, const std::vector<double> &y);
    struct Marker {
        double x;
        QString text;
        bool notice = false; ///< in the colour of warnings
    };
    void setMarkers(const QList<Marker> &markers);
    /// Ticks of the y axis at whole numbers only, for counts.
    void setWholeNumbers();
    /// The x range shown while the plot follows.
    void setFollowRange(double from, double to);
    [[nodiscard]] bool follows() const { return m_follows; }
    void follow();
    /// Writes a .png, .pdf or .csv file; false, with a sentence, when that failed.
    bool exportTo(const QString &path, QString *why) const;
    /// The values at x, one "name value unit" a line; empty without data.
    [[nodiscard]] QString valuesAt(double x) const;

protected:
    void timerEvent(QTimerEvent *event) override;
    bool eventFilter(QObject *watched, QEvent *event) override;
    void showEvent(QShowEvent *event) override;

private:
    struct LineInfo {
        QString name;
        QString unit;
        int series;
        bool fill;
    };
    void applyTheme();
    void replotSoon();
    void showValues(const QPointF &at);
    [[nodiscard]] QString csv() const;

    Theme &m_theme;
    QCustomPlot *m_plot = nullptr;
    QLabel *m_values = nullptr;
    QList<LineInfo> m_lines;
    QList<Marker> m_markers;
    int m_timer = 0;
    double m_from = 0;
    double m_to = 1;
    bool m_follows = true;
};

} // namespace ui
