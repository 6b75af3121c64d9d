// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/chat/composer.h"

#include "ui/chat/prompt_edit.h"
#include "ui/format.h"
#include "ui/theme.h"
#include "ui/widgets/paint.h"
#include "ui/widgets/pill.h"

#include <QHBoxLayout>
#include <QLabel>
#include <QPainter>
#include <QPushButton>
#include <QTextBlock>
#include <QVBoxLayout>

namespace ui {

Composer::Composer(Theme &theme, QWidget *parent)
    : QWidget(parent)
    , m_theme(theme)
    , m_edit(new PromptEdit(this))
{
    createButtons();
    auto *row = new QHBoxLayout;
    row->setSpacing(8);
    for (Pill *pill : {m_temperature, m_topP, m_maxTokens, m_system})
        row->addWidget(pill);
    row->addStretch();
    row->addWidget(m_hint);
    row->addWidget(m_send);
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(18, 14, 14, 10);
    column->setSpacing(10);
    column->addWidget(m_edit);
    column->addLayout(row);
    setTabOrder(m_edit, m_send);
    setTabOrder(m_send, m_temperature);
    connect(m_edit, &PromptEdit::submitted, this, [this](const QString &text) {
        if (!m_running && m_blocked.isEmpty())
            emit sendRequested(text);
    });
    connect(m_edit, &QPlainTextEdit::textChanged, this, &Composer::updateButton);
    connect(&theme, &Theme::changed, this, &Composer::applyTheme);
    applyTheme();
    setHint({});
    setSampling({});
    setBlocked({});
}

void Composer::createButtons()
{
    m_temperature = new Pill(m_theme, {}, this);
    m_topP = new Pill(m_theme, {}, this);
    m_maxTokens = new Pill(m_theme, {}, this);
    m_system = new Pill(m_theme, tr("System prompt"), this);
    const std::pair<Pill *, QString> knobs[] = {{m_temperature, QStringLiteral("temperature")},
                                                {m_topP, QStringLiteral("top-p")},
                                                {m_maxTokens, QStringLiteral("max-tokens")}};
    for (const auto &[pill, key] : knobs)
        connect(pill, &QAbstractButton::clicked, this, [this, key = key] { emit samplingRequested(key); });
    connect(m_system, &QAbstractButton::clicked, this, &Composer::systemPromptRequested);
    m_hint = new QLabel(this);
    m_hint->setTextFormat(Qt::PlainText);
    m_hint->setProperty("tone", QStringLiteral("muted"));
    m_send = new QPushButton(this);
    m_send->setProperty("primary", true);
    connect(m_send, &QPushButton::clicked, this, [this] {
        if (m_running)
            emit stopRequested();
        else
            m_edit->submit();
    });
}

void Composer::applyTheme()
{
    m_edit->setFont(m_theme.ui(14));
    m_hint->setFont(m_theme.ui(12));
    update();
}

void Composer::setSampling(const engine::SamplingParams &sampling)
{
    m_temperature->setText(tr("temperature %1").arg(format::number(sampling.temperature)));
    m_topP->setText(tr("top-p %1").arg(format::number(sampling.topP)));
    m_maxTokens->setText(sampling.maxTokens > 0 ? tr("max %1").arg(format::count(sampling.maxTokens))
                                                : tr("until full"));
    m_maxTokens->setToolTip(tr("Most tokens of one answer"));
    for (Pill *pill : {m_temperature, m_topP, m_maxTokens})
        pill->updateGeometry();
    fitPills();
}

void Composer::setSystemPrompt(const QString &prompt)
{
    m_system->setText(prompt.trimmed().isEmpty() ? tr("System prompt") : tr("System prompt ✓"));
    m_system->setToolTip(prompt.left(400).toHtmlEscaped());
    m_system->updateGeometry();
    fitPills();
}

void Composer::setRunning(bool running)
{
    m_running = running;
    updateButton();
}

void Composer::setBlocked(const QString &why)
{
    m_blocked = why;
    m_edit->setPlaceholderText(why.isEmpty() ? tr("Ask something. Enter sends, Shift+Enter begins a line") : why);
    updateButton();
}

void Composer::setHint(const QString &hint)
{
    m_hint->setText(hint);
    m_hint->setVisible(!hint.isEmpty());
    fitPills();
}

void Composer::updateButton()
{
    m_send->setText(m_running ? tr("Stop") : tr("Send"));
    m_send->setToolTip(m_running ? tr("Stop the answer (Esc)") : tr("Send the message (Enter)"));
    m_send->setEnabled(m_running || (m_blocked.isEmpty() && hasText()));
}

/// Whether there is more to send than spaces.
bool Composer::hasText() const
{
    for (QTextBlock block = m_edit->document()->begin(); block.isValid(); block = block.next())
        if (!block.text().trimmed().isEmpty())
            return true;
    return false;
}

/// A pill that has no room is left out, the last ones first; the button never is.
void Composer::fitPills()
{
    const QMargins margins = layout() ? layout()->contentsMargins() : QMargins();
    constexpr int gap = 8;
    int room = width() - margins.left() - margins.right() - m_send->sizeHint().width() - 2 * gap;
    if (!m_hint->isHidden())
        room -= m_hint->sizeHint().width() + gap;
    for (Pill *pill : {m_temperature, m_system, m_topP, m_maxTokens}) {
        room -= pill->sizeHint().width() + gap;
        pill->setVisible(room >= 0);
    }
}

void Composer::resizeEvent(QResizeEvent *event)
{
    QWidget::resizeEvent(event);
    fitPills();
}

void Composer::paintEvent(QPaintEvent *)
{
    QPainter painter(this);
    painter.setRenderHint(QPainter::Antialiasing);
    const Tokens &tokens = m_theme.tokens();
    paint::frame(painter, QRectF(rect()), tokens.panel, m_edit->hasFocus() ? tokens.accent : tokens.line, 10);
}

} // namespace ui
