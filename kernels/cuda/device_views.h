// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/checks.h"
#include "kernels/cuda/step_memory.h"

#include <exception>

/// What the host side of the operations shares: views as launchers take them, and the one place of a launch.
namespace kernels::cuda {

[[nodiscard]] inline RowSpan rowsOf(const TensorView &view)
{
    const bool grouped = view.rank == 3;
    RowSpan span;
    span.data = view.as<float>();
    span.rows = static_cast<int>(rowCount(view));
    span.columns = static_cast<int>(view.shape[grouped ? 2 : 1]);
    span.perGroup = grouped ? static_cast<int>(view.shape[1]) : 1;
    span.groupStride = view.strides[0];
    span.rowStride = grouped ? view.strides[1] : 0;
    return span;
}

/// Rows one after another in memory.
[[nodiscard]] inline RowSpan denseRows(float *data, int rows, int columns)
{
    return {data, rows, columns, 1, columns, 0};
}

/// Calls work(handle) unless the stream only plans. What the emulator finds wrong with a kernel is a fault of ours.
template<typename Work> void launch(DeviceStream &stream, Work work)
{
    if (stream.plans())
        return;
    try {
        work(stream.handle());
    } catch (const Error &) {
        stream.checkDevice(); // a device that is lost refuses every launch
        throw;
    } catch (const std::exception &fault) {
        throw Error(ErrorCode::Internal, fault.what());
    }
}

} // namespace kernels::cuda
