// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/page_title.h"

#include "ui/widgets/paint.h"

#include <QPainter>

namespace ui {

PageTitle::PageTitle(Theme &theme, const QString &title, const QString &subtitle, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_title(title)
    , m_subtitle(subtitle)
{
    setFixedHeight(56);
    setAccessibleName(title);
    setAccessibleDescription(subtitle);
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
}

void PageTitle::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    const QFont large = m_theme.ui(18, QFont::DemiBold);
    const double width = paint::advance(large, m_title) + 2;
    paint::text(painter, QRectF(0, 15, width, 30), m_title, large, m_theme.tokens().text);
    paint::text(painter, QRectF(width + 14, 17, this->width() - width - 14, 28), m_subtitle, m_theme.ui(12.5),
                m_theme.tokens().muted);
}

} // namespace ui
