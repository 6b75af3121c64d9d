// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"

#include <QString>
#include <QStringList>

#include <optional>
#include <vector>

namespace ui {

/// What is known of how an answer came to be: the engine's facts of its request and what the engine said meanwhile.
/// Kept with the message.
struct AnswerFacts {
    engine::Usage usage;
    engine::Timings timings;
    engine::RequestStory story;
    double gapP50 = 0; ///< between two tokens, in ms; 0 = fewer than two tokens
    double gapP95 = 0;
    int places = 0;      ///< max-num-seqs when it ended
    QStringList notices; ///< of the engine while it ran, whole sentences

    /// As it is stored: whether the answer was slow, and one JSON object.
    [[nodiscard]] QString toText() const;
    /// Whether a stored text is of a slow answer; costs nothing.
    [[nodiscard]] static bool isSlow(const QString &text);
    /// Nothing for an empty or foreign text.
    [[nodiscard]] static std::optional<AnswerFacts> fromText(const QString &text);
};

/// Why an answer took as long as it did.
struct SlowVerdict {
    bool slow = false;
    QStringList sentences; ///< what it took first, then each reason with its numbers, the costliest first
};

/// An answer is slow when its first token came after a second, when it waited or stood still for half a second, or when
/// its tokens came more slowly than people read.
[[nodiscard]] SlowVerdict whySlow(const AnswerFacts &facts);

} // namespace ui
