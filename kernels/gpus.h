// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <memory>
#include <string>
#include <vector>

namespace kernels {

/// NVIDIA GPUs as this program can use them.
struct GpuList {
    std::vector<std::string> problems; ///< of each GPU by number; empty when it can be used
    std::string problem;               ///< why there are none; empty when there are
    std::string driver;                ///< "CUDA 13.0"; empty when none is known
};
/// Opens no GPU, needs no driver.
[[nodiscard]] GpuList listGpus();

/// A copy from one GPU to another.
struct PeerCopy {
    int from = 0;
    int to = 0;
    bool direct = false; ///< not through the host's memory
    double gbps = 0;     ///< 1e9 bytes a second
    std::string problem; ///< what went wrong; empty when all bytes arrived
};
/// Tries all pairs of GPUs that can be used; empty where there are fewer than two.
[[nodiscard]] std::vector<PeerCopy> tryPeerCopies();

/// "cuda:0" where that GPU can be used, else "cpu".
[[nodiscard]] std::string bestDevice();

/// \throws Error NoDevice when makeGpuOps would; opens nothing
void requireGpu(const std::string &device);

/// \throws Error NoDevice for one that is not there or not for this program, InvalidArgument for no name of one
[[nodiscard]] std::unique_ptr<Ops> makeGpuOps(const std::string &device, bool deterministic,
                                              std::vector<std::string> *notes);

} // namespace kernels
