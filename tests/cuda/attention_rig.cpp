// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cuda/attention_rig.h"

#include "tests/support/kernel_data.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <stdexcept>

namespace attention_rig {

using namespace kernels;
using namespace kernels::cuda;
using device_rig::DeviceArray;
using device_rig::Rows;

namespace {

std::vector<float> numbersOf(const Case &c, const Sequence &sequence, int kind, int heads)
{
    const int tokens = std::max(sequence.context, sequence.tokens);
    return kernel_data::randomFloats(static_cast<std::size_t>(tokens * heads * c.headDim),
                                     static_cast<std::uint32_t>(sequence.name * 8 + kind));
}

/// NMSE of a row: queries and weights are rounded to half, or to the sum of two bfloat16.
double limitFor(const Case &c)
{
    const bool bf16 = c.keys == DType::BF16 || c.values == DType::BF16;
    if (!bf16)
        return 2e-6;
    const bool exact = c.keys == DType::BF16 && c.values == DType::BF16;
    return exact ? 1e-8 : 1e-4; // the other type is rounded to bfloat16
}

} // namespace

Step::Step(const Case &c, std::uint32_t placement)
    : m_case(c)
    , m_sinks(kernel_data::randomFloats(static_cast<std::size_t>(c.heads), 99))
{
    for (float &sink : m_sinks)
        sink *= 3.0F;
    int blocks = 2;
    for (const Sequence &sequence : c.sequences) {
        const int own = (sequence.context + c.blockTokens - 1) / c.blockTokens;
        m_maxBlocks = std::max(m_maxBlocks, own);
        m_splits = std::max(m_splits, (sequence.context + attentionSplitKeys - 1) / attentionSplitKeys);
        blocks += own;
    }
    m_layer = {nullptr, c.keys, c.values, blocks, c.kvHeads, c.blockTokens, c.headDim, c.valueDim > 0};
    m_layer.blockStride = m_layer.blockBytes() + 48; // what lies between is another's
    m_bytes.assign(static_cast<std::size_t>(blocks) * m_layer.blockStride - 48, std::byte{0xff}); // NaN in every type
    m_layer.data = m_bytes.data();
    std::vector<int> places(static_cast<std::size_t>(blocks));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(placement));
    m_tables.assign(c.sequences.size() * static_cast<std::size_t>(m_maxBlocks), -1);
    for (std::size_t s = 0; s < c.sequences.size(); ++s) {
        const Sequence &sequence = c.sequences[s];
        for (int block = 0; block * c.blockTokens < sequence.context; ++block) {
            m_tables[s * static_cast<std::size_t>(m_maxBlocks) + static_cast<std::size_t>(block)] = places.back();
            places.pop_back();
        }
        store(sequence, s);
        forgetUnseen(sequence, s);
        const std::vector<float> q = numbersOf(c, sequence, 0, c.heads);
        const auto from = q.end() - static_cast<std::ptrdiff_t>(sequence.tokens) * c.heads * c.headDim;
        std::transform(from, q.end(), std::back_inserter(m_queries), [](float x) { return 6.0F * x; });
        m_starts.push_back(m_starts.back() + sequence.tokens);
        m_contexts.push_back(sequence.context);
        for (int row = 0; row < sequence.tokens * (c.heads / c.kvHeads); row += attentionTileRows)
            m_tiles.push_back({static_cast<int>(s), row});
    }
}

void Step::store(const Sequence &sequence, std::size_t index)
{
    const std::vector<float> k = numbersOf(m_case, sequence, 1, m_case.kvHeads);
    const std::vector<float> v = numbersOf(m_case, sequence, 2, m_case.kvHeads);
    for (int i = 0; i < sequence.context * m_case.kvHeads; ++i) {
        const int position = i / m_case.kvHeads;
        const int head = i % m_case.kvHeads;
        const int block = m_tables[index * static_cast<std::size_t>(m_maxBlocks)
                                   + static_cast<std::size_t>(position / m_case.blockTokens)];
        const auto token = static_cast<std::size_t>(position % m_case.blockTokens);
        storeKvRow(m_case.keys, k.data() + static_cast<std::ptrdiff_t>(i) * m_case.headDim, m_case.headDim,
                   m_layer.keys(block, head) + token * m_layer.keyRowBytes());
        if (m_case.valueDim == 0)
            storeKvRow(m_case.values, v.data() + static_cast<std::ptrdiff_t>(i) * m_case.headDim, m_case.headDim,
                       m_layer.values(block, head) + token * m_layer.valueRowBytes());
    }
}

/// Blocks that the window has left belong to nobody: their numbers lead far out of the cache.
void Step::forgetUnseen(const Sequence &sequence, std::size_t index)
{
    if (m_case.window == 0)
        return;
    const int seen = std::max(0, sequence.context - sequence.tokens + 1 - m_case.window);
    const auto first = m_tables.begin() + static_cast<std::ptrdiff_t>(index) * m_maxBlocks;
    std::fill(first, first + seen / m_case.blockTokens, 1 << 28);
}

std::vector<float> Step::reference() const
{
    const std::unique_ptr<Ops> ops = kernel_data::reference();
    const std::unique_ptr<Stream> stream = ops->makeStream();
    std::vector<float> q = m_queries;
    std::vector<float> out(static_cast<std::size_t>(m_starts.back() * m_case.heads * m_case.outDim()));
    const PagedBatch batch{m_starts, m_contexts, m_tables, m_maxBlocks, m_case.blockTokens};
    ops->pagedAttention(makeView(q.data(), DType::F32, m_starts.back(), m_case.heads, m_case.headDim), m_layer, batch,
                        m_case.shape(m_sinks),
                        makeView(out.data(), DType::F32, m_starts.back(), m_case.heads, m_case.outDim()), *stream);
    return out;
}

std::vector<float> Step::treeReference() const
{
    const int before = m_contexts[0] - m_starts[1]; // keys ahead of the tree
    const auto dim = static_cast<std::size_t>(m_case.headDim);
    std::vector<float> out;
    for (int row = 0; row < m_starts[1] * m_case.heads; ++row) {
        const std::uint64_t mask = m_case.tree[static_cast<std::size_t>(row / m_case.heads)];
        std::vector<double> sums(dim, 0.0);
        double total = 0.0;
        for (int key = 0; key < m_contexts[0]; ++key) {
            const int step = key - before;
            if (step >= 0 && (mask >> step & 1U) == 0)
                continue;
            const int place = step < 0 ? key : before + std::popcount(m_case.tree[static_cast<std::size_t>(step)]) - 1;
            if (m_case.window > 0 && place <= before + std::popcount(mask) - 1 - m_case.window)
                continue;
            std::vector<float> k(dim);
            std::vector<float> v(dim);
            const int block = m_tables[static_cast<std::size_t>(key / m_case.blockTokens)];
            const int head = row % m_case.heads / (m_case.heads / m_case.kvHeads);
            const auto token = static_cast<std::size_t>(key % m_case.blockTokens);
            expandKvRow(m_case.keys, m_layer.keys(block, head) + token * m_layer.keyRowBytes(), m_case.headDim,
                        k.data());
            expandKvRow(m_case.values, m_layer.values(block, head) + token * m_layer.valueRowBytes(), m_case.headDim,
                        v.data());
            const double score = std::inner_product(
                k.begin(), k.end(), m_queries.begin() + static_cast<std::ptrdiff_t>(row) * m_case.headDim, 0.0);
            const double weight = std::exp(score / std::sqrt(static_cast<double>(m_case.headDim)));
            total += weight;
            for (std::size_t i = 0; i < dim; ++i)
                sums[i] += weight * static_cast<double>(v[i]);
        }
        std::transform(sums.begin(), sums.end(), std::back_inserter(out),
                       [total](double sum) { return static_cast<float>(sum / total); });
    }
    return out;
}

KvPlane Step::plane(std::byte *data, DType type) const
{
    KvPlane plane;
    plane.data = data;
    plane.type = type;
    plane.heads = m_case.kvHeads;
    plane.blockTokens = m_case.blockTokens;
    plane.headDim = m_case.headDim;
    plane.blockStride = static_cast<std::int64_t>(m_layer.bytesToNextBlock());
    plane.rowBytes = static_cast<int>(kvRowBytes(type, m_case.headDim));
    return plane;
}

std::vector<float> Step::run(StreamHandle stream, std::string &wrong) const
{
    const DeviceArray<std::byte> cache(m_bytes);
    const DeviceArray<int> starts(m_starts);
    const DeviceArray<int> contexts(m_contexts);
    const DeviceArray<int> tables(m_tables);
    const DeviceArray<AttentionTile> tiles(m_tiles);
    const DeviceArray<float> sinks(m_sinks);
    const int rows = m_starts.back() * m_case.heads;
    const Rows::Layout layout{m_case.heads, m_case.gap, m_case.gap};
    const Rows q(rows, m_case.headDim, m_queries, layout);
    const Rows out(rows, m_case.outDim(), layout);
    const int partialRows = m_case.split ? m_splits * rows : 0;
    const DeviceArray<float> partials(static_cast<std::size_t>(partialRows)
                                      * static_cast<std::size_t>(m_case.outDim() + 2));
    AttentionArguments a;
    a.q = q.span();
    a.out = out.span();
    a.keys = plane(cache.data(), m_case.keys);
    a.values = plane(cache.data() + (m_layer.values(0, 0) - m_layer.keys(0, 0)), m_case.values);
    a.values.headDim = m_case.outDim();
    a.valuesInKeys = m_case.valueDim > 0;
    const DeviceArray<std::uint64_t> tree(m_case.tree);
    a.treeMasks = m_case.tree.empty() ? nullptr : tree.data();
    a.tiles = tiles.data();
    a.tileCount = static_cast<int>(m_tiles.size());
    a.queryStarts = starts.data();
    a.contextLengths = contexts.data();
    a.blockTables = tables.data();
    a.maxBlocks = m_maxBlocks;
    a.groupHeads = m_case.heads / m_case.kvHeads;
    a.scale = 1.0F / std::sqrt(static_cast<float>(m_case.headDim));
    a.window = m_case.window;
    a.softCap = m_case.softCap;
    a.sinks = m_case.sinks ? sinks.data() : nullptr;
    a.splits = m_splits;
    a.partials = m_case.split ? partials.data() : nullptr;
    launchAttention(a, stream);
    if (!out.restIntact() || !q.restIntact() || !partials.bordersIntact())
        wrong = "something was written outside of the rows";
    if (!cache.equals(m_bytes) || !tables.equals(m_tables) || q.values() != m_queries)
        wrong = "an input was changed";
    return out.values();
}

std::string check(const Case &c)
{
    const Step step(c, 7);
    const std::vector<float> wanted = c.tree.empty() ? step.reference() : step.treeReference();
    return device_rig::underSchedules([&](StreamHandle stream) {
        std::string wrong;
        const std::vector<float> found = step.run(stream, wrong);
        return wrong.empty() ? device_rig::compareRows(found, wanted, c.outDim(), limitFor(c)) : wrong;
    });
}

std::vector<float> outputs(const Case &c, std::uint32_t placement, StreamHandle stream)
{
    std::string wrong;
    const std::vector<float> found = Step(c, placement).run(stream, wrong);
    if (!wrong.empty())
        throw std::runtime_error(wrong);
    return found;
}

} // namespace attention_rig
