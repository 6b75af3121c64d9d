// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/status_line.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/server_link.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QPainter>
#include <QTimerEvent>
#include <QUrl>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr int refreshMs = 250;

} // namespace

StatusLine::StatusLine(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : QStatusBar(parent)
    , m_theme(theme)
    , m_client(client)
    , m_history(history)
{
    setFixedHeight(30);
    setSizeGripEnabled(false);
    setAccessibleName(tr("Status"));
    const auto now = [this] { refresh(); };
    connect(&client, &EngineClient::loadStarted, this, now);
    connect(&client, &EngineClient::modelLoaded, this, now);
    connect(&client, &EngineClient::loadFailed, this, now);
    connect(&client, &EngineClient::modelUnloaded, this, now);
    connect(&client, &EngineClient::requestSubmitted, this, now);
    connect(&client, &EngineClient::requestTaken, this, now);
    connect(&client, &EngineClient::requestFinished, this, now);
    connect(&client, &EngineClient::parametersApplied, this, now);
    connect(&theme, &Theme::changed, this, qOverload<>(&QWidget::update));
    refresh();
}

void StatusLine::setServer(const ServerLink &server)
{
    m_server = &server;
    connect(&server, &ServerLink::stateChanged, this, [this] { refresh(); });
    refresh();
}

QList<QPair<QString, QString>> StatusLine::items() const
{
    QList<QPair<QString, QString>> items;
    if (m_client.isLoading())
        items.append({tr("loading"), format::modelName(m_client.loadingPath())});
    const auto &model = m_client.model();
    if (!model) {
        items.append({tr("no model"), m_client.isLoading() ? QString() : tr("Ctrl+O opens one")});
        return items;
    }
    items.append({format::modelName(QString::fromStdString(model->path)), {}});
    items.append({QString::fromStdString(model->backend),
                  tr("%1 · %2").arg(QString::fromStdString(model->isa),
                                    format::counted(model->effective.threads, tr("thread"), tr("threads")))});
    const engine::EngineTotals totals = m_client.totals();
    const int used = totals.blocksTotal - totals.blocksFree;
    items.append({tr("KV"),
                  tr("%1 of %2 pages")
                      .arg(format::percent(totals.blocksTotal > 0 ? double(used) / totals.blocksTotal : 0),
                           format::count(totals.blocksTotal))});
    const engine::StepStats *step = m_history.lastStep();
    const int active = m_client.activeRequests();
    const int running = step ? std::min(step->running, active) : 0;
    items.append({tr("running"), QStringLiteral("%1 / %2").arg(running).arg(model->effective.limits.maxNumSeqs)});
    items.append({tr("waiting"), format::count(active - running)});
    const double rate = active > 0 ? m_history.decodeRate() : 0;
    items.append({tr("decode"), tr("%1 tok/s").arg(format::count(std::llround(rate)))});
    if (m_server && !m_server->baseUrl().isEmpty())
        items.append({tr("server"), QUrl(m_server->baseUrl()).authority()});
    return items;
}

void StatusLine::refresh()
{
    if (m_client.activeRequests() > 0 && !m_timer.isActive())
        m_timer.start(refreshMs, this);
    const auto next = items();
    if (next == m_items)
        return;
    m_items = next;
    setAccessibleDescription(text());
    setToolTip(text());
    update();
}

QString StatusLine::text() const
{
    QStringList parts;
    for (const auto &[name, value] : m_items)
        parts << (value.isEmpty() ? name : name + u' ' + value);
    return parts.join(QStringLiteral(", "));
}

void StatusLine::timerEvent(QTimerEvent *event)
{
    if (event->timerId() != m_timer.timerId())
        return;
    refresh();
    if (m_client.activeRequests() == 0)
        m_timer.stop();
}

void StatusLine::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.fillRect(rect(), c.panel);
    painter.fillRect(QRect(0, 0, width(), 1), c.line);
    const QFont plain = m_theme.ui(12), medium = m_theme.ui(12, QFont::Medium);
    double x = 80;
    for (const auto &[name, value] : m_items) {
        const double nameWidth = paint::advance(plain, name) + 1;
        x += nameWidth + 6;
        // Figures keep a little room, so that a changing digit does not move its neighbours.
        const double valueWidth = std::ceil(paint::advance(medium, value) / 8) * 8;
        if (x + valueWidth > width() - 12) {
            paint::text(painter, {x - nameWidth - 6, 1, 24, 29}, QStringLiteral("…"), plain, c.muted);
            break; // half a figure would be a wrong one; the tool tip has all of them
        }
        paint::text(painter, {x - nameWidth - 6, 1, nameWidth, 29}, name, plain, c.muted);
        paint::text(painter, {x, 1, valueWidth, 29}, value, medium, c.text);
        x += valueWidth + (value.isEmpty() ? 18 : 24);
    }
}

} // namespace ui
