// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/api/stats.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// A model held for evaluation, outside the serving loop. Thread: one caller.
class Evaluator {
public:
    virtual ~Evaluator() = default;
    [[nodiscard]] virtual const ModelInfo &info() const = 0;
    [[nodiscard]] virtual EngineTotals totals() const = 0; ///< of all calls of logits() so far
    [[nodiscard]] virtual int vocabSize() const = 0;
    [[nodiscard]] virtual bool addsBos() const = 0;
    [[nodiscard]] virtual int bosId() const = 0;                                      ///< -1 when the model has none
    [[nodiscard]] virtual std::vector<int> encode(const std::string &text) const = 0; ///< without BOS
    /// Calls `row` with each position's logits [vocab] in order; only the last position unless `allPositions`.
    /// \throws Error Refused for ids outside the vocabulary or more than the context holds; Cancelled
    virtual void logits(std::span<const int> ids, bool allPositions,
                        const std::function<void(std::span<const float>)> &row, std::stop_token stop) = 0;
};

[[nodiscard]] std::unique_ptr<Evaluator> openEvaluator(const std::string &path, const EngineConfig &config,
                                                       std::stop_token stop);

struct PerplexityOptions {
    int context = 512;
    std::function<void(int done, int total)> progress; ///< chunks
};

struct PerplexityResult {
    std::size_t tokens = 0;
    double nll = 0; ///< mean
    double perplexity = 0;
    double standardError = 0;    ///< of the perplexity
    std::vector<float> logprobs; ///< positions 1..n-1 of every chunk
};

/// Non-overlapping chunks, a last partial one dropped; BOS, where the model has one, replaces the first token of each.
[[nodiscard]] PerplexityResult perplexity(Evaluator &evaluator, const std::string &text,
                                          const PerplexityOptions &options, std::stop_token stop);

} // namespace engine
