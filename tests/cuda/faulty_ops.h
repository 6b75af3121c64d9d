// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/device_lost.h"
#include "tests/cuda/watched_runtime.h"

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>

/// The device simt, failing where a test wants it to.
namespace faulty {

using Call = WatchedRuntime::Call;
enum Fault { Launch, Memory, Lost, Died };

/// When a device fails; owned by the test, used by the engine thread.
struct Plan {
    int fault = Launch;           ///< Died: the process is
    std::atomic<int> failing = 0; ///< number of the call that fails; 0 = none
    std::atomic<int> calls = 0;   ///< made since `failing` was set
    std::optional<Call> only;     ///< the calls that are counted; nothing: all
    std::atomic<bool> lost = false;
};

inline void checkDevice(const Plan &plan)
{
    if (plan.lost)
        throw kernels::DeviceLost("device simt was lost");
}

/// What comes before each call of the device: the one that the plan names fails as a real device's does.
inline void beforeCall(Plan &plan, Call call)
{
    checkDevice(plan);
    if (plan.failing == 0 || call != plan.only.value_or(call) || ++plan.calls != plan.failing)
        return;
    if (plan.fault == Launch)
        throw kernels::Error(kernels::ErrorCode::Internal, "a kernel was not launched");
    if (plan.fault == Memory)
        throw kernels::Error(kernels::ErrorCode::OutOfMemory, "not enough memory on device simt");
    if (plan.fault == Died)
        (void)std::raise(SIGKILL);
    plan.lost = true;
    checkDevice(plan);
}

inline std::unique_ptr<kernels::Ops> faultyOps(Plan &plan)
{
    WatchedRuntime::Watch watch;
    watch.before = [&plan](Call call) { beforeCall(plan, call); };
    watch.check = [&plan] { checkDevice(plan); };
    return kernels::cuda::makeCudaOps(
        std::make_unique<WatchedRuntime>(kernels::cuda::makeSimtRuntime({.threads = 1}), std::move(watch)));
}

} // namespace faulty
