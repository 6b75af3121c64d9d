// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/attention.h"

#include "kernels/cpu/attention_tile.h"

#include <algorithm>

namespace kernels {

namespace {

constexpr int tileQueryRows = 96; // enough to pay for converting a tile of keys, few enough for the second cache

/// Work of one thread: some query rows and splits [firstSplit, lastSplit). With `partial` each split's result is kept
/// for a second pass, else the rows are finished at once.
struct Item {
    AttentionRows rows;
    int firstSplit = 0;
    int lastSplit = 0;
    float *partial = nullptr;
};

int tokensPerTile(const AttentionCall &call)
{
    return std::max(1, tileQueryRows / call.groupHeads());
}

/// Splits that hold keys of the rows.
void setSplits(const AttentionCall &call, Item &item)
{
    const int sequence = item.rows.sequence;
    const int last = call.position(sequence, item.rows.firstToken + item.rows.tokens - 1);
    item.firstSplit = call.firstKey(call.position(sequence, item.rows.firstToken)) / splitKeys;
    item.lastSplit = last / splitKeys + 1;
}

/// Tiles of query rows, those with most keys first, so that no long one is left for the end.
std::vector<Item> listTiles(const AttentionCall &call)
{
    std::vector<Item> items;
    for (int sequence = 0; sequence < static_cast<int>(call.batch.contextLengths.size()); ++sequence) {
        const int first = call.batch.queryStarts[static_cast<std::size_t>(sequence)];
        const int last = call.batch.queryStarts[static_cast<std::size_t>(sequence) + 1];
        for (int token = first; token < last; token += tokensPerTile(call)) {
            for (int head = 0; head < call.shape.kvHeads; ++head) {
                Item &item = items.emplace_back();
                item.rows = {sequence, head, token, std::min(tokensPerTile(call), last - token)};
                setSplits(call, item);
            }
        }
    }
    std::sort(items.begin(), items.end(), [](const Item &a, const Item &b) {
        return (a.lastSplit - a.firstSplit) * a.rows.tokens > (b.lastSplit - b.firstSplit) * b.rows.tokens;
    });
    return items;
}

void runWhole(const AttentionCall &call, const Item &item, const AttentionSplit *next, AlignedMemory &memory)
{
    AttentionTile tile(call, item.rows, memory);
    tile.totalState().clear(tile.rows(), call.valueStride());
    for (int split = item.firstSplit; split < item.lastSplit; ++split) {
        const AttentionSplit more{item.rows, split + 1};
        tile.attendSplit(split, tile.splitState(), split + 1 < item.lastSplit ? &more : next);
        tile.blend(tile.splitState(), tile.totalState());
    }
    tile.finish(tile.totalState());
}

void blendPartials(const AttentionCall &call, const Item &item, AlignedMemory &memory)
{
    AttentionTile tile(call, item.rows, memory);
    tile.totalState().clear(tile.rows(), call.valueStride());
    const std::size_t size = SoftmaxState::floats(tile.rows(), call.valueStride());
    for (int split = 0; split < item.lastSplit - item.firstSplit; ++split) {
        float *partial = item.partial + static_cast<std::size_t>(split) * size;
        tile.blend(SoftmaxState::at(partial, tile.rows(), call.valueStride()), tile.totalState());
    }
    tile.finish(tile.totalState());
}

} // namespace

void Attention::run(const TensorView &q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                    const TensorView &out)
{
    const AttentionCall call{m_level, q, layer, batch, shape, out};
    const std::vector<Item> tiles = listTiles(call);
    if (m_workers.size() < static_cast<std::size_t>(m_pool.threads()))
        m_workers.resize(static_cast<std::size_t>(m_pool.threads()));

    // Few tiles would leave threads idle: then a long tile's splits are shared out as well.
    const bool few = static_cast<int>(tiles.size()) < 4 * m_pool.threads() && m_pool.threads() > 1;
    std::vector<Item> work;
    std::vector<Item> shared;
    std::size_t floats = 0;
    for (const Item &item : tiles) {
        if (!few || item.lastSplit - item.firstSplit < 2) {
            work.push_back(item);
            continue;
        }
        shared.push_back(item);
        const int rows = item.rows.tokens * call.groupHeads();
        floats +=
            static_cast<std::size_t>(item.lastSplit - item.firstSplit) * SoftmaxState::floats(rows, call.valueStride());
    }
    float *partial = m_partialMemory.reserve<float>(floats);
    for (Item &item : shared) {
        item.partial = partial;
        const std::size_t size = SoftmaxState::floats(item.rows.tokens * call.groupHeads(), call.valueStride());
        for (int split = item.firstSplit; split < item.lastSplit; ++split) {
            work.push_back({item.rows, split, split + 1, partial});
            partial += size;
        }
    }
    const auto attend = [&](int part, int thread) {
        const auto index = static_cast<std::size_t>(part);
        const Item &item = work[index];
        AttentionSplit next;
        if (index + 1 < work.size())
            next = {work[index + 1].rows, work[index + 1].firstSplit};
        const AttentionSplit *following = index + 1 < work.size() ? &next : nullptr;
        AlignedMemory &memory = m_workers[static_cast<std::size_t>(thread)];
        if (item.partial == nullptr)
            return runWhole(call, item, following, memory);
        AttentionTile tile(call, item.rows, memory);
        tile.attendSplit(item.firstSplit, SoftmaxState::at(item.partial, tile.rows(), call.valueStride()), following);
    };
    // Queries of single tokens take stretches, in which what comes next is known; tiles of many, the longest first.
    const bool single = q.shape[0] == std::ssize(batch.contextLengths);
    if (single)
        m_pool.runStretches(static_cast<int>(work.size()), attend);
    else
        m_pool.run(static_cast<int>(work.size()), attend);
    m_pool.run(static_cast<int>(shared.size()), [&](int part, int thread) {
        blendPartials(call, shared[static_cast<std::size_t>(part)], m_workers[static_cast<std::size_t>(thread)]);
    });
}

} // namespace kernels
