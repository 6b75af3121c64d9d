// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "ui/tune/comparison.h"
#include "ui/widgets/comparison_table.h"

#include <QImage>

namespace ui {

class Theme;

/// A comparison as it leaves the window. All three hold model, workload, settings (asked for, and in force where that
/// differs), every figure with its interval, and what may have disturbed it.
[[nodiscard]] QString reportMarkdown(const Comparison &comparison);
/// One table: kind, name, unit, before, after, change, low, high, pairs, verdict, and the values of the rounds. Numbers
/// are plain, in the unit of their row; shares are 0..1.
[[nodiscard]] QString reportCsv(const Comparison &comparison);
/// In the colours of the theme, two pixels a point.
[[nodiscard]] QImage reportImage(Theme &theme, const Comparison &comparison);

/// The rows of its table.
[[nodiscard]] QList<ComparisonRow> tableRows(const Comparison &comparison);
/// Over its columns.
[[nodiscard]] ComparisonHeads tableHeads(const Comparison &comparison);

} // namespace ui
