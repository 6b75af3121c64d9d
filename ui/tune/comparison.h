// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/lab/comparison.h"
#include "ui/tune/workload.h"

#include <QDateTime>
#include <QString>
#include <QStringList>

#include <optional>
#include <vector>

namespace ui {

/// A workload measured with the settings before and, in pairs of rounds, with those after; or with one setting alone.
struct Comparison {
    enum class Outcome { Open, Kept, Reverted };

    Workload workload;
    QString model;
    QString machine; ///< backend and instruction set
    QDateTime time;
    bool paired = false;         ///< false: nothing was changed, only the rounds before count
    engine::EngineConfig before; ///< requested
    engine::EngineConfig after;
    engine::EngineConfig effectiveBefore;
    engine::EngineConfig effectiveAfter;
    std::vector<engine::LoadReport> roundsBefore;
    std::vector<engine::LoadReport> roundsAfter; ///< round i of both is a pair
    QStringList notes;                           ///< what may have disturbed it, a sentence each
    Outcome outcome = Outcome::Open;
};

/// One figure of it over all rounds.
struct FigureResult {
    const engine::LoadFigure *figure = nullptr;
    std::vector<double> before; ///< a value a round
    std::vector<double> after;
    std::optional<engine::Difference> difference; ///< of a paired one
    double mean = 0;                              ///< before
    std::optional<engine::Interval> alone;        ///< of that mean, where nothing is compared

    /// After is better, worse, or no difference is seen.
    enum class Verdict { None, Better, Worse };
    [[nodiscard]] Verdict verdict() const;
};
/// Figures that every round has, without those that are zero everywhere and say nothing (refused requests).
[[nodiscard]] std::vector<FigureResult> figuresOf(const Comparison &comparison);

/// "1,046 tok/s", "1.93 s", "63 %"
[[nodiscard]] QString valueText(const engine::LoadFigure &figure, double value);
/// "+22.8 %", "−1.3 pt", "+4", or "no difference seen"; of one pair the change alone.
[[nodiscard]] QString changeText(const FigureResult &result);
/// "+18.1 … +27.4 %"; of a single setting "1,010 … 1,080 tok/s"; "n/a" with one round.
[[nodiscard]] QString intervalText(const FigureResult &result);
/// The whole row in a sentence.
[[nodiscard]] QString sentenceOf(const FigureResult &result);
/// What came out, in one or two sentences.
[[nodiscard]] QString conclusionOf(const Comparison &comparison);

} // namespace ui
