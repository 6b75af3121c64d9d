// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"

#include <cstdint>
#include <functional>
#include <map>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace engine {

struct QuantizeOptions {
    std::string input;  ///< a model: a GGUF file, the first shard of a set, or a Hugging Face folder
    std::string output; ///< GGUF file to write; replaced at the end, never half
    std::string type;   ///< a tensor type ("Q4_K") or a mix ("Q4_K_M"); letter case does not count
    /// Pattern and type of matrices that get a type of their own, the first that matches. A pattern is parts of a
    /// tensor name between dots, in GGUF's words ("attn_v", "blk.0") or those of Hugging Face ("v_proj", "layers.0");
    /// `*` stands for any letters.
    std::vector<std::pair<std::string, std::string>> keep;
    std::string importanceFile;  ///< importance matrix in either file form of llama.cpp, or empty
    std::string calibrationText; ///< text that measures the importance, or empty
    std::string importanceOut;   ///< where the measured importance goes, or empty
    int calibrationContext = 512;
    EngineConfig engine; ///< for the measurement; its thread count also for the conversion
    std::function<void(double fraction, const std::string &stage)> progress;
};

/// A matrix that did not get the type asked for.
struct QuantizeFallback {
    std::string tensor;
    std::string requested;
    std::string effective;
    std::string reason;
};

struct QuantizeResult {
    std::uint64_t bytes = 0;          ///< of the file written
    std::map<std::string, int> types; ///< tensors of each type
    int tensors = 0;
    std::vector<QuantizeFallback> fallbacks; ///< in file order
    std::vector<std::string> warnings;
};

/// The names that QuantizeOptions::type takes.
[[nodiscard]] std::vector<std::string> quantizeTypeNames();

/// Writes the model `input` as a GGUF file with its matrices in another type.
/// \throws Error InvalidArgument for a type, pattern or output that cannot be; Refused for a model, matrix or
/// importance that is broken; IoError when the file cannot be written; Cancelled. No file is left behind then.
[[nodiscard]] QuantizeResult quantizeModel(const QuantizeOptions &options, std::stop_token stop);

} // namespace engine
