// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/server/requests_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/stats_history.h"
#include "ui/widgets/paint.h"

#include <QPainter>

#include <algorithm>

namespace ui {

namespace {

constexpr double rowHeight = 24;
constexpr double numberWidth = 62;

QString stateText(const RequestSpan &request)
{
    QStringList parts;
    if (request.finished)
        parts << RequestsCard::tr("ended: %1").arg(request.reason);
    else if (request.outputTokens > 0)
        parts << RequestsCard::tr("decode");
    else
        parts << (request.lastStep > 0 ? RequestsCard::tr("prefill") : RequestsCard::tr("queued"));
    parts << (request.cachedTokens() > 0
                  ? RequestsCard::tr("prompt %1 (%2 cached)")
                        .arg(format::count(request.promptTokens), format::count(request.cachedTokens()))
                  : RequestsCard::tr("prompt %1").arg(format::count(request.promptTokens)));
    parts << format::counted(request.outputTokens, RequestsCard::tr("token"), RequestsCard::tr("tokens"));
    return parts.join(QStringLiteral(" · "));
}

} // namespace

RequestsCard::RequestsCard(Theme &theme, EngineClient &client, StatsHistory &history, QWidget *parent)
    : Card(theme, tr("Requests of clients"), parent)
    , m_client(client)
    , m_history(history)
{
    setToolTip(tr("They run in one batch with the chats of this window, under the same limits"));
    connect(&history, &StatsHistory::changed, this, [this] {
        if (isVisible())
            refresh();
    });
    refresh();
}

void RequestsCard::refresh()
{
    int open = 0, all = 0;
    for (const RequestSpan &request : m_history.requests()) {
        all += request.guest ? 1 : 0;
        open += request.guest && !request.finished ? 1 : 0;
    }
    setSummary(all == 0 ? QString() : tr("%1 of the last %2 still run").arg(format::count(open), format::count(all)));
    scheduleUpdate();
}

void RequestsCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    const auto &requests = m_history.requests();
    const double nameWidth = std::clamp(rect.width() * .3, 80.0, 220.0);
    double y = rect.y();
    for (auto it = requests.rbegin(); it != requests.rend() && y + rowHeight <= rect.bottom() + 2; ++it) {
        if (!it->guest)
            continue;
        paint::dot(painter, {rect.x() + 6, y + 10}, Theme::series(m_client.seriesOf(it->id)), 3.5);
        paint::text(painter, {rect.x() + 16, y, numberWidth - 20, 20}, QStringLiteral("#%1").arg(it->id),
                    theme().mono(12), c.muted);
        paint::text(painter, {rect.x() + numberWidth, y, nameWidth - 8, 20}, it->client, theme().ui(12.5), c.text);
        const double x = rect.x() + numberWidth + nameWidth;
        paint::text(painter, {x, y, rect.right() - x, 20}, stateText(*it), theme().ui(12), c.muted);
        y += rowHeight;
    }
    if (y == rect.y())
        paint::empty(painter, theme(), rect, tr("A line appears for every request of a client"),
                     tr("Start the server and point a program at its address"));
}

} // namespace ui
