// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/events.h"
#include "engine/api/stats.h"

namespace engine {

/// Adds what one step did. Each step and each end is counted once, where it is made known.
void countStep(EngineTotals &totals, const StepStats &step);
/// Adds a request that ended. Latencies are those of requests that came to an end of their own: a cancelled or failed
/// one says nothing about how long an answer takes.
void countFinished(EngineTotals &totals, const RequestFinished &finished);

/// Seconds until a place is likely to be free when `waiting` requests wait for one and `running` have one.
[[nodiscard]] double estimatedWaitSeconds(const EngineTotals &totals, int waiting, int running);

} // namespace engine
