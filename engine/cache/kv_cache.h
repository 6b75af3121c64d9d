// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/cache/block_manager.h"
#include "kernels/ops.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace engine {

/// How keys and values are stored; each F32, F16, BF16, Q8_0 or E4M3.
struct KvTypes {
    kernels::DType keys = kernels::DType::F16;
    kernels::DType values = kernels::DType::F16;
    bool operator==(const KvTypes &) const = default;
};

/// Sizes that fix one rank's KV cache; made by ModelConfig::kvShape().
struct KvShape {
    int layers = 0;
    int kvHeads = 0;       ///< on this rank, after the tensor-parallel split
    int headDim = 0;       ///< elements
    int blockTokens = 16;  ///< tokens in one block, a power of two
    bool keysOnly = false; ///< one plane: values are parts of the keys (latent attention)
    KvTypes types;         ///< the same for both with keysOnly
    /// [layers], those that hold only a window and have blocks of their own; empty = none
    std::vector<bool> windowed;

    [[nodiscard]] int windowLayers() const;
    /// Bytes of one block over all layers, keys and values together.
    [[nodiscard]] std::size_t bytesPerBlock() const;
    /// Of that, the layers that hold only a window.
    [[nodiscard]] std::size_t windowBytesPerBlock() const;
    /// Bytes of a pool. \pre its blockTokens are those of the shape
    [[nodiscard]] std::size_t bytes(const KvSizes &sizes) const;
    /// Bytes of one token over all layers.
    [[nodiscard]] std::size_t bytesPerToken() const { return bytesPerBlock() / static_cast<std::size_t>(blockTokens); }
    /// One layer of `blocks` blocks at `data`, which follow one another.
    [[nodiscard]] kernels::KvLayer layerAt(std::byte *data, int blocks) const;
    bool operator==(const KvShape &) const = default;
};

/// Paged key/value storage of one rank.
///
/// The same block of all layers of a kind lies in one stretch of memory, each laid out as kernels::KvLayer says: a
/// short chat then touches few pages, so they can be huge ones, and a block is copied at once. KvCache owns the bytes;
/// who uses which block is known to BlockManager alone. Memory is committed by the system page by page as blocks are
/// first written; until then it reads as zero.
///
/// Thread: the rank's worker only.
/// Source: Kwon et al. 2023, arXiv:2309.06180, section 4 (PagedAttention).
class KvCache {
public:
    /// Allocates `blocks` blocks on the device of `ops`, which must outlive this, and `windowBlocks` in layers that
    /// hold only a window. \pre blocks >= 1, and windowBlocks >= 1 when there are such layers
    /// \throws Error OutOfMemory, naming the bytes asked for; keeps nothing.
    KvCache(const KvShape &shape, int blocks, kernels::Ops &ops, int windowBlocks = 0);

    /// Most blocks that fit in `budgetBytes`, beside up to `windowBlocks` in layers that hold only a window, which
    /// never need more than the others; 0 when not one does.
    [[nodiscard]] static int blocksThatFit(const KvShape &shape, std::size_t budgetBytes, int windowBlocks = 0);

    [[nodiscard]] const KvShape &shape() const { return m_shape; }
    [[nodiscard]] int blocks() const { return m_blocks; }
    [[nodiscard]] int windowBlocks() const { return m_windowBlocks; }
    [[nodiscard]] bool holdsWindow(int layer) const; ///< and nothing before it
    [[nodiscard]] std::size_t bytes() const;         ///< of the whole pool, committed or not

    /// One layer; the view lives as long as this. \pre 0 <= layer < layers
    [[nodiscard]] kernels::KvLayer layer(int layer);

    /// Queues on `stream` a copy of one block over another in every layer of its kind. \pre from != to
    void copyBlock(const BlockCopy &copy, kernels::Stream &stream);

    /// Copies tokens out of another pool of the same model, whose blocks may be of another size.
    /// \pre both shapes differ in blockTokens alone; every move lies within both pools
    void moveTokens(KvCache &from, std::span<const SlotMove> moves);

private:
    KvShape m_shape;
    int m_blocks = 0;
    int m_windowBlocks = 0;
    kernels::Ops &m_ops;
    std::vector<std::size_t> m_starts; ///< [layers], bytes in front of a layer in each block of its kind
    std::size_t m_strides[2] = {0, 0}; ///< bytes of a block over all layers with context, and over those with a window
    std::unique_ptr<kernels::Buffer> m_context;
    std::unique_ptr<kernels::Buffer> m_window; ///< of layers that hold only a window; none without such
};

} // namespace engine
