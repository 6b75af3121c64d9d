// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace engine {

struct InspectedTensor {
    std::string name;
    std::string type;
    std::vector<std::int64_t> shape; ///< as the file writes it (GGUF: fastest dimension first)
    std::uint64_t offset = 0;        ///< absolute, in its file
    std::uint64_t bytes = 0;
};

/// What a model file is, read without its weights.
struct ModelDescription {
    std::string format; ///< "gguf", "safetensors"
    std::string architecture;
    std::string name;
    std::int64_t parameters = 0;
    std::uint64_t fileBytes = 0;
    std::int64_t contextLength = 0;
    std::int64_t vocabSize = 0;
    std::int64_t layers = 0;
    std::map<std::string, int> tensorTypes; ///< type name to count
    bool hasChatTemplate = false;
    std::vector<std::string> warnings;
    std::vector<InspectedTensor> tensors;
    std::vector<std::pair<std::string, std::string>> metadataJson; ///< key to compact JSON value, in file order
};

/// A .gguf file, a Hugging Face folder, or one .safetensors file, index or config.json.
/// \throws Error Refused naming file, key or tensor, offset, found and wanted
[[nodiscard]] ModelDescription inspectModel(const std::string &path, bool withTensors = false,
                                            bool withMetadata = false);

} // namespace engine
