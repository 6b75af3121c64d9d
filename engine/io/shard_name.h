// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace engine {

/// Parts of a shard's path, "PREFIX-00001-of-00003.gguf".
struct ShardName {
    std::string prefix; ///< folder and name before the numbers
    int number = 1;     ///< 1-based
    int count = 1;
    std::string extension = ".gguf";

    /// The path of another shard of the same set.
    [[nodiscard]] std::string path(int otherNumber) const;
};

/// Empty when the path is not formed like a shard's.
[[nodiscard]] std::optional<ShardName> parseShardName(std::string_view path, std::string_view extension = ".gguf");

} // namespace engine
