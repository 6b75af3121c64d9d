// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/api/stats.h"
#include "ui/latency_book.h"
#include "ui/request_spans.h"

#include <QList>
#include <QObject>
#include <QString>

#include <deque>
#include <vector>

namespace ui {

// Seconds that curves of a card show, plain and expanded.
constexpr double cardSeconds = 60;
constexpr double expandedSeconds = 590;

class EngineClient;

/// The recent past of the engine as the plots need it: rates in bins, latencies, spans of requests.
///
/// Only the client's signals write to it. Times are the engine's seconds; `now()` continues them between steps.
/// Thread: UI.
class StatsHistory : public QObject {
    Q_OBJECT
public:
    explicit StatsHistory(EngineClient &client, QObject *parent = nullptr);

    static constexpr double binSeconds = 0.5;
    static constexpr int binCount = 1200; ///< ten minutes
    static constexpr double latencySeconds = 60;

    /// Engine seconds at this moment; 0 before the first request.
    [[nodiscard]] double now() const;
    /// The newest step, or null before the first; its rows are stale when nothing runs any more.
    [[nodiscard]] const engine::StepStats *lastStep() const { return m_steps == 0 ? nullptr : &m_last; }

    enum class Figure { DecodeRate, PrefillRate, Running, Waiting, KvUsed };
    /// One value per bin over the last `seconds`, oldest first, the running bin left out. Rates are tokens per
    /// second, KvUsed a share of the pool.
    [[nodiscard]] std::vector<float> series(Figure figure, double seconds) const;
    /// Tokens per second over the last two seconds.
    [[nodiscard]] double decodeRate() const { return recentRate(&Bin::decode); }
    [[nodiscard]] double prefillRate() const { return recentRate(&Bin::prefill); }
    /// Over the last minute. Sorted at most four times a second.
    [[nodiscard]] Percentiles timeToFirstToken() const;
    [[nodiscard]] Percentiles interTokenGap() const;
    /// Gaps of the last minute, for a histogram.
    [[nodiscard]] std::vector<float> gaps() const;

    /// Anything but zero within the last `seconds`: a scrolling plot can rest when false.
    [[nodiscard]] bool activeWithin(double seconds) const { return m_steps > 0 && now() - m_last.time < seconds; }

    /// Oldest first, the last 256; finished ones leave first.
    [[nodiscard]] const std::deque<RequestSpan> &requests() const { return m_spans.all(); }
    /// Percentiles of all requests and of each chat.
    [[nodiscard]] LatencyBook &latencies() { return m_latencies; }

    struct Marker {
        double time;
        QString text;
        bool notice = false; ///< of the engine itself, not of a knob
        quint64 step = 0;    ///< first step that it concerns, while that has not been seen
    };
    /// Confirmed changes of knobs and notices of the engine, oldest first.
    [[nodiscard]] const QList<Marker> &markers() const { return m_markers; }
    void addMarker(const QString &text) { addMarker({now(), text}); }

signals:
    void changed();

private:
    struct Bin {
        double decode = 0;  ///< tokens
        double prefill = 0; ///< tokens
        int running = 0;    ///< greatest
        int waiting = 0;
        float kvUsed = 0;
    };
    struct Sample {
        double time;
        float value;
    };
    struct Latency {
        std::deque<Sample> samples;
        Percentiles cached;
        double sortedAt = -1;
    };

    void take(const std::vector<engine::StepStats> &steps);
    void takeStep(const engine::StepStats &step);
    void takeApplied(const engine::ParametersApplied &applied);
    void addMarker(const Marker &marker);
    void spread(double begin, double end, double decode, double prefill);
    Bin *binAt(double time);
    [[nodiscard]] double recentRate(double Bin::*figure) const;
    [[nodiscard]] static Percentiles percentiles(Latency &latency, double now);
    void takeTime(double engineSeconds);

    EngineClient &m_client;
    std::vector<Bin> m_bins; ///< ring, bin k at index k % binCount
    qint64 m_newestBin = -1;
    engine::StepStats m_last;
    quint64 m_steps = 0;
    bool m_hasClock = false;
    double m_offset = 0; ///< local seconds minus engine seconds, as small as ever seen
    mutable Latency m_ttft;
    mutable Latency m_itl;
    RequestSpans m_spans;
    LatencyBook m_latencies;
    QList<Marker> m_markers;
    engine::EngineConfig m_effective; ///< to say what a change was
    bool m_hasEffective = false;
};

} // namespace ui
