// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/api/stats.h"

#include <QString>

#include <deque>
#include <vector>

namespace ui {

/// What one request did when, in engine seconds.
struct RequestSpan {
    enum class Phase {
        Queued,    ///< waits for its first blocks
        Prefill,   ///< its prompt is computed
        Decode,    ///< a token in every step
        Preempted, ///< its blocks were taken from it; waits for new ones
        Recompute, ///< computes again what it lost
        Paused,    ///< has blocks and no share of the steps
    };
    struct Segment {
        Phase phase;
        double begin;
        double end;     ///< of the last step in it; endOf() while it lasts
        int tokens = 0; ///< computed in it
    };
    /// Tokens found in the prefix cache when it got its blocks; that takes no time.
    struct CacheHit {
        double time;
        int tokens;
    };
    quint64 id = 0;
    QString client;     ///< who asked, as the request says
    bool guest = false; ///< of a client of the server
    double arrivedAt = -1;
    int promptTokens = 0;
    int outputTokens = 0;
    int preemptions = 0;
    std::vector<Segment> segments;
    std::vector<CacheHit> hits;
    bool finished = false;
    QString reason; ///< engine::toString of its end
    quint64 lastStep = 0;

    /// Where a segment ends at this moment: one that waits grows without steps.
    [[nodiscard]] double endOf(std::size_t segment, double now) const;
    [[nodiscard]] int cachedTokens() const { return hits.empty() ? 0 : hits.front().tokens; }
};

/// The last requests as the steps of the engine tell of them. Thread: UI.
class RequestSpans {
public:
    static constexpr std::size_t remembered = 256;

    void accept(const engine::RequestAccepted &accepted, bool guest);
    void take(const engine::StepStats &step);
    void finish(const engine::RequestFinished &end);
    /// Oldest first. Finished ones leave first; while all of them run, newer ones are not taken.
    [[nodiscard]] const std::deque<RequestSpan> &all() const { return m_spans; }

private:
    [[nodiscard]] RequestSpan *find(quint64 id);
    [[nodiscard]] RequestSpan *findOrAdd(quint64 id);
    static void takeRow(RequestSpan &span, const engine::StepRow &row, const engine::StepStats &step);

    std::deque<RequestSpan> m_spans;
};

} // namespace ui
