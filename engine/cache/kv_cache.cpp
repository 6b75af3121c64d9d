// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <cstring>
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

KvCache::KvCache(const KvShape &shape, int blocks, kernels::Ops &ops)
    : m_shape(shape)
    , m_blocks(blocks)
    , m_ops(ops)
{
    CHECK(blocks >= 1 && shape.layers >= 1 && shape.bytesPerBlock() > 0);
    CHECK(!shape.keysOnly || shape.types.keys == shape.types.values);
    const std::size_t layerBytes = bytes() / static_cast<std::size_t>(shape.layers);
    m_layers.reserve(static_cast<std::size_t>(shape.layers));
    try {
        for (int i = 0; i < shape.layers; ++i)
            m_layers.push_back(ops.allocate(layerBytes));
    } catch (const kernels::Error &error) {
        if (error.code() != kernels::ErrorCode::OutOfMemory)
            throw;
        throw kernels::Error(kernels::ErrorCode::OutOfMemory,
                             "not enough memory for the KV cache: " + std::to_string(bytes()) + " bytes wanted for "
                                 + std::to_string(blocks) + " blocks of " + std::to_string(shape.blockTokens)
                                 + " tokens (" + error.what() + ")");
    }
}

int KvCache::blocksThatFit(const KvShape &shape, std::size_t budgetBytes)
{
    // Slot numbers, block * blockTokens + offset, are ints.
    const int most = std::numeric_limits<int>::max() / (2 * std::max(1, shape.blockTokens));
    return static_cast<int>(std::min(budgetBytes / shape.bytesPerBlock(), static_cast<std::size_t>(most)));
}

std::size_t KvCache::bytes() const
{
    return m_shape.bytesPerBlock() * static_cast<std::size_t>(m_blocks);
}

kernels::KvLayer KvCache::layer(int layer)
{
    CHECK(layer >= 0 && layer < m_shape.layers);
    return m_shape.layerAt(m_layers[static_cast<std::size_t>(layer)]->data(), m_blocks);
}

void KvCache::copyBlock(int from, int to, kernels::Stream &stream)
{
    CHECK(from != to && from >= 0 && from < m_blocks && to >= 0 && to < m_blocks);
    for (int i = 0; i < m_shape.layers; ++i)
        m_ops.copyBlock(layer(i), from, to, stream);
}

void KvCache::moveTokens(KvCache &from, std::span<const SlotMove> moves)
{
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
            std::memcpy(addressOf(target, what.to), addressOf(source, what.from),
                        static_cast<std::size_t>(what.tokens) * rowBytes);
        };
        copy([head](const kernels::KvLayer &in, int block) { return in.keys(block, head); }, target.keyRowBytes());
        if (!m_shape.keysOnly)
            copy([head](const kernels::KvLayer &in, int block) { return in.values(block, head); },
                 target.valueRowBytes());
    };
    for (int index = 0; index < m_shape.layers; ++index)
        for (const SlotMove &what : moves)
            for (int head = 0; head < m_shape.kvHeads; ++head)
                move(what, index, head);
}

} // namespace engine
