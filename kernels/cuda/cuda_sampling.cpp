// SPDX-License-Identifier: GPL-3.0-or-later
// Tokens are drawn on the device; the host gets them, and no logits.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_views.h"
#include "kernels/cuda/launch_sampling.h"

#include <algorithm>

namespace kernels::cuda {

namespace {

constexpr int rowsAtOnce = 32; // some megabytes of memory each

} // namespace

void CudaOps::sample(TensorView logits, const SamplingBatch &batch, SampledRow *sampled, Alternative *alternatives,
                     Stream &stream)
{
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    const int rows = static_cast<int>(batch.rows.size());
    const int perRow = std::max(batch.alternatives, 0);
    SamplingScratch scratch;
    scratch.rows = std::min(rows, rowsAtOnce);
    scratch.memory = own.take<std::byte>(
        static_cast<std::int64_t>(samplingScratchBytes(scratch.rows, static_cast<int>(logits.shape[1]))));
    auto *found = own.take<SampledRow>(rows);
    auto *best = own.take<Alternative>(std::int64_t{rows} * perRow);
    const SamplingInputs inputs{rowsOf(logits),         own.put(batch.rows),   rows,
                                own.put(batch.history), own.put(batch.biases), own.put(batch.allowed)};
    launch(own, [&](StreamHandle handle) {
        launchSample(inputs, scratch, found, best, batch.alternatives, handle);
        m_runtime->copy(found, sampled, static_cast<std::size_t>(rows) * sizeof(SampledRow), handle);
        m_runtime->copy(best, alternatives, static_cast<std::size_t>(rows * perRow) * sizeof(Alternative), handle);
    });
}

} // namespace kernels::cuda
