// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/experiment.h"
#include "engine/lab/modelled_side.h"

#include <cstdint>

namespace engine::modelled {

/// What a modelled experiment is given.
struct Trial {
    const ModelledTarget &target;
    std::uint64_t seed = 0;
    const ExperimentHooks &hooks;
};

[[nodiscard]] ExperimentResult overload(const Trial &trial);
[[nodiscard]] ExperimentResult groupedQueries(const Trial &trial);
[[nodiscard]] ExperimentResult flashAttention(const Trial &trial);

} // namespace engine::modelled
