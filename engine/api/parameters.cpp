// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>

namespace engine {
namespace {

constexpr double mebibyte = 1024.0 * 1024.0;

constexpr std::array<std::string_view, 3> policies{"fcfs", "priority", "shortest"};
constexpr std::array<std::string_view, 2> offOn{"off", "on"};

constexpr std::array specs{
    ParameterSpec{"temperature", "Temperature", "", 0, 5, 0.01, 0.8, Applies::NextStep, "sampling",
                  "Flattens the choice between tokens; 0 always takes the most probable one."},
    ParameterSpec{"top-k", "Top k", "tokens", 0, 1000, 1, 40, Applies::NextStep, "sampling",
                  "Chooses among this many of the most probable tokens; 0 is off."},
    ParameterSpec{"top-p", "Top p", "", 0, 1, 0.01, 0.95, Applies::NextStep, "sampling",
                  "Chooses among the fewest tokens that together reach this probability; 1 is off."},
    ParameterSpec{"min-p", "Min p", "", 0, 1, 0.01, 0, Applies::NextStep, "sampling",
                  "Drops tokens less probable than this share of the most probable one; 0 is off."},
    ParameterSpec{"repetition-penalty", "Repetition penalty", "", 0.1, 3, 0.01, 1, Applies::NextStep, "sampling",
                  "Divides the logit of every token that prompt or answer already hold; 1 is off."},
    ParameterSpec{"presence-penalty", "Presence penalty", "", -2, 2, 0.01, 0, Applies::NextStep, "sampling",
                  "Taken once from the logit of every token that prompt or answer already hold; 0 is off."},
    ParameterSpec{"frequency-penalty", "Frequency penalty", "", -2, 2, 0.01, 0, Applies::NextStep, "sampling",
                  "Taken from a token's logit once for every time that prompt or answer hold it; 0 is off."},
    ParameterSpec{"max-tokens", "Max tokens", "tokens", 0, 1048576, 1, 0, Applies::NextStep, "sampling",
                  "Ends an answer after this many tokens; 0 lets it go on until the context is full."},
    ParameterSpec{"max-num-seqs", "Max sequences", "requests", 1, 1024, 1, 64, Applies::NextStep, "engine",
                  "Requests that share one step; more raise throughput, and each one's wait between tokens."},
    ParameterSpec{"max-num-batched-tokens", "Max batched tokens", "tokens", 1, 65536, 1, 2048, Applies::NextStep,
                  "engine",
                  "Tokens of one step, decode and prompt together; more speed prompts up and make others wait longer."},
    ParameterSpec{"block-size", "Block size", "tokens", 8, 128, 8, 16, Applies::NextStep, "engine",
                  "Tokens in one KV block; small blocks waste less and share more, large ones cost less bookkeeping.",
                  true},
    ParameterSpec{"kv-cache-memory-bytes", "KV cache", "bytes", 0, 1048576.0 * mebibyte, mebibyte, 0, Applies::NextStep,
                  "engine",
                  "Memory of the KV pool; 0 takes what all requests can need, at most a quarter of free memory."},
    ParameterSpec{"num-gpu-blocks-override", "KV blocks", "blocks", 0, 1073741824, 1, 0, Applies::NextStep, "engine",
                  "Sets the number of KV blocks itself; 0 derives it from the memory."},
    ParameterSpec{"threads", "Threads", "threads", 0, 1024, 1, 0, Applies::NextStep, "engine",
                  "CPU threads that compute; 0 takes one for every core."},
    ParameterSpec{"scheduling-policy", "Scheduling policy", "", 0, 2, 1, 0, Applies::NextStep, "engine",
                  "Who is let in next: the first to come, the most important, or the shortest prompt.", false,
                  policies},
    ParameterSpec{"admission-reserve", "Admission reserve", "", 0, 0.9, 0.01, 0.2, Applies::NextStep, "engine",
                  "Share of the KV pool kept free when a request joins running ones; less of it preempts more often."},
    ParameterSpec{"max-num-queued-reqs", "Queued requests", "requests", 0, 1000000, 1, 0, Applies::NextStep, "engine",
                  "Requests that may wait for a place, others are refused at once; 0 sets no limit."},
    ParameterSpec{"max-num-queued-tokens", "Queued tokens", "tokens", 0, 1073741824, 1, 0, Applies::NextStep, "engine",
                  "Prompt tokens that may wait for a place, others are refused at once; 0 sets no limit."},
    ParameterSpec{"enable-prefix-caching", "Prefix cache", "", 0, 1, 1, 1, Applies::NextStep, "engine",
                  "Keeps the blocks of ended requests, so that prompts which begin alike are not computed again.",
                  false, offOn},
    ParameterSpec{"max-model-len", "Max context", "tokens", 0, 1073741824, 1, 0, Applies::Reload, "engine",
                  "Prompt and answer of one request together; 0 takes the model's own, at most 8192."},
    ParameterSpec{"memory-reserve", "Memory reserve", "", 0, 0.9, 0.01, 0.2, Applies::Reload, "engine",
                  "Share of free memory that is kept for peaks."},
};

std::string text(double value)
{
    std::array<char, 32> buffer{};
    (void)std::snprintf(buffer.data(), buffer.size(), "%.12g", value);
    return buffer.data();
}

bool isPowerMultiple(const ParameterSpec &spec, double value)
{
    double allowed = spec.minimum;
    while (allowed < value)
        allowed *= 2;
    return allowed == value;
}

} // namespace

std::span<const ParameterSpec> parameterSpecs()
{
    return specs;
}

const ParameterSpec *findParameter(std::string_view key)
{
    const auto it = std::ranges::find(specs, key, &ParameterSpec::key);
    return it != specs.end() ? &*it : nullptr;
}

std::string checkParameter(const ParameterSpec &spec, double value)
{
    const std::string found = std::string(spec.key) + ": found " + text(value) + ", wanted ";
    if (!(value >= spec.minimum && value <= spec.maximum))
        return found + text(spec.minimum) + " to " + text(spec.maximum);
    if (spec.powersOfTwo && !isPowerMultiple(spec, value))
        return found + text(spec.minimum) + " times a power of two, at most " + text(spec.maximum);
    if (spec.step >= 1 && value != std::floor(value))
        return found + "a whole number from " + text(spec.minimum) + " to " + text(spec.maximum);
    return {};
}

} // namespace engine
