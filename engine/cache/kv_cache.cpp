// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <limits>

namespace engine {
kernels::KvLayer KvShape::layerAt(std::byte *data, int blocks) const
{
    kernels::KvLayer layer;
    layer.data = data;
    layer.keyType = types.keys;
    layer.valueType = types.values;
    layer.blocks = blocks;
    layer.kvHeads = kvHeads;
    layer.blockTokens = blockTokens;
    layer.headDim = headDim;
    layer.keysOnly = keysOnly;
    return layer;
}

std::size_t KvShape::bytesPerBlock() const
{
    return layerAt(nullptr, 1).blockBytes() * static_cast<std::size_t>(layers);
}

int KvShape::windowLayers() const
{
    return static_cast<int>(std::ranges::count(windowed, true));
}

std::size_t KvShape::windowBytesPerBlock() const
{
    return layerAt(nullptr, 1).blockBytes() * static_cast<std::size_t>(windowLayers());
}

std::size_t KvShape::bytes(const KvSizes &sizes) const
{
    return (bytesPerBlock() - windowBytesPerBlock()) * static_cast<std::size_t>(sizes.blocks)
        + windowBytesPerBlock() * static_cast<std::size_t>(sizes.windowBlocks);
}

KvCache::KvCache(const KvShape &shape, int blocks, kernels::Ops &ops, int windowBlocks)
    : m_shape(shape)
    , m_blocks(blocks)
    , m_windowBlocks(windowBlocks)
    , m_ops(ops)
{
    CHECK(blocks >= 1 && shape.layers >= 1 && shape.bytesPerBlock() > 0);
    CHECK(shape.windowed.empty() || shape.windowed.size() == static_cast<std::size_t>(shape.layers));
    CHECK(windowBlocks >= (shape.windowLayers() > 0 ? 1 : 0));
    CHECK(!shape.keysOnly || shape.types.keys == shape.types.values);
    const std::size_t blockBytes = shape.layerAt(nullptr, 1).blockBytes();
    for (int i = 0; i < shape.layers; ++i) {
        std::size_t &stride = m_strides[holdsWindow(i) ? 1 : 0];
        m_starts.push_back(stride);
        stride += blockBytes;
    }
    try {
        if (m_strides[0] > 0)
            m_context = ops.allocate(m_strides[0] * static_cast<std::size_t>(blocks));
        if (m_strides[1] > 0)
            m_window = ops.allocate(m_strides[1] * static_cast<std::size_t>(windowBlocks));
    } catch (const kernels::Error &error) {
        if (error.code() != kernels::ErrorCode::OutOfMemory)
            throw;
        throw kernels::Error(kernels::ErrorCode::OutOfMemory,
                             "not enough memory for the KV cache: " + std::to_string(bytes()) + " bytes wanted for "
                                 + std::to_string(blocks) + " blocks of " + std::to_string(shape.blockTokens)
                                 + " tokens (" + error.what() + ")");
    }
}

int KvCache::blocksThatFit(const KvShape &shape, std::size_t budgetBytes, int windowBlocks)
{
    // Slot numbers, block * blockTokens + offset, are ints.
    const auto most = static_cast<std::size_t>(std::numeric_limits<int>::max() / (2 * std::max(1, shape.blockTokens)));
    const std::size_t windows = shape.windowBytesPerBlock() * static_cast<std::size_t>(windowBlocks);
    const std::size_t ofContext = shape.bytesPerBlock() - shape.windowBytesPerBlock();
    std::size_t fit = budgetBytes / shape.bytesPerBlock();
    if (windows > 0 && fit > static_cast<std::size_t>(windowBlocks))
        fit = ofContext > 0 ? (budgetBytes - windows) / ofContext : most;
    return static_cast<int>(std::min(fit, most));
}

std::size_t KvCache::bytes() const
{
    return m_shape.bytes({.blocks = m_blocks, .windowBlocks = m_windowBlocks});
}

bool KvCache::holdsWindow(int layer) const
{
    return !m_shape.windowed.empty() && m_shape.windowed[static_cast<std::size_t>(layer)];
}

kernels::KvLayer KvCache::layer(int layer)
{
    CHECK(layer >= 0 && layer < m_shape.layers);
    const bool window = holdsWindow(layer);
    kernels::KvLayer view =
        m_shape.layerAt((window ? m_window : m_context)->data(), window ? m_windowBlocks : m_blocks);
    view.data += m_starts[static_cast<std::size_t>(layer)];
    view.blockStride = m_strides[window ? 1 : 0];
    return view;
}

void KvCache::copyBlock(const BlockCopy &copy, kernels::Stream &stream)
{
    const int blocks = copy.window ? m_windowBlocks : m_blocks;
    CHECK(copy.from != copy.to && copy.from >= 0 && copy.from < blocks && copy.to >= 0 && copy.to < blocks);
    for (int i = 0; i < m_shape.layers; ++i)
        if (holdsWindow(i) == copy.window)
            m_ops.copyBlock(layer(i), copy.from, copy.to, stream);
}

void KvCache::moveTokens(KvCache &from, std::span<const SlotMove> moves)
{
    const std::unique_ptr<kernels::Stream> stream = m_ops.makeStream();
    KvShape same = from.m_shape;
    same.blockTokens = m_shape.blockTokens;
    CHECK(same == m_shape);
    const auto move = [&](const SlotMove &what, int index, int head) {
        const kernels::KvLayer target = layer(index);
        const kernels::KvLayer source = from.layer(index);
        const auto copy = [&](auto rowsOf, std::size_t rowBytes) { // rows of one head follow one another in a block
            const auto addressOf = [&](const kernels::KvLayer &in, int slot) {
                CHECK(slot >= 0 && slot / in.blockTokens < in.blocks);
                return rowsOf(in, slot / in.blockTokens) + static_cast<std::size_t>(slot % in.blockTokens) * rowBytes;
            };
            m_ops.transfer(addressOf(source, what.from), addressOf(target, what.to),
                           static_cast<std::size_t>(what.tokens) * rowBytes, *stream);
        };
        copy([head](const kernels::KvLayer &in, int block) { return in.keys(block, head); }, target.keyRowBytes());
        if (!m_shape.keysOnly)
            copy([head](const kernels::KvLayer &in, int block) { return in.values(block, head); },
                 target.valueRowBytes());
    };
    for (int index = 0; index < m_shape.layers; ++index)
        for (const SlotMove &what : moves)
            for (int head = 0; what.window == holdsWindow(index) && head < m_shape.kvHeads; ++head)
                move(what, index, head);
    stream->synchronize();
}

} // namespace engine
