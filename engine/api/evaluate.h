// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/events.h"
#include "engine/api/stats.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
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
    /// Calls `row` with each position's logits and with those that the same weights give when keys and values are
    /// stored as `against`. Both are valid during the call.
    /// \throws Error as logits() does; OutOfMemory for the second cache; InvalidArgument from one that has no cache
    virtual void compareKv(std::span<const int> ids, KvType against,
                           const std::function<void(std::span<const float>, std::span<const float>)> &row,
                           std::stop_token stop);
};

[[nodiscard]] std::unique_ptr<Evaluator> openEvaluator(const std::string &path, const EngineConfig &config,
                                                       std::stop_token stop);

struct PerplexityOptions {
    int context = 512;
    KvType klAgainst = KvType::Auto;                   ///< Auto: no comparison
    std::function<void(int done, int total)> progress; ///< chunks
};

/// How far distributions over the next token are from those of a reference P: KL(P || Q) in nats.
/// Source: llama.cpp's `--kl-divergence`, whose figures these are.
struct KlResult {
    double mean = 0;
    double median = 0;
    double p99 = 0;
    double max = 0;
    double sameTop = 0; ///< share of positions with the same most likely token
};

struct PerplexityResult {
    std::size_t tokens = 0;
    double nll = 0; ///< mean
    double perplexity = 0;
    double standardError = 0;    ///< of the perplexity
    std::vector<float> logprobs; ///< positions 1..n-1 of every chunk
    std::optional<KlResult> kl;  ///< over the same positions
};

/// Non-overlapping chunks, a last partial one dropped; BOS, where the model has one, replaces the first token of each.
[[nodiscard]] PerplexityResult perplexity(Evaluator &evaluator, const std::string &text,
                                          const PerplexityOptions &options, std::stop_token stop);

} // namespace engine
