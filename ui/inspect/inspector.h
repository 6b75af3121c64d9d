// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QHash>
#include <QList>
#include <QWidget>

class QAction;
class QScrollArea;
class QVBoxLayout;

namespace ui {

class EngineClient;
class LiveCard;
class Settings;
class StatsHistory;

/// The column of live cards at the right of the chat. Each card can be hidden, reordered, shown over the whole content
/// area or torn off; order and hidden cards are kept in the settings.
class Inspector : public QWidget {
    Q_OBJECT
public:
    Inspector(Theme &theme, EngineClient &client, StatsHistory &history, Settings &settings, QWidget *parent = nullptr);

    /// In the order of the column, hidden and lent ones included.
    [[nodiscard]] const QList<LiveCard *> &cards() const { return m_cards; }
    [[nodiscard]] LiveCard *card(const QString &key) const;
    /// Moves a card by `rows` places in the column.
    void moveCard(LiveCard *card, int rows);
    void setCardShown(LiveCard *card, bool shown);
    [[nodiscard]] bool isCardShown(LiveCard *card) const;
    /// Takes a card out of the column, to be shown elsewhere, and puts it back.
    void lend(LiveCard *card);
    void giveBack(LiveCard *card);
    /// One checkable action per card, for a menu.
    [[nodiscard]] QList<QAction *> cardActions() const;

    [[nodiscard]] QSize sizeHint() const override { return {520, 700}; }

signals:
    void enlargeRequested(ui::LiveCard *card);
    void tearOffRequested(ui::LiveCard *card);

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    void addCard(LiveCard *card);
    void fillMenu(LiveCard *card);
    void dragCard(LiveCard *card, const QPoint &globalPosition);
    void rebuild();
    void restore();
    void save() const;

    Theme &m_theme;
    Settings &m_settings;
    QScrollArea *m_scroll = nullptr;
    QWidget *m_column = nullptr;
    QVBoxLayout *m_layout = nullptr;
    QList<LiveCard *> m_cards;
    QList<LiveCard *> m_lent;
    QHash<LiveCard *, QAction *> m_shown;
};

} // namespace ui
