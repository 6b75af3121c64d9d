// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/request_spans.h"
#include "ui/widgets/card.h"

namespace ui {

class EngineClient;
class StatsHistory;

/// The last requests over time: queued, prefill, decode, preempted, computed again and paused parts, what came from the
/// prefix cache, and the changes of knobs as markers. All of it as the engine's steps told.
///
/// The pointer or the arrow keys choose a part, which is said in words below: up and down go from request to request,
/// left and right from part to part.
class TimelineCard : public Card {
    Q_OBJECT
public:
    TimelineCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);

    /// The chosen part in words; without one, what the card holds.
    [[nodiscard]] QString readout() const;
    /// The name of a phase, as the legend has it.
    [[nodiscard]] static QString phaseName(RequestSpan::Phase phase);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void timerEvent(QTimerEvent *event) override;
    void showEvent(QShowEvent *event) override;
    void hideEvent(QHideEvent *event) override;
    void keyPressEvent(QKeyEvent *event) override;
    void mouseMoveEvent(QMouseEvent *event) override;
    void leaveEvent(QEvent *event) override;
    void focusOutEvent(QFocusEvent *event) override;

private:
    /// What is shown where.
    struct Frame {
        QRectF plot;
        std::size_t first = 0; ///< request of the first row
        std::size_t rows = 0;
        double start = 0;
        double span = 1;
        [[nodiscard]] double x(double time) const;
        [[nodiscard]] double y(std::size_t request) const;
    };
    [[nodiscard]] Frame frameIn(const QRectF &rect) const;
    [[nodiscard]] double paintLegend(QPainter *painter, const QRectF &rect) const;
    void paintRequest(QPainter &painter, const Frame &frame, std::size_t index) const;
    void paintSegment(QPainter &painter, const QRectF &bar, RequestSpan::Phase phase) const;
    [[nodiscard]] const RequestSpan *chosen() const;
    void choose(quint64 request, int part);
    void step(int requests);
    void refresh();

    EngineClient &m_client;
    StatsHistory &m_history;
    QBasicTimer m_scroll;
    quint64 m_request = 0; ///< chosen, 0 = none
    int m_part = -1;       ///< of its segments; -1 = the whole request
};

} // namespace ui
