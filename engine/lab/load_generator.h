// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/load_report.h"
#include "engine/lab/load_workload.h"

#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace engine {

/// What a load is sent to: the engine of this process, or a server. Thread: one caller.
class LoadTarget {
public:
    virtual ~LoadTarget() = default;

    /// Seconds on the clock of the run.
    [[nodiscard]] virtual double now() const = 0;
    virtual void send(std::size_t index, const LoadRequest &request) = 0;
    /// Requests that have ended since the last call, by the index they were sent with; waits for one at most `seconds`.
    [[nodiscard]] virtual std::vector<std::pair<std::size_t, LoadSample>> wait(double seconds) = 0;
    /// Ends all open requests; they come out of wait() as Cancelled.
    virtual void cancelAll() = 0;
    /// What the serving side tells about the run. Called once, at the end.
    [[nodiscard]] virtual ServingFigures figures() = 0;
};

struct LoadOptions {
    int concurrency = 0;    ///< open requests at most; 0 = no limit
    double requestRate = 0; ///< Poisson arrivals a second; 0 = as soon as concurrency allows
    GoodputLimits goodput;
    std::uint64_t seed = 0;
};

/// Sends all requests and waits for them. On a stop request the open ones are cancelled and what has ended is
/// reported. `onProgress` hears how many have ended.
[[nodiscard]] LoadReport runLoad(LoadTarget &target, std::span<const LoadRequest> requests, const LoadOptions &options,
                                 const std::stop_token &stop, const std::function<void(int ended)> &onProgress = {});

} // namespace engine
