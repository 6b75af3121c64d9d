// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/tune_report.h"

#include "ui/parameters.h"
#include "ui/theme.h"
#include "ui/translate.h"
#include "ui/tune/live_settings.h"
#include "ui/widgets/knob_slider.h"

#include <QLocale>
#include <QPainter>

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

QString fromView(std::string_view text)
{
    return QString::fromUtf8(text.data(), qsizetype(text.size()));
}

struct SettingRow {
    const engine::ParameterSpec *spec;
    double before, after;                   ///< asked for
    double effectiveBefore, effectiveAfter; ///< in force
};

std::vector<SettingRow> settingsOf(const Comparison &c)
{
    std::vector<SettingRow> rows;
    for (const engine::ParameterSpec *spec : liveKnobs()) {
        const auto in = [spec](const engine::EngineConfig &config) {
            return parameterValue(config, spec->key).value_or(0);
        };
        rows.push_back({spec, in(c.before), in(c.after), in(c.effectiveBefore), in(c.effectiveAfter)});
    }
    return rows;
}

/// "auto (in force 2 threads)": what was asked for, and what it came to where that differs.
QString settingText(const engine::ParameterSpec &spec, double asked, double effective)
{
    const QString text = KnobSlider::textOf(spec, asked);
    const QString real = KnobSlider::textOf(spec, effective);
    return text == real ? text : tr("%1 (in force %2)").arg(text, real);
}

QString outcomeText(const Comparison &c)
{
    if (!c.paired)
        return {};
    switch (c.outcome) {
    case Comparison::Outcome::Kept:
        return tr("The settings after were kept.");
    case Comparison::Outcome::Reverted:
        return tr("The settings before were asked for again.");
    case Comparison::Outcome::Open:
        break;
    }
    return {};
}

QString methodText(const Comparison &c)
{
    if (!c.paired)
        return tr("%1 rounds of the same requests. The interval holds the mean with 95 % confidence (Student's t over "
                  "the rounds).")
            .arg(c.roundsBefore.size());
    return tr("%1 pairs of rounds, before and after in turn; lengths are the same in every round, tokens are new, so "
              "that no round profits from the cache of another. The interval holds the change of the mean with 95 % "
              "confidence (Student's t over the pairs), for each figure by itself; where it holds 0, no difference is "
              "seen.")
        .arg(c.roundsBefore.size());
}

QStringList headLines(const Comparison &c)
{
    QStringList lines;
    lines << tr("Model: %1 (%2)").arg(c.model, c.machine);
    lines << tr("Time: %1").arg(c.time.toString(Qt::ISODate));
    lines << tr("Workload: %1").arg(workloadText(c.workload));
    lines << (c.paired ? tr("Change: %1").arg(liveChangeText(c.before, c.after)) : tr("Change: none"));
    return lines;
}

QString cell(const QString &text)
{
    QString escaped = text;
    return escaped.replace(u'|', QStringLiteral("\\|"));
}

QString markdownRow(const QStringList &cells)
{
    QStringList escaped;
    for (const QString &one : cells)
        escaped << cell(one);
    return QStringLiteral("| ") + escaped.join(QStringLiteral(" | ")) + QStringLiteral(" |\n");
}

QString markdownSettings(const Comparison &c)
{
    QString out = c.paired
        ? markdownRow({tr("setting"), tr("before"), tr("after")}) + QStringLiteral("| --- | --- | --- |\n")
        : markdownRow({tr("setting"), tr("value")}) + QStringLiteral("| --- | --- |\n");
    for (const SettingRow &row : settingsOf(c)) {
        QStringList cells{fromView(row.spec->label), settingText(*row.spec, row.before, row.effectiveBefore)};
        if (c.paired)
            cells << settingText(*row.spec, row.after, row.effectiveAfter);
        out += markdownRow(cells);
    }
    return out;
}

QString markdownFigures(const Comparison &c)
{
    const ComparisonHeads heads = tableHeads(c);
    QStringList titles{tr("figure"), heads.before};
    if (c.paired)
        titles << heads.after << heads.change;
    titles << heads.interval;
    QString out = markdownRow(titles) + QStringLiteral("|") + QStringLiteral(" --- |").repeated(titles.size())
        + QStringLiteral("\n");
    for (const ComparisonRow &row : tableRows(c)) {
        QStringList cells{row.name, row.before};
        if (c.paired)
            cells << row.after << row.change;
        out += markdownRow(cells << row.interval);
    }
    return out;
}

QString quoted(const QString &text)
{
    QString doubled = text;
    doubled.replace(u'"', QStringLiteral("\"\""));
    return u'"' + doubled + u'"';
}

QString plain(double value)
{
    return QLocale::c().toString(value, 'g', 10);
}

QString plainList(const std::vector<double> &values)
{
    QStringList texts;
    for (const double value : values)
        texts << plain(value);
    return texts.join(u' ');
}

QString csvInfo(const QString &name, const QString &value)
{
    return QStringLiteral("info,%1,,%2,,,,,,,,\n").arg(quoted(name), quoted(value));
}

QString csvFigure(const Comparison &c, const FigureResult &result)
{
    QStringList fields{QStringLiteral("figure"), fromView(result.figure->key), fromView(result.figure->unit),
                       plain(result.mean)};
    const auto &interval = result.difference ? result.difference->interval : result.alone;
    const QString low = interval ? plain(interval->low) : QString(),
                  high = interval ? plain(interval->high) : QString();
    QString verdict;
    if (result.difference) {
        fields << plain(result.difference->after) << plain(result.difference->change);
        verdict = !interval                                     ? QString()
            : result.verdict() == FigureResult::Verdict::Better ? QStringLiteral("better")
            : result.verdict() == FigureResult::Verdict::Worse  ? QStringLiteral("worse")
                                                                : QStringLiteral("no difference seen");
    } else {
        fields << QString() << QString();
    }
    fields << low << high << QString::number(c.roundsBefore.size()) << verdict << quoted(plainList(result.before))
           << quoted(plainList(result.after));
    return fields.join(u',') + u'\n';
}

/// In the table the longest bar fills its half; less than 5 % never does.
double barScale(const std::vector<FigureResult> &results, const auto &relative)
{
    double most = 0.05;
    for (const FigureResult &result : results) {
        if (const auto interval = relative(result))
            most = std::max({most, std::abs(interval->low), std::abs(interval->high)});
    }
    return std::min(most, 1.0);
}

/// The interval as a share of the value before, improvements being positive.
std::optional<engine::Interval> relativeGain(const FigureResult &result)
{
    if (!result.difference || !result.difference->interval)
        return std::nullopt;
    const double size = std::max(std::abs(result.difference->before), std::abs(result.difference->after));
    if (size == 0)
        return engine::Interval{};
    const double base = result.difference->before != 0 ? std::abs(result.difference->before) : size;
    const engine::Interval in{result.difference->interval->low / base, result.difference->interval->high / base};
    return result.figure->better == engine::BetterWhen::Higher ? in : engine::Interval{-in.high, -in.low};
}

} // namespace

QString reportMarkdown(const Comparison &c)
{
    QString out = QStringLiteral("# %1\n\n").arg(c.paired ? tr("Lathe: before and after") : tr("Lathe: a measurement"));
    for (const QString &line : headLines(c))
        out += QStringLiteral("- %1\n").arg(line);
    out += QStringLiteral("\n%1 %2\n\n")
               .arg(conclusionOf(c), outcomeText(c))
               .replace(QStringLiteral(" \n"), QStringLiteral("\n"));
    out += QStringLiteral("## %1\n\n").arg(tr("Figures")) + markdownFigures(c);
    out += QStringLiteral("\n%1\n").arg(methodText(c));
    out += QStringLiteral("\n## %1\n\n").arg(tr("Settings")) + markdownSettings(c);
    if (!c.notes.isEmpty())
        out += QStringLiteral("\n## %1\n\n- %2\n").arg(tr("Notes"), c.notes.join(QStringLiteral("\n- ")));
    return out;
}

QString reportCsv(const Comparison &c)
{
    QString out =
        QStringLiteral("kind,name,unit,before,after,change,low,high,pairs,verdict,rounds before,rounds after\n");
    out += csvInfo(QStringLiteral("model"), c.model);
    out += csvInfo(QStringLiteral("machine"), c.machine);
    out += csvInfo(QStringLiteral("time"), c.time.toString(Qt::ISODate));
    for (const engine::ParameterSpec &spec : workloadSpecs())
        out += csvInfo(QStringLiteral("workload ") + fromView(spec.key),
                       QString::number(workloadValue(c.workload, spec.key)));
    for (const QString &note : c.notes)
        out += csvInfo(QStringLiteral("note"), note);
    for (const SettingRow &row : settingsOf(c)) {
        const auto line = [&](const char *kind, double before, double after) {
            out += QStringLiteral("%1,%2,%3,%4,%5,,,,,,,\n")
                       .arg(QLatin1String(kind), fromView(row.spec->key), fromView(row.spec->unit), plain(before),
                            c.paired ? plain(after) : QString());
        };
        line("requested", row.before, row.after);
        line("effective", row.effectiveBefore, row.effectiveAfter);
    }
    for (const FigureResult &result : figuresOf(c))
        out += csvFigure(c, result);
    return out;
}

ComparisonHeads tableHeads(const Comparison &c)
{
    if (!c.paired)
        return {tr("mean"), {}, {}, tr("95 % interval")};
    return {tr("before"), tr("after"), tr("change"), tr("95 % interval")};
}

QList<ComparisonRow> tableRows(const Comparison &c)
{
    const std::vector<FigureResult> results = figuresOf(c);
    const double scale = barScale(results, relativeGain);
    QList<ComparisonRow> rows;
    for (const FigureResult &result : results) {
        ComparisonRow row;
        row.name = fromView(result.figure->label);
        row.name[0] = row.name[0].toUpper();
        row.before = valueText(*result.figure, result.mean);
        row.after = result.difference ? valueText(*result.figure, result.difference->after) : QString();
        row.change = changeText(result);
        row.interval = intervalText(result);
        row.sentence = sentenceOf(result);
        if (const auto gain = relativeGain(result)) {
            row.hasBar = true;
            row.low = std::clamp(gain->low / scale, -1.0, 1.0);
            row.high = std::clamp(gain->high / scale, -1.0, 1.0);
        }
        row.tone = result.verdict() == FigureResult::Verdict::Better ? ComparisonRow::Tone::Better
            : result.verdict() == FigureResult::Verdict::Worse       ? ComparisonRow::Tone::Worse
                                                                     : ComparisonRow::Tone::Neutral;
        rows.append(row);
    }
    return rows;
}

QImage reportImage(Theme &theme, const Comparison &c)
{
    constexpr int width = 960, margin = 24, ratio = 2;
    ComparisonTable table(theme);
    table.setRows(tableHeads(c), tableRows(c));
    const QFont title = theme.ui(18, QFont::DemiBold), body = theme.ui(12);
    QStringList lines = headLines(c);
    lines << conclusionOf(c) << methodText(c) << c.notes;
    const QRect room(0, 0, width - 2 * margin, 4000);
    int textHeight = 0;
    for (const QString &line : lines)
        textHeight += QFontMetrics(body).boundingRect(room, Qt::TextWordWrap, line).height() + 4;
    const int tableHeight = table.heightFor(room.width());
    QImage image(QSize(width, 2 * margin + 34 + textHeight + 16 + tableHeight) * ratio,
                 QImage::Format_ARGB32_Premultiplied);
    image.setDevicePixelRatio(ratio);
    image.fill(theme.tokens().panel);
    QPainter painter(&image);
    painter.setRenderHint(QPainter::Antialiasing);
    painter.translate(margin, margin);
    painter.setFont(title);
    painter.setPen(theme.tokens().text);
    painter.drawText(QRect(0, 0, room.width(), 28), Qt::AlignLeft | Qt::AlignVCenter,
                     c.paired ? tr("Before and after") : tr("A measurement"));
    painter.setFont(body);
    painter.setPen(theme.tokens().muted);
    int y = 34;
    for (const QString &line : lines) {
        QRect used;
        painter.drawText(QRect(0, y, room.width(), 4000), Qt::TextWordWrap, line, &used);
        y += used.height() + 4;
    }
    painter.translate(0, y + 16);
    table.paintRows(painter, room.width());
    return image;
}

} // namespace ui
