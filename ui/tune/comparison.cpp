// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/comparison.h"

#include "ui/format.h"
#include "ui/translate.h"

#include <algorithm>
#include <cmath>

namespace ui {

namespace {

constexpr int namedFigures = 3; // in a conclusion; the table has all of them

QString nameOf(const engine::LoadFigure &figure)
{
    return QString::fromUtf8(figure.label.data(), qsizetype(figure.label.size()));
}

std::vector<double> valuesOf(const engine::LoadFigure &figure, const std::vector<engine::LoadReport> &rounds)
{
    std::vector<double> values;
    for (const engine::LoadReport &round : rounds) {
        if (const std::optional<double> value = figure.of(round))
            values.push_back(*value);
    }
    return values;
}

/// How a change of a figure is written: in percent of the value before, in points of a share, or as it is.
struct ChangeScale {
    double factor = 1;
    int decimals = 1;
    QString unit;
};

ChangeScale scaleOf(const FigureResult &result)
{
    if (result.figure->unit == "share")
        return {100, 1, tr("pt")};
    const double before = result.difference ? result.difference->before : 0;
    if (result.figure->unit.empty() || before == 0)
        return {1, result.figure->unit.empty() ? 1 : 3, {}};
    return {100 / before, 1, QStringLiteral("%")};
}

QString signedText(double value, int decimals)
{
    const bool zero = QString::number(std::abs(value), 'f', decimals).toDouble() == 0;
    const QString size = std::abs(value) >= 1000 ? format::count(std::llround(std::abs(value)))
                                                 : QString::number(std::abs(value), 'f', decimals);
    return (zero ? QString() : value < 0 ? QStringLiteral("−") : QStringLiteral("+")) + size;
}

QString withUnit(const QString &text, const QString &unit)
{
    return unit.isEmpty() ? text : text + u' ' + unit;
}

QString plainChange(const FigureResult &result)
{
    const ChangeScale scale = scaleOf(result);
    return withUnit(signedText(result.difference->change * scale.factor, scale.decimals), scale.unit);
}

/// "a, b and c and 4 more" of the results with this verdict; empty without any.
QString listOf(const std::vector<FigureResult> &results, FigureResult::Verdict verdict)
{
    QStringList names;
    int more = 0;
    for (const FigureResult &result : results) {
        if (result.verdict() != verdict)
            continue;
        if (names.size() < namedFigures)
            names << QStringLiteral("%1 %2").arg(nameOf(*result.figure), plainChange(result));
        else
            ++more;
    }
    QString text = names.join(QStringLiteral(", "));
    if (more > 0)
        text = tr("%1 and %2 more").arg(text, format::count(more));
    return text;
}

} // namespace

FigureResult::Verdict FigureResult::verdict() const
{
    if (!difference || !difference->seen())
        return Verdict::None;
    const bool higher = difference->change > 0;
    return higher == (figure->better == engine::BetterWhen::Higher) ? Verdict::Better : Verdict::Worse;
}

std::vector<FigureResult> figuresOf(const Comparison &comparison)
{
    std::vector<FigureResult> results;
    for (const engine::LoadFigure &figure : engine::loadFigures()) {
        FigureResult result;
        result.figure = &figure;
        result.before = valuesOf(figure, comparison.roundsBefore);
        result.after = valuesOf(figure, comparison.roundsAfter);
        const bool whole = !result.before.empty() && result.before.size() == comparison.roundsBefore.size()
            && result.after.size() == comparison.roundsAfter.size()
            && (!comparison.paired || result.after.size() == result.before.size());
        const auto zero = [](const std::vector<double> &values) {
            return std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
        };
        if (!whole || (figure.key == "refused" && zero(result.before) && zero(result.after)))
            continue;
        if (comparison.paired)
            result.difference = engine::differenceOf(result.before, result.after);
        else
            result.alone = engine::meanInterval(result.before);
        // No figure can be negative, so the ends of an interval that few rounds make wide are not either.
        if (result.difference && result.difference->interval)
            result.difference->interval->low = std::max(result.difference->interval->low, -result.difference->before);
        if (result.alone)
            result.alone->low = std::max(result.alone->low, 0.0);
        for (const double value : result.before)
            result.mean += value / double(result.before.size());
        results.push_back(std::move(result));
    }
    return results;
}

QString valueText(const engine::LoadFigure &figure, double value)
{
    if (figure.unit == "share")
        return format::percent(value);
    if (figure.unit == "ms")
        return value >= 999.5 ? tr("%1 s").arg(format::number(value / 1000)) : tr("%1 ms").arg(format::number(value));
    if (figure.unit.empty())
        return value == std::round(value) ? format::count(qint64(value)) : QString::number(value, 'f', 1);
    return withUnit(format::number(value), QString::fromUtf8(figure.unit.data(), qsizetype(figure.unit.size())));
}

QString changeText(const FigureResult &result)
{
    if (!result.difference)
        return {};
    return result.difference->interval && !result.difference->seen() ? tr("no difference seen") : plainChange(result);
}

QString intervalText(const FigureResult &result)
{
    if (!result.difference) {
        if (!result.alone)
            return tr("n/a");
        return tr("%1 to %2")
            .arg(valueText(*result.figure, result.alone->low), valueText(*result.figure, result.alone->high));
    }
    if (!result.difference->interval)
        return tr("n/a");
    const ChangeScale scale = scaleOf(result);
    const engine::Interval &interval = *result.difference->interval;
    return withUnit(tr("%1 … %2").arg(signedText(interval.low * scale.factor, scale.decimals),
                                      signedText(interval.high * scale.factor, scale.decimals)),
                    scale.unit);
}

QString sentenceOf(const FigureResult &result)
{
    const QString name = nameOf(*result.figure);
    if (!result.difference)
        return tr("%1: %2, 95 % interval %3").arg(name, valueText(*result.figure, result.mean), intervalText(result));
    const QString values = tr("%1: before %2, after %3")
                               .arg(name, valueText(*result.figure, result.difference->before),
                                    valueText(*result.figure, result.difference->after));
    const QString interval = tr("95 % interval %1").arg(intervalText(result));
    switch (result.verdict()) {
    case FigureResult::Verdict::Better:
        return tr("%1, better by %2, %3").arg(values, plainChange(result), interval);
    case FigureResult::Verdict::Worse:
        return tr("%1, worse by %2, %3").arg(values, plainChange(result), interval);
    case FigureResult::Verdict::None:
        break;
    }
    return tr("%1, %2, %3").arg(values, changeText(result), interval);
}

QString conclusionOf(const Comparison &comparison)
{
    const std::vector<FigureResult> results = figuresOf(comparison);
    if (!comparison.paired)
        return tr("Measured with these settings; move a knob and run it again to compare.");
    if (comparison.roundsBefore.size() < 2)
        return tr("One pair of rounds says nothing about chance; run more rounds.");
    const QString better = listOf(results, FigureResult::Verdict::Better);
    const QString worse = listOf(results, FigureResult::Verdict::Worse);
    const auto unseen = std::count_if(results.begin(), results.end(), [](const FigureResult &result) {
        return result.verdict() == FigureResult::Verdict::None;
    });
    QStringList sentences;
    if (!better.isEmpty())
        sentences << tr("Better: %1.").arg(better);
    if (!worse.isEmpty())
        sentences << tr("Worse: %1.").arg(worse);
    if (sentences.isEmpty())
        sentences << tr("No difference seen in any figure.");
    else if (unseen > 0)
        sentences << tr("No difference seen in %1.").arg(format::counted(unseen, tr("figure"), tr("figures")));
    return sentences.join(u' ');
}

} // namespace ui
