// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace engine {

/// All of one GGUF file but its tensor data.
struct GgufHeader {
    std::uint32_t version = 0;
    std::uint64_t alignment = 32;
    std::uint64_t dataOffset = 0; ///< absolute, where offset 0 of the tensors lies
    Metadata metadata;
    std::vector<TensorInfo> tensors; ///< in file order, `file` 0
    std::vector<std::string> warnings;
};

/// Whether the contents of metadata arrays are kept or only checked; skipped arrays are left out of the metadata.
enum class ArrayContents { Keep, Skip };

/// By the end of its name or the first four bytes.
[[nodiscard]] bool isGgufFile(const std::filesystem::path &path);

/// Reads and checks the header of the GGUF file whose bytes are given; `name` is for errors.
/// \throws Error Refused naming file, key or tensor, offset, found and wanted
[[nodiscard]] GgufHeader readGguf(std::span<const std::byte> bytes, const std::string &name,
                                  ArrayContents arrays = ArrayContents::Keep);

} // namespace engine
