// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/importance_file.h"
#include "kernels/ops.h"

#include <memory>

namespace engine {

/// Sums the squares of what meets each input channel of the matrices of a model that runs.
/// Thread: as the operations; read it between two steps.
class ChannelWatch {
public:
    ChannelWatch();
    ~ChannelWatch();
    ChannelWatch(const ChannelWatch &) = delete;
    ChannelWatch &operator=(const ChannelWatch &) = delete;

    /// The same operations, watched. This must outlive the result.
    [[nodiscard]] std::unique_ptr<kernels::Ops> around(std::unique_ptr<kernels::Ops> ops);
    /// By tensor name, without the embedding and the head; experts of one tensor together.
    [[nodiscard]] ImportanceMatrix result() const;

    struct State;

private:
    std::unique_ptr<State> m_state;
};

} // namespace engine
