// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/comparison_card.h"

#include "ui/format.h"
#include "ui/tune/live_settings.h"
#include "ui/tune/tune_report.h"
#include "ui/tune/tuner.h"
#include "ui/widgets/comparison_table.h"
#include "ui/widgets/paint.h"

#include <QBoxLayout>
#include <QLabel>
#include <QScrollArea>
#include <QStyle>

namespace ui {

namespace {

QLabel *wrapped()
{
    auto *label = new QLabel;
    label->setWordWrap(true);
    label->setTextFormat(Qt::PlainText);
    label->setTextInteractionFlags(Qt::TextSelectableByMouse);
    return label;
}

void setTone(QLabel *label, const QString &tone)
{
    if (label->property("tone") == tone)
        return;
    label->setProperty("tone", tone);
    label->style()->unpolish(label);
    label->style()->polish(label);
}

} // namespace

ComparisonCard::ComparisonCard(Theme &theme, Tuner &tuner, QWidget *parent)
    : Card(theme, tr("Before / after"), parent)
    , m_tuner(tuner)
    , m_status(wrapped())
    , m_change(wrapped())
    , m_notes(wrapped())
    , m_table(new ComparisonTable(theme))
    , m_scroll(new QScrollArea)
{
    setFocusPolicy(Qt::NoFocus);
    m_scroll->setWidget(m_table);
    m_scroll->setWidgetResizable(true);
    m_scroll->setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
    m_scroll->setFocusPolicy(Qt::NoFocus);
    m_scroll->viewport()->setAutoFillBackground(false);
    m_table->setAutoFillBackground(false);
    m_change->setProperty("tone", QStringLiteral("muted"));
    m_notes->setProperty("tone", QStringLiteral("warn"));
    auto *column = new QVBoxLayout(this);
    column->setContentsMargins(padding, headerHeight, padding, padding - 2);
    column->setSpacing(6);
    column->addWidget(m_status);
    column->addWidget(m_change);
    column->addWidget(m_notes);
    column->addWidget(m_scroll, 1);
    column->addStretch();
    connect(m_table, &ComparisonTable::rowReached, this, [this](int top, int bottom) {
        m_scroll->ensureVisible(0, bottom, 0, 0);
        m_scroll->ensureVisible(0, top, 0, 0);
    });
    connect(&tuner, &Tuner::changed, this, &ComparisonCard::refresh);
    connect(&theme, &Theme::changed, this, &ComparisonCard::refreshFonts);
    refreshFonts();
    refresh();
}

void ComparisonCard::refreshFonts()
{
    m_status->setFont(theme().ui(13));
    m_change->setFont(theme().ui(12));
    m_notes->setFont(theme().ui(12));
}

QString ComparisonCard::statusText() const
{
    return m_status->text();
}

void ComparisonCard::showStatus(const QString &text, const char *tone)
{
    m_status->setText(text);
    setTone(m_status, QString::fromLatin1(tone));
}

// What was changed, whether that was decided, and the workload.
QString ComparisonCard::subjectOf(const Comparison &comparison)
{
    QString change = comparison.paired ? liveChangeText(comparison.before, comparison.after) : QString();
    if (comparison.outcome == Comparison::Outcome::Kept)
        change = tr("%1 (kept)").arg(change);
    if (comparison.outcome == Comparison::Outcome::Reverted)
        change = tr("%1 (reverted)").arg(change);
    const QString workload = workloadText(comparison.workload);
    return change.isEmpty() ? workload : tr("%1 · %2").arg(change, workload);
}

void ComparisonCard::refresh()
{
    const std::optional<Comparison> &result = m_tuner.result();
    if (m_tuner.isRunning())
        showRunning();
    else if (result)
        showResult(*result);
    else
        showNothing();
    m_change->setVisible(!m_change->text().isEmpty());
    m_notes->setVisible(!m_notes->text().isEmpty());
    scheduleUpdate();
}

void ComparisonCard::showRunning()
{
    showStatus(m_tuner.progressText(), "");
    setSummary({});
    m_change->setText(subjectOf(m_tuner.current()));
    m_notes->setText(m_tuner.current().notes.join(u' '));
    m_scroll->hide();
}

void ComparisonCard::showResult(const Comparison &result)
{
    if (m_tuner.fault().isEmpty())
        showStatus(conclusionOf(result), "");
    else
        showStatus(m_tuner.fault(), "bad");
    m_change->setText(subjectOf(result));
    m_notes->setText(result.notes.join(u' '));
    const auto rounds = qint64(result.roundsBefore.size());
    setSummary(result.paired ? format::counted(rounds, tr("pair of rounds"), tr("pairs of rounds"))
                             : format::counted(rounds, tr("round"), tr("rounds")));
    if (result.time != m_shown) // an unchanged table keeps its place
        m_table->setRows(tableHeads(result), tableRows(result));
    m_shown = result.time;
    m_scroll->show();
}

void ComparisonCard::showNothing()
{
    if (m_tuner.fault().isEmpty())
        showStatus(
            tr("Throughput and latencies before and after a change appear here, with how sure the difference is. "
               "Move a knob, then run the workload."),
            "muted");
    else
        showStatus(m_tuner.fault(), "bad");
    m_change->clear();
    m_notes->clear();
    setSummary({});
    m_scroll->hide();
}

void ComparisonCard::paintContent(QPainter &painter, const QRectF &rect)
{
    if (!m_tuner.isRunning())
        return;
    const QRectF line(rect.x(), headerHeight - 7, rect.width(), 3);
    paint::bar(painter, line, theme().tokens().line, 1.5);
    paint::bar(painter, {line.x(), line.y(), line.width() * m_tuner.fraction(), line.height()}, theme().tokens().accent,
               1.5);
}

} // namespace ui
