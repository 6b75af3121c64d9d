// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace engine {

/// What the input channels of one matrix (or of each expert's) carried while text ran through a model.
struct ChannelImportance {
    std::vector<float> sums;   ///< squares summed per channel, [experts, columns]
    std::vector<float> counts; ///< tokens that each expert saw, [experts]; one entry for a plain matrix
};

/// Importance by tensor name ("blk.0.attn_q.weight"), and where it comes from.
struct ImportanceMatrix {
    std::map<std::string, ChannelImportance> tensors;
    std::vector<std::string> datasets;
    std::int64_t chunks = 0;
    std::int64_t chunkTokens = 0;
};

/// Reads either form of llama.cpp's file: GGUF (`TENSOR.in_sum2`, `TENSOR.counts`) or the older .dat.
/// \throws Error Refused naming the file, the entry and what is wrong with it; IoError
/// Source: llama.cpp, tools/imatrix.
[[nodiscard]] ImportanceMatrix readImportanceFile(const std::string &path);

/// Writes the GGUF form. \throws Error IoError; no partial file is left
void writeImportanceFile(const std::string &path, const ImportanceMatrix &matrix);

} // namespace engine
