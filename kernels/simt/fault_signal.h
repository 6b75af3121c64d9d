// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>
#include <vector>

namespace simt {

/// Names block and thread on standard error when a kernel reads or writes where it must not, then lets the process die
/// as it would have. A program with handlers of its own keeps them, and so does ASan. One per worker.
class FaultSignal {
public:
    FaultSignal();
    ~FaultSignal();
    FaultSignal(const FaultSignal &) = delete;
    FaultSignal &operator=(const FaultSignal &) = delete;

private:
    std::vector<char> m_stack; ///< the fiber's own may be full
    stack_t m_old{};
};

} // namespace simt
