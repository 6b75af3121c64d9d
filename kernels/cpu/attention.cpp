// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/attention.h"

#include <algorithm>

namespace kernels {

namespace {

constexpr int tileQueryRows = 96; // enough to pay for converting a tile of keys, few enough for the second cache
constexpr int itemsPerThread = 4; // fewer would leave threads idle in the end

int tokensPerTile(const AttentionCall &call)
{
    return std::max(1, tileQueryRows / call.groupHeads());
}

/// Every sequence has one query: a decode step.
bool isDecode(const AttentionCall &call)
{
    return call.q.shape[0] == std::ssize(call.batch.contextLengths);
}

int lastSplitOf(const AttentionCall &call, const AttentionRows &rows)
{
    return call.position(rows.sequence, rows.firstToken + rows.tokens - 1) / splitKeys + 1;
}

int firstSplitOf(const AttentionCall &call, const AttentionRows &rows)
{
    return call.firstKey(call.position(rows.sequence, rows.firstToken)) / splitKeys;
}

/// Heads whose keys and values one thread goes through together, block by block as they lie in memory: all of them, as
/// long as there is enough work for all threads. Rows that widen keys first have a tile of them in the cache instead.
int headsTogether(const AttentionCall &call, int threads)
{
    if (!isDecode(call) || call.groupHeads() > directRows)
        return 1;
    int splits = 0;
    for (int sequence = 0; sequence < static_cast<int>(call.batch.contextLengths.size()); ++sequence) {
        const AttentionRows rows{sequence, 0, call.batch.queryStarts[static_cast<std::size_t>(sequence)], 1};
        splits += lastSplitOf(call, rows) - firstSplitOf(call, rows);
    }
    return threads == 1 || splits >= itemsPerThread * threads ? call.shape.kvHeads : 1;
}

std::size_t partialFloats(const AttentionCall &call, const AttentionRows &rows)
{
    return SoftmaxState::floats(rows.tokens * call.groupHeads(), call.valueStride());
}

} // namespace

/// Tiles of query rows. Those of prompts with most keys first, so that no long one is left for the end.
void Attention::listItems(const AttentionCall &call)
{
    m_items.clear();
    const int heads = headsTogether(call, m_pool.threads());
    for (int sequence = 0; sequence < static_cast<int>(call.batch.contextLengths.size()); ++sequence) {
        const int first = call.batch.queryStarts[static_cast<std::size_t>(sequence)];
        const int last = call.batch.queryStarts[static_cast<std::size_t>(sequence) + 1];
        for (int token = first; token < last; token += tokensPerTile(call)) {
            for (int head = 0; head < call.shape.kvHeads; head += heads) {
                Item &item = m_items.emplace_back();
                item.rows = {sequence, head, token, std::min(tokensPerTile(call), last - token)};
                item.heads = heads;
                item.firstSplit = firstSplitOf(call, item.rows);
                item.lastSplit = lastSplitOf(call, item.rows);
            }
        }
    }
    if (isDecode(call)) // the order of memory
        return;
    std::sort(m_items.begin(), m_items.end(), [](const Item &a, const Item &b) {
        return (a.lastSplit - a.firstSplit) * a.rows.tokens > (b.lastSplit - b.firstSplit) * b.rows.tokens;
    });
}

/// Few items would leave threads idle: then a long one's splits are shared out as well.
void Attention::shareOut(const AttentionCall &call)
{
    m_work.clear();
    m_shared.clear();
    const bool few = static_cast<int>(m_items.size()) < itemsPerThread * m_pool.threads() && m_pool.threads() > 1;
    std::size_t floats = 0;
    for (const Item &item : m_items) {
        if (!few || item.lastSplit - item.firstSplit < 2) {
            m_work.push_back(item);
            continue;
        }
        m_shared.push_back(item);
        floats +=
            static_cast<std::size_t>((item.lastSplit - item.firstSplit) * item.heads) * partialFloats(call, item.rows);
    }
    float *partial = m_partialMemory.reserve<float>(floats);
    for (Item &item : m_shared) {
        item.partial = partial;
        for (int split = item.firstSplit; split < item.lastSplit; ++split) {
            m_work.push_back({item.rows, item.heads, split, split + 1, partial});
            partial += static_cast<std::size_t>(item.heads) * partialFloats(call, item.rows);
        }
    }
}

/// One split for all heads of an item, tile by tile, into their split states. `next` is what this thread will probably
/// do then: its first keys and values are fetched.
void Attention::attendSplit(const AttentionCall &call, const Item &item, int split, const Item *next,
                            Worker &worker) const
{
    const bool fetches = worker.tiles.front().readsStored();
    KeyRange range = keysOf(call, item.rows, split);
    for (; range.begin < range.end; range.begin += keyTile) {
        worker.ahead.clear();
        if (fetches && range.begin + keyTile < range.end)
            worker.ahead.list(call, item.rows, item.heads, {range.begin + keyTile, range.end});
        else if (fetches && next != nullptr)
            worker.ahead.list(call, next->rows, next->heads, keysOf(call, next->rows, next->firstSplit));
        for (int head = 0; head < item.heads; ++head) {
            AttentionTile &tile = worker.tiles[static_cast<std::size_t>(head)];
            tile.attendKeys(range, tile.splitState(), worker.ahead.part(2 * head), worker.ahead.part(2 * head + 1));
        }
    }
}

void Attention::attend(const AttentionCall &call, const Item &item, const Item *next, Worker &worker) const
{
    const std::size_t size = AttentionTile::floats(call, item.rows);
    float *memory = worker.memory.reserve<float>(size * static_cast<std::size_t>(item.heads));
    worker.tiles.clear();
    AttentionRows rows = item.rows;
    for (int head = 0; head < item.heads; ++head, ++rows.kvHead)
        worker.tiles.emplace_back(call, rows, memory + static_cast<std::size_t>(head) * size);
    if (item.partial != nullptr) {
        float *partial = item.partial;
        for (AttentionTile &tile : worker.tiles) {
            tile.keepSplitAt(partial);
            partial += partialFloats(call, item.rows);
        }
    } else {
        for (AttentionTile &tile : worker.tiles)
            tile.totalState().clear(tile.rows(), call.valueStride());
    }
    for (int split = item.firstSplit; split < item.lastSplit; ++split) {
        for (AttentionTile &tile : worker.tiles)
            tile.splitState().clear(tile.rows(), call.valueStride());
        Item more = item;
        more.firstSplit = split + 1;
        attendSplit(call, item, split, split + 1 < item.lastSplit ? &more : next, worker);
        for (AttentionTile &tile : worker.tiles)
            if (item.partial == nullptr)
                tile.blend(tile.splitState(), tile.totalState());
    }
    for (AttentionTile &tile : worker.tiles)
        if (item.partial == nullptr)
            tile.finish(tile.totalState());
}

void Attention::blendPartials(const AttentionCall &call, const Item &item, Worker &worker) const
{
    float *memory = worker.memory.reserve<float>(AttentionTile::floats(call, item.rows));
    const std::size_t size = partialFloats(call, item.rows);
    AttentionRows rows = item.rows;
    for (int head = 0; head < item.heads; ++head, ++rows.kvHead) {
        AttentionTile tile(call, rows, memory);
        tile.totalState().clear(tile.rows(), call.valueStride());
        for (int split = 0; split < item.lastSplit - item.firstSplit; ++split) {
            float *partial = item.partial + static_cast<std::size_t>(split * item.heads + head) * size;
            tile.blend(SoftmaxState::at(partial, tile.rows(), call.valueStride()), tile.totalState());
        }
        tile.finish(tile.totalState());
    }
}

void Attention::run(const TensorView &q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                    const TensorView &out)
{
    const AttentionCall call(m_level, q, layer, batch, shape, out);
    if (m_workers.size() < static_cast<std::size_t>(m_pool.threads()))
        m_workers.resize(static_cast<std::size_t>(m_pool.threads()));
    listItems(call);
    shareOut(call);
    for (Worker &worker : m_workers) { // now, as a thread may come to its first work in any later step
        worker.tiles.reserve(static_cast<std::size_t>(shape.kvHeads));
        worker.ahead.reserve(shape.kvHeads);
    }
    const auto part = [&](int index, int thread) {
        const auto i = static_cast<std::size_t>(index);
        attend(call, m_work[i], i + 1 < m_work.size() ? &m_work[i + 1] : nullptr,
               m_workers[static_cast<std::size_t>(thread)]);
    };
    // Queries of single tokens take stretches, in which what comes next is known; tiles of many, the longest first.
    if (isDecode(call))
        m_pool.runStretches(static_cast<int>(m_work.size()), part);
    else
        m_pool.run(static_cast<int>(m_work.size()), part);
    m_pool.run(static_cast<int>(m_shared.size()), [&](int index, int thread) {
        blendPartials(call, m_shared[static_cast<std::size_t>(index)], m_workers[static_cast<std::size_t>(thread)]);
    });
}

} // namespace kernels
