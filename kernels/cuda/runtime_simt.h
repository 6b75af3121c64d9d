// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"
#include "kernels/simt/emulator.h"

#include <functional>
#include <vector>

namespace kernels::cuda {

/// A captured step of an emulated device: its launches, which are run again one by one.
class SimtGraph final : public Graph {
public:
    struct Node {
        std::vector<simt::Launch> launches; ///< empty for a copy
        bool coresident = false;
        std::function<void()> copy;
    };

    explicit SimtGraph(std::vector<Node> nodes)
        : m_nodes(std::move(nodes))
    {
    }
    [[nodiscard]] const std::vector<Node> &nodes() const { return m_nodes; }

private:
    std::vector<Node> m_nodes;
};

} // namespace kernels::cuda
