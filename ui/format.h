// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

#include <cstddef>
#include <optional>

/// Numbers as the window writes them: grouped by commas, units muted beside, the same everywhere.
namespace ui::format {

/// 12288 -> "12,288".
[[nodiscard]] QString count(qint64 value);
/// At most `digits` significant digits below 100 (0.5, 3.7, 41.2), whole and grouped above.
[[nodiscard]] QString number(double value, int digits = 3);
/// Binary units with one decimal below 100: "9.6 GiB".
[[nodiscard]] QString bytes(std::size_t value);
/// A share 0..1 as "61 %"; below 10 % with one decimal.
[[nodiscard]] QString percent(double share);
/// Milliseconds: "27 ms", "1.9 s".
[[nodiscard]] QString milliseconds(double ms);
/// An absent figure is "n/a".
[[nodiscard]] QString optional(const std::optional<double> &value, const QString &unit, int decimals = 0);
/// "1 token", "2 tokens": the number with its noun.
[[nodiscard]] QString counted(qint64 value, const QString &one, const QString &many);
/// A value of a knob: whole when `step` is whole, else the decimals of `step`, grouped.
[[nodiscard]] QString knob(double value, double step);
/// What a model is called: its file's or folder's name without ".gguf" and without the number of a shard. Files are
/// what people choose; the name that a file carries inside is often that of a training run.
[[nodiscard]] QString modelName(const QString &path);
/// A message of the engine as a sentence: with a capital and a full stop.
[[nodiscard]] QString sentence(const QString &text);

} // namespace ui::format
