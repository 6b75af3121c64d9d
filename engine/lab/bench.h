// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/lab/request_runner.h"

#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace engine {

/// What to measure; a zero in a list skips that kind. Names follow llama-bench: ppN, tgN, tgN@B.
struct BenchOptions {
    std::vector<int> prompts{512};
    std::vector<int> generates{128};
    std::vector<int> depths{0};
    std::vector<int> batches{1};
    int repetitions = 5;
    std::uint64_t seed = 0;
};

struct Spread {
    double mean = 0;
    double stdev = 0; ///< of the sample
    double minimum = 0;
    double median = 0;
    double maximum = 0;
};
[[nodiscard]] Spread spreadOf(std::vector<double> values); ///< \pre not empty

/// One line of results. tokensPerSecond counts all sequences of the batch together.
struct BenchRow {
    std::string test;
    int batch = 1;
    int depth = 0;
    Spread tokensPerSecond;
    double bytesPerToken = 0; ///< weights over the tokens of a step, plus the KV read by one token
    double bandwidthGbps = 0; ///< bytesPerToken * median rate, 1e9 bytes a second
    double rooflineGbps = 0;  ///< measured read bandwidth of this machine with the same threads
    double rooflineFraction = 0;
    double gflops = 0;       ///< 1e9 operations a second of the matrix products; 0 when they could not be counted
    double peakGflops = 0;   ///< measured, of the instructions that they use, in the mix of the model's types
    double peakFraction = 0; ///< gflops / peakGflops
};

/// Runs every test in turn on the loaded model and hands each row to `onRow`. The model should be loaded without
/// prefix cache, else repetitions would be answered from it. \throws Error Refused when a test does not fit the
/// context, Cancelled
void runBench(RequestRunner &runner, Engine &engine, const ModelInfo &info, const BenchOptions &options,
              const std::function<void(const BenchRow &)> &onRow, std::stop_token stop);

/// Bytes a second that `threads` threads read from memory together: best of several passes over 512 MiB in huge pages,
/// half of which fetch lines ahead.
[[nodiscard]] double measureReadBandwidth(int threads);

} // namespace engine
