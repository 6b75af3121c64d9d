// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/format.h"

#include <QLocale>
#include <QRegularExpression>

#include <cmath>

namespace ui::format {

namespace {

// One written form for all locales: figures are compared with documents, logs and the command line.
const QLocale &figures()
{
    static const QLocale locale = [] {
        QLocale english(QLocale::English, QLocale::UnitedStates);
        english.setNumberOptions(QLocale::DefaultNumberOptions);
        return english;
    }();
    return locale;
}

int decimalsOf(double step)
{
    int decimals = 0;
    while (decimals < 6 && std::abs(step - std::round(step)) > 1e-9) {
        step *= 10;
        ++decimals;
    }
    return decimals;
}

} // namespace

QString count(qint64 value)
{
    return figures().toString(value);
}

QString number(double value, int digits)
{
    if (!std::isfinite(value))
        return QStringLiteral("n/a");
    const double size = std::abs(value);
    if (size >= 99.95)
        return count(std::llround(value));
    const int whole = size >= 9.995 ? 2 : 1;
    return figures().toString(value, 'f', std::max(0, digits - whole));
}

QString bytes(std::size_t value)
{
    static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double amount = double(value);
    int unit = 0;
    while (amount >= 1023.95 && unit < 4) {
        amount /= 1024;
        ++unit;
    }
    const int decimals = unit > 0 && amount < 99.95 ? 1 : 0;
    return figures().toString(amount, 'f', decimals) + QLatin1Char(' ') + QLatin1String(units[unit]);
}

QString percent(double share)
{
    if (!std::isfinite(share))
        return QStringLiteral("n/a");
    const double value = share * 100;
    const bool fine = value > 0 && value < 9.95;
    return figures().toString(value, 'f', fine ? 1 : 0) + QStringLiteral(" %");
}

QString milliseconds(double ms)
{
    if (!std::isfinite(ms))
        return QStringLiteral("n/a");
    if (ms < 9.95)
        return figures().toString(ms, 'f', 1) + QStringLiteral(" ms");
    if (ms < 999.5)
        return count(std::llround(ms)) + QStringLiteral(" ms");
    return figures().toString(ms / 1000, 'f', 1) + QStringLiteral(" s");
}

QString optional(const std::optional<double> &value, const QString &unit, int decimals)
{
    if (!value || !std::isfinite(*value))
        return QStringLiteral("n/a");
    return figures().toString(*value, 'f', decimals) + (unit.isEmpty() ? QString() : QLatin1Char(' ') + unit);
}

QString counted(qint64 value, const QString &one, const QString &many)
{
    return count(value) + QLatin1Char(' ') + (value == 1 ? one : many);
}

QString knob(double value, double step)
{
    return figures().toString(value, 'f', decimalsOf(step));
}

QString modelName(const QString &path)
{
    static const QRegularExpression ending(QStringLiteral("(-\\d{5}-of-\\d{5})?\\.gguf$"),
                                           QRegularExpression::CaseInsensitiveOption);
    qsizetype end = path.size();
    while (end > 1 && path[end - 1] == u'/')
        --end;
    const QString whole = path.left(end);
    QString name = whole.mid(whole.lastIndexOf(u'/') + 1);
    name.remove(ending);
    return name.isEmpty() ? whole : name;
}

QString sentence(const QString &text)
{
    QString out = text.trimmed();
    if (out.isEmpty())
        return out;
    out[0] = out[0].toUpper();
    return QStringLiteral(".!?").contains(out.back()) ? out : out + u'.';
}

} // namespace ui::format
