// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/theme.h"

#include <QAbstractButton>
#include <QList>
#include <QWidget>

class QButtonGroup;
class QVBoxLayout;

namespace ui {

/// The drawn signs of the rail.
enum class RailIcon { Chat, Models, Tune, Devices, Server, Menu };

/// One place of the rail: a drawn sign over its name.
class RailButton : public QAbstractButton {
    Q_OBJECT
public:
    RailButton(Theme &theme, RailIcon icon, const QString &name, QWidget *parent = nullptr);
    [[nodiscard]] QSize sizeHint() const override { return {48, 56}; }

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    Theme &m_theme;
    RailIcon m_icon;
};

/// The column of places at the left edge, with the menu button at its foot.
class Rail : public QWidget {
    Q_OBJECT
public:
    explicit Rail(Theme &theme, QWidget *parent = nullptr);
    /// Adds a place; its shortcut is shown in the tool tip. Returns its index.
    int addPlace(RailIcon icon, const QString &name);
    void setCurrent(int index);
    [[nodiscard]] int current() const;
    [[nodiscard]] RailButton *menuButton() const { return m_menu; }
    [[nodiscard]] RailButton *button(int index) const { return m_buttons[index]; }

signals:
    void chosen(int index);
    void menuRequested();

protected:
    void paintEvent(QPaintEvent *event) override;

private:
    Theme &m_theme;
    QVBoxLayout *m_column = nullptr;
    QButtonGroup *m_group = nullptr;
    QList<RailButton *> m_buttons;
    RailButton *m_menu = nullptr;
};

} // namespace ui
