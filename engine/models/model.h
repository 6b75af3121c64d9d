// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/models/model_config.h"
#include "kernels/ops.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace engine {

class KvCache;

/// The tokens of one step, flattened: a sequence's tokens stand together. Built by the runtime from a Batch.
struct ForwardBatch {
    std::vector<int> tokenIds;       ///< [tokens]
    std::vector<int> positions;      ///< [tokens]
    std::vector<int> slotIds;        ///< [tokens], block * blockTokens + offset
    std::vector<int> queryStarts;    ///< [sequences + 1]
    std::vector<int> contextLengths; ///< [sequences], including this step's tokens
    std::vector<int> blockTables;    ///< [sequences, maxBlocks]
    int maxBlocks = 0;
    /// The same two for layers that hold only a window, with blocks of their own and -1 for what they hold no longer;
    /// empty when the cache has no such layers.
    std::vector<int> windowSlotIds;
    std::vector<int> windowTables;
    std::vector<int> logitRows;    ///< token rows whose logits are wanted
    std::vector<int> ropeVariants; ///< [sequences], by ModelConfig::ropeVariants and known length; empty = all 0
};

/// The experts that a layer's router has picked in one step, by falling weight. Valid during the call.
struct RouterChoice {
    int layer = 0;
    int perToken = 0;
    std::span<const std::int32_t> ids; ///< [tokens, perToken]
    std::span<const float> weights;    ///< [tokens, perToken]
};
using RouterCallback = std::function<void(const RouterChoice &)>;

/// A network with its weights on one rank. Thread: the rank's worker.
class Model {
public:
    virtual ~Model() = default;
    [[nodiscard]] virtual const ModelConfig &config() const = 0;
    /// Bytes of scratch that a step of that size needs.
    [[nodiscard]] virtual std::size_t workspaceBytes(int maxTokens, int maxLogitRows) const = 0;
    /// Allocates that scratch, so that no step up to this size allocates anything; only between steps.
    /// \throws Error OutOfMemory naming the bytes; what was reserved before stays
    virtual void reserve(int maxTokens, int maxLogitRows) = 0;
    [[nodiscard]] virtual std::size_t weightBytes() const = 0; ///< resident
    /// Weight bytes read by one decode step of one sequence; for roofline figures.
    [[nodiscard]] virtual std::size_t bytesPerToken() const = 0;
    /// Runs the layers over `batch`, writing K and V to `kv`; logits [logitRows, vocab] F32.
    virtual void forward(const ForwardBatch &batch, KvCache &kv, kernels::TensorView logits,
                         kernels::Stream &stream) = 0;
    /// Called when a layer begins, with its number; with the number of layers when the output head begins. For
    /// profiles.
    virtual void setLayerCallback(std::function<void(int layer)> callback) = 0;
    /// Called after each choice of experts; for traces. Waits for the device, so none is set in normal work.
    virtual void setRouterCallback(RouterCallback callback) = 0;
};

} // namespace engine
