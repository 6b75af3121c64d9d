// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/driver.h"
#include "kernels/gpus.h"

#include <cstddef>
#include <vector>

namespace kernels::cuda {

/// Copies `bytes` from each of these devices to each other, and looks at what has arrived.
[[nodiscard]] std::vector<PeerCopy> tryPeerCopies(Driver &driver, const std::vector<int> &devices, std::size_t bytes);

} // namespace kernels::cuda
