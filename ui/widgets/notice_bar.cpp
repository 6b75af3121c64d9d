// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/widgets/notice_bar.h"

#include "ui/widgets/paint.h"

#include <QAccessible>
#include <QBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>

#include <algorithm>

namespace ui {

NoticeBar::NoticeBar(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_text(new QLabel(this))
    , m_action(new QPushButton(this))
    , m_close(new QPushButton(tr("Dismiss"), this))
{
    m_text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
    m_text->setTextFormat(Qt::PlainText); // a model's file name or message is never markup
    m_text->setWordWrap(true);
    auto *row = new QHBoxLayout(this);
    row->setContentsMargins(28, 8, 16, 10);
    row->setSpacing(8);
    row->addWidget(m_text, 1);
    row->addWidget(m_action);
    row->addWidget(m_close);
    connect(m_action, &QPushButton::clicked, this, &NoticeBar::actionTriggered);
    connect(m_close, &QPushButton::clicked, this, [this] {
        hide();
        emit dismissed();
    });
    connect(&m_theme, &Theme::changed, this, qOverload<>(&QWidget::update));
    hide();
}

void NoticeBar::showNotice(Tone tone, const QString &text, const QString &action)
{
    m_tone = tone;
    m_fraction = -1;
    m_text->setText(text);
    setAccessibleName(tone == Tone::Error ? tr("Error") : tr("Notice"));
    setAccessibleDescription(text);
    m_action->setText(action);
    m_action->setVisible(!action.isEmpty());
    m_close->show();
    show();
    update();
    QAccessibleEvent event(this, QAccessible::Alert);
    QAccessible::updateAccessibility(&event);
}

void NoticeBar::showDecision(const QString &text, const QString &action)
{
    showNotice(Tone::Error, text, action);
    m_close->hide();
}

void NoticeBar::showProgress(const QString &text, double fraction)
{
    m_tone = Tone::Info;
    m_fraction = std::clamp(fraction, 0.0, 1.0);
    m_text->setText(text);
    setAccessibleName(tr("Progress"));
    setAccessibleDescription(text);
    m_action->setText(tr("Cancel"));
    m_action->show();
    m_close->hide();
    show();
    update();
}

QString NoticeBar::text() const
{
    return m_text->text();
}

void NoticeBar::paintEvent(QPaintEvent *)
{
    const Tokens &c = m_theme.tokens();
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.fillRect(rect(), c.panel);
    painter.fillRect(QRect(0, height() - 1, width(), 1), c.line);
    const QColor color = m_tone == Tone::Error ? c.bad : m_tone == Tone::Warning ? c.warn : c.accent;
    paint::bar(painter, QRectF(14, 12, 4, height() - 24), color, 2);
    if (m_fraction >= 0)
        painter.fillRect(QRectF(0, height() - 3, width() * m_fraction, 3), c.accent);
}

} // namespace ui
