// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QBasicTimer>
#include <QList>
#include <QPair>
#include <QStatusBar>
#include <QString>

namespace ui {

class EngineClient;
class ServerLink;
class StatsHistory;

/// The one line at the foot that is always true: model, backend, requests, KV pages in use, tokens per second.
///
/// Refreshed on events at once, and four times a second while something runs.
class StatusLine : public QStatusBar {
    Q_OBJECT
public:
    StatusLine(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {800, 30}; }
    /// The line as plain text, also its accessible description.
    [[nodiscard]] QString text() const;
    void refresh();
    /// From now on the line also says where the server listens.
    void setServer(const ServerLink &server);

protected:
    void paintEvent(QPaintEvent *event) override;
    void timerEvent(QTimerEvent *event) override;

private:
    [[nodiscard]] QList<QPair<QString, QString>> items() const;

    Theme &m_theme;
    EngineClient &m_client;
    StatsHistory &m_history;
    const ServerLink *m_server = nullptr;
    QList<QPair<QString, QString>> m_items; ///< muted name, value
    QBasicTimer m_timer;
};

} // namespace ui
