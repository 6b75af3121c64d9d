// SPDX-License-Identifier: GPL-3.0-or-later
// Positions, keys and values, and attention over them.
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/device_views.h"

#include <algorithm>
#include <numbers>

namespace kernels::cuda {

namespace {

KvPlane planeOf(const KvLayer &layer, bool keys)
{
    KvPlane plane;
    plane.data = keys ? layer.keys(0, 0) : layer.values(0, 0);
    plane.type = keys ? layer.keyType : layer.valueType;
    plane.heads = layer.kvHeads;
    plane.blockTokens = layer.blockTokens;
    plane.headDim = layer.headDim;
    plane.blockStride = static_cast<std::int64_t>(layer.bytesToNextBlock());
    plane.rowBytes = static_cast<int>(keys ? layer.keyRowBytes() : layer.valueRowBytes());
    return plane;
}

/// What the kernels do not attend to; said by name before anything is computed.
void refuseOthers(const KvLayer &layer, const AttentionShape &shape)
{
    const auto refuse = [](const std::string &what) {
        throw Error(ErrorCode::Refused, "the CUDA kernels do not compute attention with " + what);
    };
    const int most = shape.valuesInKeys ? mostLatentHeadDim : mostHeadDim;
    if (shape.headDim > most)
        refuse("heads of " + std::to_string(shape.headDim) + " elements, wanted " + std::to_string(most) + " at most");
    if (shape.valuesInKeys && shape.valueDim > mostLatentValueDim)
        refuse("latent values of " + std::to_string(shape.valueDim) + " elements, wanted "
               + std::to_string(mostLatentValueDim) + " at most");
    for (const DType type : {layer.keyType, layer.valueType})
        if (!isAttentionType(type))
            refuse("keys or values stored as " + std::string(info(type).name));
}

/// Where the batch stands for others of its size (`largest`), as many as those could have.
void listTiles(const PagedBatch &batch, int groupHeads, bool largest, std::vector<AttentionTile> &tiles)
{
    tiles.clear();
    for (std::size_t s = 0; s < batch.contextLengths.size(); ++s) {
        const int rows = (batch.queryStarts[s + 1] - batch.queryStarts[s]) * groupHeads;
        for (int first = 0; first < rows; first += attentionTileRows)
            tiles.push_back({static_cast<int>(s), first});
    }
    const std::size_t sequences = batch.contextLengths.size();
    const auto rows = static_cast<std::size_t>(batch.queryStarts[sequences] * groupHeads);
    if (largest)
        tiles.resize(std::max(tiles.size(), rows / attentionTileRows + sequences));
}

/// Blocks that a device is kept busy by; fewer share a row's keys among them.
constexpr int fewBlocks = 256;
constexpr std::int64_t mostPartials = 4 << 20; ///< floats; a step that needs more walks through its splits

} // namespace

void CudaOps::rope(TensorView heads, std::span<const int> positions, const RopeTable &table, Stream &stream)
{
    checkRope(heads, positions, table);
    DeviceStream &own = DeviceStream::of(stream);
    m_turns.assign(table.inverseFrequencies.begin(), table.inverseFrequencies.end());
    for (double &turn : m_turns)
        turn /= 2.0 * std::numbers::pi;
    RopeArguments arguments;
    arguments.positions = own.put(positions);
    arguments.turns = own.put(std::span<const double>(m_turns));
    arguments.rotaryDim = table.rotaryDim;
    arguments.interleaved = table.interleaved;
    arguments.attentionFactor = table.attentionFactor;
    launch(own, [&](StreamHandle handle) { launchRope(rowsOf(heads), arguments, handle); });
}

void CudaOps::kvStore(TensorView k, TensorView v, const KvLayer &layer, std::span<const int> slots, Stream &stream)
{
    checkKvStore(k, v, layer, slots, true);
    DeviceStream &own = DeviceStream::of(stream);
    const int *numbers = own.put(slots);
    launch(own, [&](StreamHandle handle) {
        launchKvStore(rowsOf(k), numbers, planeOf(layer, true), handle);
        if (v.rank != 0)
            launchKvStore(rowsOf(v), numbers, planeOf(layer, false), handle);
    });
}

void CudaOps::pagedAttention(TensorView q, const KvLayer &layer, const PagedBatch &batch, const AttentionShape &shape,
                             TensorView out, Stream &stream)
{
    checkAttention(q, layer, batch, shape, out, true);
    refuseOthers(layer, shape);
    DeviceStream &own = DeviceStream::of(stream);
    own.beginOperation();
    AttentionArguments a;
    a.q = rowsOf(q);
    a.out = rowsOf(out);
    a.keys = planeOf(layer, true);
    a.values = planeOf(layer, false);
    a.values.headDim = valueDimOf(shape);
    a.valuesInKeys = shape.valuesInKeys;
    a.groupHeads = shape.heads / shape.kvHeads;
    listTiles(batch, a.groupHeads, own.plans(), m_tiles);
    a.tiles = own.put(std::span<const AttentionTile>(m_tiles));
    a.tileCount = static_cast<int>(m_tiles.size());
    a.queryStarts = own.put(batch.queryStarts);
    a.contextLengths = own.put(batch.contextLengths);
    a.blockTables = own.put(batch.blockTables);
    a.maxBlocks = batch.maxBlocks;
    a.scale = shape.scale;
    a.window = shape.window;
    a.softCap = shape.softCap;
    a.sinks = shape.sinks;
    // From the tables' width, not from lengths: a launch is the same in every step of a shape.
    a.splits = static_cast<int>((std::int64_t{batch.maxBlocks} * batch.blockTokens + attentionSplitKeys - 1)
                                / attentionSplitKeys);
    const std::int64_t partials = std::int64_t{a.splits} * a.q.rows * (a.values.headDim + 2);
    if (own.plans()) // the batch stands for others, of which some may want the most
        (void)own.take<float>(mostPartials);
    else if (a.splits > 1 && a.tileCount * shape.kvHeads < fewBlocks && partials <= mostPartials)
        a.partials = own.take<float>(partials);
    launch(own, [&](StreamHandle handle) { launchAttention(a, handle); });
}

void CudaOps::copyBlock(const KvLayer &layer, int from, int to, Stream &stream)
{
    checkCopyBlock(layer, from, to);
    constexpr std::size_t whole = 16; // what the kernel moves at once
    const std::size_t bytes = layer.blockBytes();
    launch(DeviceStream::of(stream), [&](StreamHandle handle) {
        if (bytes % whole == 0)
            launchCopyBytes(layer.keys(from, 0), layer.keys(to, 0), bytes, handle);
        else
            m_runtime->copy(layer.keys(from, 0), layer.keys(to, 0), bytes, handle);
    });
}

} // namespace kernels::cuda
