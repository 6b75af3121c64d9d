// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/request.h"

#include <cstdint>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

namespace engine {

/// A request with what was known when it was submitted.
struct Submission {
    RequestId id = 0;
    Request request;
    double arrivedAt = 0; ///< on the engine's clock
};

struct LoadCommand {
    std::string path;
    EngineConfig config;
    std::stop_token stop;
};
struct UnloadCommand { };
struct SubmitCommand {
    std::vector<Submission> submissions;
    bool forks = false; ///< all of one prompt, to be computed once
};
struct CancelCommand {
    RequestId id = 0;
};
struct SamplingCommand {
    RequestId id = 0;
    SamplingParams sampling;
};
struct LimitsCommand {
    std::uint64_t revision = 0;
    BatchLimits limits;
};
struct RulesCommand {
    std::uint64_t revision = 0;
    AdmissionRules rules;
};
struct KvPoolCommand {
    std::uint64_t revision = 0;
    KvPoolConfig kv;
};
struct ThreadsCommand {
    std::uint64_t revision = 0;
    int threads = 0;
};
struct ContinueCommand {
    std::string device;
};
struct NudgeCommand { }; ///< something outside the mailbox changed: look again

/// What callers ask of the engine thread.
using Command = std::variant<LoadCommand, UnloadCommand, SubmitCommand, CancelCommand, SamplingCommand, LimitsCommand,
                             RulesCommand, KvPoolCommand, ThreadsCommand, ContinueCommand, NudgeCommand>;

} // namespace engine
