// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/inspect/live_card.h"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPixmap>
#include <QToolButton>

namespace ui {

LiveCard::LiveCard(Theme &theme, const QString &key, const QString &title, QWidget *parent)
    : Card(theme, title, parent)
    , m_key(key)
    , m_button(new QToolButton(this))
{
    setObjectName(key);
    setHeaderReserve(26);
    m_button->setText(QStringLiteral("⋯"));
    m_button->setAccessibleName(tr("Menu of %1").arg(title));
    m_button->setToolTip(tr("Move, enlarge, tear off or hide"));
    m_button->setPopupMode(QToolButton::InstantPopup);
    m_button->setFixedSize(26, 24);
}

void LiveCard::setExpanded(bool expanded)
{
    if (expanded == m_expanded)
        return;
    m_expanded = expanded;
    expandedChanged(expanded);
    layoutContent();
    update();
}

bool LiveCard::exportTo(const QString &path, QString *why)
{
    if (grab().save(path))
        return true;
    *why = tr("“%1” cannot be written; choose another folder or a name that ends in .png").arg(path);
    return false;
}

QString LiveCard::exportFilters() const
{
    return tr("Picture (*.png)");
}

void LiveCard::showEvent(QShowEvent *event)
{
    Card::showEvent(event);
    if (!m_watching)
        setWatching(true);
    m_watching = true;
    layoutContent();
}

void LiveCard::hideEvent(QHideEvent *event)
{
    Card::hideEvent(event);
    if (m_watching)
        setWatching(false);
    m_watching = false;
}

void LiveCard::resizeEvent(QResizeEvent *event)
{
    Card::resizeEvent(event);
    m_button->move(width() - m_button->width() - 8, 7);
    layoutContent();
}

void LiveCard::mousePressEvent(QMouseEvent *event)
{
    m_pressed = event->position().y() < headerHeight ? event->position().toPoint() : QPoint();
}

void LiveCard::mouseMoveEvent(QMouseEvent *event)
{
    if ((event->buttons() & Qt::LeftButton) && !m_pressed.isNull()
        && (event->position().toPoint() - m_pressed).manhattanLength() > 12)
        emit dragged(event->globalPosition().toPoint());
}

void LiveCard::keyPressEvent(QKeyEvent *event)
{
    if (event->modifiers() == Qt::AltModifier && (event->key() == Qt::Key_Up || event->key() == Qt::Key_Down))
        emit moveRequested(event->key() == Qt::Key_Up ? -1 : 1);
    else if (event->key() == Qt::Key_Menu)
        m_button->showMenu();
    else
        Card::keyPressEvent(event);
}

void LiveCard::expandedChanged(bool) { }

void LiveCard::layoutContent() { }

} // namespace ui
