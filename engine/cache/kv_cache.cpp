// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kv_cache.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace engine {
namespace {

std::size_t bytesPerLayerBlock(const KvShape &shape)
{
    const auto elements = static_cast<std::size_t>(shape.planes()) * static_cast<std::size_t>(shape.kvHeads)
        * static_cast<std::size_t>(shape.blockTokens) * static_cast<std::size_t>(shape.headDim);
    return elements * static_cast<std::size_t>(kernels::info(shape.dtype).blockBytes);
}

} // namespace

std::size_t KvShape::bytesPerBlock() const
{
    return bytesPerLayerBlock(*this) * static_cast<std::size_t>(layers);
}

KvCache::KvCache(const KvShape &shape, int blocks, kernels::Ops &ops)
    : m_shape(shape)
    , m_blocks(blocks)
    , m_ops(ops)
{
    CHECK(blocks >= 1 && shape.layers >= 1 && shape.bytesPerBlock() > 0);
    const std::array<std::int64_t, 4> layerShape{std::int64_t{blocks} * shape.planes(), shape.kvHeads,
                                                 shape.blockTokens, shape.headDim};
    m_layers.reserve(static_cast<std::size_t>(shape.layers));
    try {
        for (int i = 0; i < shape.layers; ++i)
            m_layers.emplace_back(ops, shape.dtype, layerShape);
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

kernels::TensorView KvCache::layer(int layer)
{
    CHECK(layer >= 0 && layer < m_shape.layers);
    return m_layers[static_cast<std::size_t>(layer)].view();
}

void KvCache::copyBlock(int from, int to, kernels::Stream &stream)
{
    CHECK(from != to && from >= 0 && from < m_blocks && to >= 0 && to < m_blocks);
    for (const Tensor &layer : m_layers)
        m_ops.copyBlock(kernels::makeView(layer.view().data, m_shape.dtype, m_blocks,
                                          m_shape.planes() * m_shape.kvHeads, m_shape.blockTokens, m_shape.headDim),
                        from, to, stream);
}

void KvCache::moveTokens(KvCache &from, std::span<const SlotMove> moves)
{
    KvShape same = from.m_shape;
    same.blockTokens = m_shape.blockTokens;
    CHECK(same == m_shape);
    const auto planes = static_cast<std::size_t>(m_shape.planes()) * static_cast<std::size_t>(m_shape.kvHeads);
    const std::size_t rowBytes =
        bytesPerLayerBlock(m_shape) / planes / static_cast<std::size_t>(m_shape.blockTokens); // one token of one head
    const auto addressOf = [&](KvCache &cache, std::size_t layer, int slot, std::size_t plane) {
        const int size = cache.m_shape.blockTokens;
        CHECK(slot >= 0 && slot / size < cache.m_blocks);
        const std::size_t row =
            (static_cast<std::size_t>(slot / size) * planes + plane) * static_cast<std::size_t>(size)
            + static_cast<std::size_t>(slot % size);
        return cache.m_layers[layer].view().data + row * rowBytes;
    };
    for (std::size_t layer = 0; layer < m_layers.size(); ++layer)
        for (const SlotMove &move : moves)
            for (std::size_t plane = 0; plane < planes; ++plane)
                std::memcpy(addressOf(*this, layer, move.to, plane), addressOf(from, layer, move.from, plane),
                            static_cast<std::size_t>(move.tokens) * rowBytes);
}

} // namespace engine
