// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/modelled.h"
#include "engine/lab/lab_random.h"
#include "engine/lab/load_generator.h"

#include <cstdint>
#include <vector>

namespace engine {

/// A length with this mean and the spread of a log-normal of sigma 1, rounded and held within [low, high].
[[nodiscard]] int drawLength(LabRandom &random, double mean, int low, int high);

/// Prompts and answers as long as those of ShareGPT: means 161 and 338 tokens (Kwon et al. 2023, figure 11), each at
/// most 1,024. `rate` requests a second by Poisson; 0 = all at once.
[[nodiscard]] std::vector<ModelledRequest> shareGptLengths(int requests, double rate, std::uint64_t seed);

/// The same lengths as requests of random tokens, all at once; shortened in proportion where a request may not have
/// the 2,048 tokens of the longest.
[[nodiscard]] std::vector<LoadRequest> shareGptRequests(int requests, int maxModelLen, int vocabSize,
                                                        std::uint64_t seed);

} // namespace engine
