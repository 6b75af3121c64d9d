// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"
#include "ui/inspect/live_card.h"

#include <memory>

class QScrollArea;
class QTimer;

namespace ui {

class EngineClient;
class PageMap;

/// Every block of the KV pool: free, in a request's colour, shared (dot), cached (outline), and which of them
/// the layers with a window still hold (bar); hover tells which request
/// and which tokens.
class PagesCard : public LiveCard {
    Q_OBJECT
public:
    PagesCard(Theme &theme, EngineClient &client, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {496, 300}; }
    [[nodiscard]] PageMap *map() const { return m_map; }
    /// The two lines that tell about the block under the pointer.
    [[nodiscard]] QString detail() const { return m_detail; }
    [[nodiscard]] QString blockText() const { return m_text; }

    /// How a block is drawn.
    [[nodiscard]] static quint16 cellState(const engine::BlockInfo &block, int series);

protected:
    void paintContent(QPainter &painter, const QRectF &rect) override;
    void setWatching(bool on) override;
    void expandedChanged(bool expanded) override;
    void layoutContent() override;

private:
    void takeMap(const std::shared_ptr<const engine::BlockMap> &map);
    void summarize();
    void describe(int block);
    [[nodiscard]] QString describeBlock(int block) const;

    EngineClient &m_client;
    PageMap *m_map = nullptr;
    QScrollArea *m_scroll = nullptr; ///< a pool too large for readable squares is scrolled
    QTimer *m_hover = nullptr;
    std::shared_ptr<const engine::BlockMap> m_blocks;
    QString m_detail;
    QString m_text;
};

} // namespace ui
