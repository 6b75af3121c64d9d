// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/pages_card.h"

#include "ui/engine_client.h"
#include "ui/format.h"
#include "ui/widgets/page_map.h"
#include "ui/widgets/paint.h"

#include <QPainter>
#include <QScrollArea>
#include <QTimer>

#include <algorithm>

namespace ui {

namespace {

constexpr int hoverMs = 120; // a pointer that passes over asks the engine nothing
constexpr double pagesFoot = 42;
constexpr double mapPitch = 14, largePitch = 44;
constexpr double leastPitch = 8, leastLargePitch = 7; // smaller squares show neither dot nor outline
constexpr int scrollBarWidth = 12;

} // namespace

PagesCard::PagesCard(Theme &theme, EngineClient &client, QWidget *parent)
    : LiveCard(theme, QStringLiteral("pages"), tr("KV pages"), parent)
    , m_client(client)
    , m_map(new PageMap(theme))
    , m_scroll(new QScrollArea(this))
    , m_hover(new QTimer(this))
{
    setToolTip(tr(
        "The cache of keys and values, cut into blocks as memory into pages; requests that begin alike share blocks."));
    m_map->setMaximumPitch(mapPitch);
    m_scroll->setWidget(m_map);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setFocusPolicy(Qt::NoFocus);
    m_scroll->viewport()->setAutoFillBackground(false);
    m_scroll->hide();
    m_hover->setSingleShot(true);
    m_hover->setInterval(hoverMs);
    connect(m_hover, &QTimer::timeout, this, [this] { m_client.requestBlockText(m_map->currentCell()); });
    connect(m_map, &PageMap::currentChanged, this, &PagesCard::describe);
    connect(&client, &EngineClient::blockMapChanged, this, &PagesCard::takeMap);
    connect(&client, &EngineClient::blockTextReady, this, [this](int block, const QString &text) {
        if (block != m_map->currentCell())
            return;
        m_text = text.simplified();
        m_map->setAccessibleDescription(m_detail + u' ' + m_text);
        scheduleUpdate();
    });
    summarize();
}

void PagesCard::setWatching(bool on)
{
    m_client.watchBlocks(on);
}

void PagesCard::expandedChanged(bool expanded)
{
    m_map->setMaximumPitch(expanded ? largePitch : mapPitch);
}

void PagesCard::layoutContent()
{
    const QRect area = contentRect().adjusted(0, 2, 0, -pagesFoot).toRect();
    m_scroll->setGeometry(area.adjusted(0, 0, scrollBarWidth - 2, 0)); // the bar stands in the padding
    const double least = isExpanded() ? leastLargePitch : leastPitch;
    const QSize size(area.width(), m_map->heightFor(area.width(), area.height(), least));
    if (m_map->size() != size)
        m_map->resize(size);
}

quint16 PagesCard::cellState(const engine::BlockInfo &block, int series)
{
    const int window = block.inWindow ? PageMap::InWindow : 0;
    switch (block.state) {
    case engine::BlockState::Free:
        return PageMap::Free;
    case engine::BlockState::Cached:
        return quint16(PageMap::Cached | window);
    case engine::BlockState::Used:
        break;
    }
    return quint16(series | (block.refCount > 1 ? PageMap::Shared : 0) | window);
}

void PagesCard::takeMap(const std::shared_ptr<const engine::BlockMap> &map)
{
    m_blocks = map;
    QList<quint16> cells;
    if (map) {
        cells.reserve(qsizetype(map->blocks.size()));
        for (const engine::BlockInfo &block : map->blocks)
            cells.append(cellState(block, m_client.seriesOf(block.owner)));
    }
    m_map->setCells(cells);
    m_scroll->setVisible(!cells.isEmpty()); // an empty map would cover the hint
    layoutContent();
    if (m_map->currentCell() >= 0)
        m_detail = describeBlock(m_map->currentCell());
    summarize();
}

void PagesCard::summarize()
{
    if (!m_blocks || m_blocks->blocks.empty()) {
        setSummary(tr("no pool"));
        return;
    }
    qint64 used = 0, filled = 0;
    for (const engine::BlockInfo &block : m_blocks->blocks) {
        used += block.state == engine::BlockState::Used;
        filled += block.state == engine::BlockState::Used ? block.tokens : 0;
    }
    const auto total = qint64(m_blocks->blocks.size());
    QString summary = tr("%1 × %2 tokens · %3 used")
                          .arg(format::count(total), format::count(m_blocks->blockTokens),
                               format::percent(double(used) / double(total)));
    if (used > 0)
        summary += tr(" · waste %1").arg(format::percent(1 - double(filled) / double(used * m_blocks->blockTokens)));
    if (m_blocks->windowBlocks > 0)
        summary += tr(" · window %1 of %2")
                       .arg(format::count(m_blocks->windowBlocksUsed), format::count(m_blocks->windowBlocks));
    setSummary(summary);
}

QString PagesCard::describeBlock(int block) const
{
    if (!m_blocks || block < 0 || std::size_t(block) >= m_blocks->blocks.size())
        return {};
    const engine::BlockInfo &info = m_blocks->blocks[std::size_t(block)];
    const QString number = tr("block %1").arg(format::count(block));
    if (info.state == engine::BlockState::Free)
        return tr("%1: free").arg(number);
    const QString tokens =
        tr("tokens %1–%2")
            .arg(format::count(info.firstPosition), format::count(info.firstPosition + std::max(0, info.tokens - 1)));
    QString window;
    if (m_blocks->windowBlocks > 0)
        window = info.inWindow ? tr(" · in the window") : tr(" · left the window");
    if (info.state == engine::BlockState::Cached)
        return tr("%1: cached, free to take · %2").arg(number, tokens) + window;
    QString owner = QStringLiteral("#%1").arg(info.owner);
    if (const QString name = m_client.requestName(info.owner); !name.isEmpty())
        owner += QStringLiteral(" “%1”").arg(name);
    const QString shared = info.refCount > 1 ? tr(" · shared by %1").arg(info.refCount) : tr(" · 1 reference");
    return tr("%1: request %2%3 · %4").arg(number, owner, shared, tokens) + window;
}

void PagesCard::describe(int block)
{
    m_text.clear();
    m_detail = describeBlock(block);
    m_map->setAccessibleDescription(m_detail);
    if (block >= 0 && m_map->hasFocus()) { // walked by keys
        const QPoint middle = m_map->cellRect(block).center().toPoint();
        m_scroll->ensureVisible(middle.x(), middle.y(), 20, 20);
    }
    const bool holdsText =
        m_blocks && block >= 0 && m_blocks->blocks[std::size_t(block)].state != engine::BlockState::Free;
    if (holdsText)
        m_hover->start();
    else
        m_hover->stop();
    scheduleUpdate();
}

void PagesCard::paintContent(QPainter &painter, const QRectF &rect)
{
    const Tokens &c = theme().tokens();
    if (!m_blocks || m_blocks->blocks.empty()) {
        paint::empty(painter, theme(), rect, tr("Every block of the KV cache appears here"),
                     tr("Open a model with Ctrl+O"));
        return;
    }
    const double y = rect.bottom() - 14;
    if (!m_detail.isEmpty()) {
        paint::text(painter, {rect.x(), y - 19, rect.width(), 16}, m_detail, theme().ui(11.5), c.text);
        paint::text(painter, {rect.x(), y - 1, rect.width(), 16}, m_text.isEmpty() ? QString() : u'“' + m_text + u'”',
                    theme().ui(11.5), c.muted);
        return;
    }
    QList<std::pair<quint16, QString>> items{{quint16(0), tr("request")},
                                             {quint16(PageMap::Shared), tr("shared prefix")},
                                             {quint16(PageMap::Cached), tr("cached, free to take")},
                                             {quint16(PageMap::Free), tr("free")}};
    if (m_blocks->windowBlocks > 0)
        items.insert(1, {quint16(PageMap::InWindow), tr("in the window")});
    double x = rect.x();
    const QFont font = theme().ui(11.5);
    for (const auto &[state, name] : items) {
        PageMap::paintCell(painter, theme(), {x, y + 2, 9, 9}, state);
        const double width = paint::advance(font, name) + 2;
        paint::text(painter, {x + 15, y - 2, width, 18}, name, font, c.muted);
        x += 15 + width + 18;
    }
}

} // namespace ui
