// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/request.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace engine {

/// Lengths drawn evenly from `from` to `to`, both included.
struct LengthRange {
    int from = 0;
    int to = 0;
};
/// "A" or "A:B" with 1 <= A <= B. \throws Error InvalidArgument naming `option`
[[nodiscard]] LengthRange parseLengthRange(const std::string &text, const char *option);

/// One request to send: ids where the vocabulary is known, else text.
struct LoadRequest {
    std::vector<int> ids;
    std::string prompt;   ///< used when `ids` is empty
    int outputTokens = 0; ///< asked for and, end tokens being ignored, given
};

/// The request to an engine: greedy, with end tokens ignored, so that it gives exactly the output asked for.
[[nodiscard]] Request requestOf(const LoadRequest &request);

/// Prompts of random tokens, all beginning with the same `sharedPrefix` ones, which come on top of `input`.
struct RandomWorkload {
    int requests = 0;
    LengthRange input;
    LengthRange output;
    int sharedPrefix = 0;
    int vocabSize = 0; ///< 0 = unknown: prompts are common English words, about one token each
    std::uint64_t seed = 0;
    /// Other tokens for the same lengths, so that a load can be repeated without hits in the prefix cache of the one
    /// before; only with a known vocabulary.
    int variant = 0;
};
[[nodiscard]] std::vector<LoadRequest> makeRandomRequests(const RandomWorkload &workload);

/// What is needed to draw from a ShareGPT file: first question and first answer of each conversation.
struct DatasetWorkload {
    int requests = 0;
    std::optional<LengthRange> output; ///< replaces the lengths of the answers
    int sharedPrefix = 0;              ///< words put before every prompt
    int maxTokens = 0;                 ///< prompt and output together; longer ones are left out. 0 = no limit
    std::uint64_t seed = 0;
};
/// As vLLM's benchmark: in an order drawn by the seed, without conversations whose prompt or answer has fewer than 4
/// tokens, whose prompt has more than 1,024, or which have more than 2,048 together. What is left is used again when
/// more requests are wanted. `countTokens` gives the tokens of a text.
/// \throws Error Refused naming `name` and what is wrong with `text` at which place
[[nodiscard]] std::vector<LoadRequest> makeDatasetRequests(const std::string &text, const std::string &name,
                                                           const DatasetWorkload &workload,
                                                           const std::function<int(const std::string &)> &countTokens);

/// Seconds at which requests are sent: a Poisson process of `rate` a second whose first event is at 0; all 0 when
/// `rate` is 0.
[[nodiscard]] std::vector<double> arrivalTimes(int requests, double rate, std::uint64_t seed);

} // namespace engine
