// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/config.h"
#include "engine/api/modelled.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace engine {

/// What one layer's attention over a whole prompt cost.
struct AttentionCost {
    double seconds = 0;           ///< best of several passes
    std::size_t scratchBytes = 0; ///< most memory that a pass took beside queries, keys, values and output
    double maxDifference = 0;     ///< of the outputs, from those of the other way
};

/// One attention layer of a model's shape on random queries, keys and values, computed in two ways: as the engine
/// does, tile by tile, and with the whole score matrix in memory. Thread: one caller.
class AttentionProbe {
public:
    virtual ~AttentionProbe() = default;
    struct Pair {
        AttentionCost tiled;
        AttentionCost materialised;
    };
    [[nodiscard]] virtual const ModelShape &shape() const = 0; ///< of the whole model, as a dense Llama's
    [[nodiscard]] virtual int threads() const = 0;
    /// \pre context >= 1
    [[nodiscard]] virtual Pair measure(int context, std::uint64_t seed) = 0;
};
/// Reads the shape from the model's files, not its weights. \throws Error as loading does; Refused for a model whose
/// attention has no heads of its own kind (latent attention)
[[nodiscard]] std::unique_ptr<AttentionProbe> makeAttentionProbe(const std::string &path, const EngineConfig &config);

/// Writes a GGUF file of a Llama of this shape with random F16 weights and a vocabulary of numbered tokens.
/// \throws Error IoError naming the file
void writeSyntheticModel(const std::string &path, const ModelShape &shape, std::uint64_t seed);

} // namespace engine
