// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/stats.h"

#include <QHash>
#include <QString>

#include <deque>
#include <vector>

namespace ui {

class EngineClient;

/// P50, P95 and P99 of some samples; NaN without any.
struct Percentiles {
    double p50;
    double p95;
    double p99;
    int samples = 0;
};

/// By the nearest rank: the smallest sample that the share of all does not exceed.
[[nodiscard]] Percentiles percentilesOf(std::vector<float> samples);

/// Times to first token and gaps between tokens since the model was loaded, of all requests together and of each chat
/// or client by itself; of each the last 4,096. Thread: UI.
class LatencyBook {
public:
    struct Row {
        QString group; ///< empty: all requests
        QString name;  ///< of the last request of the group
        int series = -1;
        Percentiles ttft;
        Percentiles gap;
    };

    void take(const engine::StepStats &step, const EngineClient &client);
    void clear();
    /// All requests first, then groups, the last active one first. Sorts only what is new since the last call.
    [[nodiscard]] std::vector<Row> rows();

    static constexpr std::size_t mostSamples = 4096;
    static constexpr std::size_t mostGroups = 64;

private:
    struct Samples {
        std::vector<float> values; ///< ring once it is full
        std::size_t next = 0;
        int count = 0; ///< all that were ever added
        Percentiles cached = percentilesOf({});
        bool isOld = false;

        void add(double ms);
        [[nodiscard]] const Percentiles &percentiles();
    };
    struct Group {
        QString key;
        QString name;
        int series = -1;
        Samples ttft;
        Samples gap;
    };
    [[nodiscard]] Group *groupOf(quint64 request, const EngineClient &client);

    Group m_all;
    std::deque<Group> m_groups; ///< the last active one first
};

} // namespace ui
