// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace engine {

/// Time spent per operation kind and layer. Thread: the rank's worker writes; read it when no step runs.
class Profile {
public:
    struct Entry {
        std::int64_t calls = 0;
        double seconds = 0;
    };
    static constexpr int before = -1; ///< the embedding; the layers follow from 0, then what comes after them

    void setLayer(int layer) { m_layer = layer; }
    void add(const char *operation, double seconds);
    void addStep(double seconds);

    /// Two tables as text: by operation and by layer, with shares of the time of all steps. Empty before any step.
    [[nodiscard]] std::string report(int layers) const;
    [[nodiscard]] const std::map<std::pair<int, std::string>, Entry> &entries() const { return m_entries; }

private:
    int m_layer = before;
    Entry m_steps;
    std::map<std::pair<int, std::string>, Entry> m_entries;
};

/// The same operations, each timed into `profile`, which must outlive the result.
[[nodiscard]] std::unique_ptr<kernels::Ops> profiled(std::unique_ptr<kernels::Ops> ops, Profile &profile);

} // namespace engine
