// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/error.h"
#include "engine/api/request.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cli {

/// The options of every command that loads a model, as typed; engineConfig() checks and converts them.
struct ModelOptions {
    std::string model;
    std::string device = "auto";
    int threads = 0;
    std::string isa = "auto";
    std::string backend = "auto";
    int maxModelLen = 0;
    int blockSize = 16;
    int numBlocks = 0;
    std::optional<std::string> kvBytes;
    double memoryReserve = 0.20;
    std::string kvType = "auto";
    std::optional<int> maxNumSeqs; ///< absent = 64, or fewer where a step has fewer tokens
    int maxNumBatchedTokens = 2048;
    bool noPrefixCaching = false;
    std::string policy = "fcfs";
    bool noDeterministic = false;
    bool profile = false;
    std::string onDeviceLoss = "fail";
    std::string deviceProcess = "auto";
    int deviceRestarts = engine::EngineConfig().deviceRestarts;
    std::string cudaGraphs = "on";
    std::optional<std::string> statsFile;
    std::optional<std::uint64_t> seed;
};

/// Adds MODEL and the loading options to `command`.
void addModelOptions(CLI::App &command, ModelOptions &options);

/// \throws Error InvalidArgument for what can be no device
void checkDevice(const std::string &device);
/// One of f32, f16, bf16, q8_0 and fp8. \throws Error InvalidArgument naming `option`
[[nodiscard]] engine::KvType kvTypeOf(const std::string &option, const std::string &text);
/// \throws Error InvalidArgument naming the option, what was found and what is wanted; NoDevice for a device that is
/// not there
[[nodiscard]] engine::EngineConfig engineConfig(const ModelOptions &options);

/// The sampling options; checked by samplingParams().
struct SamplingOptions {
    double temperature = 0;
    int topK = 0;
    double topP = 0;
    double minP = 0;
    double repetitionPenalty = 1;
    double presencePenalty = 0;
    double frequencyPenalty = 0;
    int maxTokens = 0;
    std::vector<std::string> stop;
    int logprobs = -1;
    bool ignoreEos = false;
};

void addSamplingOptions(CLI::App &command, SamplingOptions &options);
[[nodiscard]] engine::SamplingParams samplingParams(const SamplingOptions &options, std::optional<std::uint64_t> seed);

/// Checks every knob of `sampling` against the declared ranges. \throws Error InvalidArgument
void checkSampling(const engine::SamplingParams &sampling);

/// A model file, folder or bare file given by path, or the path of an installed model given by name.
/// \throws Error Refused when there is neither
[[nodiscard]] std::string modelPath(const std::string &nameOrPath);

/// Calls `open` with the model's path. A model that cannot be read is refused input, whatever the system's reason:
/// IoError becomes Refused.
template<typename Open> auto openModel(const std::string &nameOrPath, Open &&open)
{
    try {
        return open(modelPath(nameOrPath));
    } catch (const engine::Error &error) {
        if (error.code() != engine::ErrorCode::IoError)
            throw;
        throw engine::Error(engine::ErrorCode::Refused, error.what());
    }
}

/// "1,2,3" to numbers. \throws Error InvalidArgument naming `option`
[[nodiscard]] std::vector<int> parseIntList(const std::string &text, const char *option);

} // namespace cli
