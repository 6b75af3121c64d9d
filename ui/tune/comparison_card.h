// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/widgets/card.h"

#include <QDateTime>

class QLabel;
class QScrollArea;

namespace ui {

struct Comparison;
class ComparisonTable;
class Tuner;

/// What the tuner is doing, and the last comparison: its conclusion in words, its figures as a table.
class ComparisonCard : public Card {
    Q_OBJECT
public:
    ComparisonCard(Theme &theme, Tuner &tuner, QWidget *parent = nullptr);

    /// The sentence above the table: progress, a fault, or the conclusion.
    [[nodiscard]] QString statusText() const;
    [[nodiscard]] ComparisonTable *table() const { return m_table; }

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;

private:
    void refresh();
    void refreshFonts();
    void showRunning();
    void showResult(const Comparison &result);
    void showNothing();
    [[nodiscard]] static QString subjectOf(const Comparison &comparison);
    void showStatus(const QString &text, const char *tone);

    Tuner &m_tuner;
    QLabel *m_status = nullptr;
    QLabel *m_change = nullptr; ///< what the table compares
    QLabel *m_notes = nullptr;
    ComparisonTable *m_table = nullptr;
    QScrollArea *m_scroll = nullptr;
    QDateTime m_shown; ///< when the comparison in the table was begun
};

} // namespace ui
