// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/matmul.h"

#include "kernels/checks.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <tuple>

namespace kernels {

namespace {

constexpr int partsPerThread = 8; // so that a stolen core holds back little
constexpr std::int64_t panelsPerPart = 64;
constexpr int orderedRowsPerPart = 8;
constexpr int leastBfloatRows = 16; // fewer do not pay for the pairs that are made of a panel

/// Of a few calls, after one that brings what they need to the caches.
template<typename Body> double bestSeconds(Body body)
{
    constexpr int calls = 5;
    body();
    double best = std::numeric_limits<double>::infinity();
    for (int i = 0; i < calls; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        body();
        best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
}

/// Whether two panels take the same steps.
bool isSameKind(const PanelLayout &a, const PanelLayout &b)
{
    const auto kind = [](const PanelLayout &layout) {
        return std::tuple(layout.values, layout.scales, layout.hasMin, layout.groupWidth, layout.byteLines,
                          layout.nibbleLines, layout.bitLines, layout.rawType, layout.columns);
    };
    return kind(a) == kind(b);
}

/// Activations to measure with: uneven, so that the share of work that depends on them is there.
std::vector<float> trialActivations(std::int64_t count)
{
    std::vector<float> x(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = static_cast<float>(i * 37 % 101) / 50.0F - 1.0F;
    return x;
}

void addBias(const float *bias, int count, int rows, float *tile)
{
    for (int r = 0; r < rows; ++r) {
        for (int c = 0; c < count; ++c)
            tile[r * panelRows + c] += bias[c];
    }
}

} // namespace

/// Memory of one thread: two tiles, and for each of their panels unpacked lines, scales, widened columns.
struct Matmul::Worker {
    Worker(AlignedMemory &memory, int fetchBytes)
    {
        constexpr std::size_t tileFloats = tileRows * panelRows;
        constexpr std::size_t scaleFloats = 2 * quantSliceBlocks * panelRows;
        constexpr std::size_t columnFloats = floatSliceColumns * panelRows;
        constexpr std::size_t lineFloats = quantSliceBlocks * 8 * lineBytes / sizeof(float);
        constexpr std::size_t eachFloats = tileFloats + 2 * scaleFloats + lineFloats;
        auto *next = memory.reserve<float>(2 * eachFloats + columnFloats);
        float *columns = next + 2 * eachFloats; // panels take turns
        for (int p = 0; p < 2; ++p, next += eachFloats) {
            float *scales = next + tileFloats;
            tiles[p] = next;
            scratch[p] = {reinterpret_cast<std::uint8_t *>(scales + 2 * scaleFloats), scales, scales + scaleFloats,
                          columns, fetchBytes};
        }
    }

    float *tiles[2];
    PanelScratch scratch[2];
};

/// All rows of x, a tile at a time, with one matrix.
std::span<const WeightTile> Matmul::tilesOf(const PackedPanels &weight, const TensorView &x, const float *bias)
{
    m_tiles.clear();
    for (std::int64_t first = 0; first < x.shape[0]; first += tileRows)
        m_tiles.push_back(
            {&weight, bias, {first, static_cast<int>(std::min<std::int64_t>(tileRows, x.shape[0] - first))}});
    return m_tiles;
}

TensorView Matmul::ordered(std::span<const WeightTile> tiles, const TensorView &x, std::size_t input)
{
    const bool any = std::any_of(tiles.begin(), tiles.end(),
                                 [input](const WeightTile &tile) { return !tile.weight->input(input).empty(); });
    if (!any)
        return x;
    const std::int64_t columns = x.shape[1];
    auto *target = m_inputs[input].memory.reserve<float>(static_cast<std::size_t>(x.shape[0] * columns));
    for (const WeightTile &tile : tiles) {
        const std::span<const std::int32_t> order = tile.weight->input(input);
        m_pool.run((tile.range.rows + orderedRowsPerPart - 1) / orderedRowsPerPart, [&](int part, int) {
            const int last = std::min(tile.range.rows, (part + 1) * orderedRowsPerPart);
            for (int r = part * orderedRowsPerPart; r < last; ++r) {
                const float *source = rowOf(x, tile.range.first + r);
                float *row = target + (tile.range.first + r) * columns;
                for (std::int64_t k = 0; k < columns; ++k)
                    row[k] = source[order.empty() ? k : order[static_cast<std::size_t>(k)]];
            }
        });
    }
    return makeView(target, DType::F32, x.shape[0], columns);
}

void Matmul::prepare(std::span<const WeightTile> tiles, const TensorView &x)
{
    bool quantized = false;
    bool halves = false;
    bool bfloat = false;
    std::size_t inputs = 1;
    m_ranges.clear();
    for (const WeightTile &tile : tiles) {
        inputs = std::max(inputs, tile.weight->inputs());
        for (const PackedPanels::Part &part : tile.weight->parts()) {
            if (takesBfloat(part.layout, tile.range.rows)) {
                bfloat = true;
            } else {
                quantized = quantized || tile.weight->needsQuantized();
                halves = halves || tile.weight->needsHalves();
            }
        }
        m_ranges.push_back(tile.range);
    }
    if (m_inputs.size() < inputs)
        m_inputs.resize(inputs);
    for (std::size_t i = 0; i < inputs; ++i) {
        m_inputs[i].x = ordered(tiles, x, i);
        if (quantized)
            m_inputs[i].rounded.round(m_level, m_pool, m_inputs[i].x, m_ranges, halves);
        if (bfloat)
            roundToBfloat(m_inputs[i]);
    }
}

void Matmul::roundToBfloat(Input &input)
{
    const std::int64_t rows = input.x.shape[0];
    const std::int64_t columns = input.x.shape[1];
    input.bfloatStride = (columns + 1) / 2 * 2;
    input.bfloat = input.bfloatMemory.reserve<std::uint16_t>(static_cast<std::size_t>(rows * input.bfloatStride));
    m_pool.run(static_cast<int>((rows + orderedRowsPerPart - 1) / orderedRowsPerPart), [&](int part, int) {
        const std::int64_t last = std::min<std::int64_t>(rows, (std::int64_t{part} + 1) * orderedRowsPerPart);
        for (std::int64_t r = std::int64_t{part} * orderedRowsPerPart; r < last; ++r) {
            std::uint16_t *row = input.bfloat + r * input.bfloatStride;
            m_level.roundBfloat(rowOf(input.x, r), columns, row);
            std::fill(row + columns, row + input.bfloatStride, std::uint16_t{0});
        }
    });
}

const Matmul::Choice *Matmul::choiceOf(const PanelLayout &layout) const
{
    const auto found = std::find_if(m_choices.begin(), m_choices.end(),
                                    [&](const Choice &choice) { return isSameKind(choice.layout, layout); });
    return found != m_choices.end() ? &*found : nullptr;
}

bool Matmul::takesBfloat(const PanelLayout &layout, int rows) const
{
    if (m_level.bfloatPanel == nullptr || rows < leastBfloatRows)
        return false;
    const Choice *choice = choiceOf(layout);
    return choice != nullptr && choice->bfloat;
}

bool Matmul::usesBfloat() const
{
    return std::any_of(m_choices.begin(), m_choices.end(), [](const Choice &choice) { return choice.bfloat; });
}

bool Matmul::isBfloatFaster(const PackedPanels::Panel &panel, Worker &worker)
{
    const Input &input = m_inputs[panel.input];
    const double usual = bestSeconds([&] { panelProducts(panel, 0, {0, tileRows}, worker, worker.tiles[0]); });
    const double inBfloat = bestSeconds([&] {
        m_level.bfloatPanel(*panel.layout, panel.data, input.bfloat, input.bfloatStride, tileRows, worker.scratch[0],
                            worker.tiles[0]);
    });
    return inBfloat < 0.95 * usual;
}

void Matmul::chooseProducts(const PackedPanels &weight)
{
    if (m_level.bfloatPanel == nullptr)
        return;
    if (m_workers.empty())
        m_workers.resize(1);
    Worker worker(m_workers[0], m_level.fetchBytes);
    std::vector<float> x; // m_inputs refer to it
    for (std::int64_t p = 0; p < weight.panels(); ++p) {
        const PackedPanels::Panel panel = weight.panel(p);
        if (choiceOf(*panel.layout) != nullptr)
            continue;
        if (x.empty()) { // what was chosen already is not used while others are measured
            const std::int64_t columns = panel.layout->columns;
            x = trialActivations(tileRows * columns);
            const WeightTile tile{&weight, nullptr, {0, tileRows}};
            prepare({&tile, 1}, makeView(x.data(), DType::F32, std::int64_t{tileRows}, columns));
            for (std::size_t i = 0; i < std::max<std::size_t>(1, weight.inputs()); ++i)
                roundToBfloat(m_inputs[i]);
        }
        m_choices.push_back({*panel.layout, isBfloatFaster(panel, worker)});
    }
}

template<typename Body> void Matmul::overTiles(std::int64_t panels, int together, std::size_t tiles, Body body)
{
    const std::int64_t threads = m_pool.threads();
    if (m_workers.size() < static_cast<std::size_t>(threads))
        m_workers.resize(static_cast<std::size_t>(threads));
    // Parts differ by a group at most, so that threads end together.
    const std::int64_t groups = (panels + together - 1) / together;
    const std::int64_t most = (panels + panelsPerPart - 1) / panelsPerPart;
    const std::int64_t parts = std::min(groups, std::max(threads * partsPerThread, most));
    m_pool.runStretches(static_cast<int>(parts * static_cast<std::int64_t>(tiles)), [&](int part, int thread) {
        Worker worker(m_workers[static_cast<std::size_t>(thread)], m_level.fetchBytes);
        const std::int64_t index = part % parts;
        const auto bound = [&](std::int64_t i) { return std::min(panels, groups * i / parts * together); };
        body(bound(index), bound(index + 1), static_cast<std::size_t>(part / parts), worker);
    });
}

void Matmul::panelProducts(const PackedPanels::Panel &panel, std::int64_t index, const RowRange &range, Worker &worker,
                           float *tile)
{
    const Input &input = m_inputs[panel.input];
    if (takesBfloat(*panel.layout, range.rows)) {
        m_level.bfloatPanel(*panel.layout, panel.data, input.bfloat + range.first * input.bfloatStride,
                            input.bfloatStride, range.rows, worker.scratch[0], tile);
        return;
    }
    if (panel.layout->blocks == 0) {
        m_level.floatPanel(*panel.layout, panel.data, rowOf(input.x, range.first), input.x.strides[0], range.rows,
                           worker.scratch[0], tile);
        return;
    }
    const RoundedActivations::Tile rounded = input.rounded.tile(index, range.first);
    m_level.quantPanel(*panel.layout, panel.data, rounded.rows, rounded.outliers, range.rows, worker.scratch[0], tile);
}

void Matmul::pairProducts(const PackedPanels::Panel &first, const PackedPanels::Panel &second, std::int64_t index,
                          const RowRange &range, Worker &worker)
{
    const PanelLayout &layout = *first.layout;
    const bool fit = m_level.quantPanelPair != nullptr && layout.blocks != 0 && first.input == second.input
        && (first.layout == second.layout || isSameKind(layout, *second.layout)) && !takesBfloat(layout, range.rows);
    if (fit) {
        const RoundedActivations::Tile rounded = m_inputs[first.input].rounded.tile(index, range.first);
        if (m_level.quantPanelPair(layout, {first.data, second.data}, rounded.rows, rounded.outliers, range.rows,
                                   worker.scratch, worker.tiles))
            return;
    }
    panelProducts(first, index, range, worker, worker.tiles[0]);
    panelProducts(second, index, range, worker, worker.tiles[1]);
}

void Matmul::finish(const float *tile, const RowRange &range, const float *bias, const PackedPanels::Panel &panel,
                    bool accumulate, const TensorView &out, const std::int64_t *outRows) const
{
    if (outRows == nullptr)
        return m_level.finishRows(tile, range.rows, bias, panel.rows, accumulate,
                                  rowOf(out, range.first) + panel.firstRow, out.strides[0]);
    for (int r = 0; r < range.rows; ++r)
        m_level.finishRows(tile + r * panelRows, 1, bias, panel.rows, accumulate,
                           rowOf(out, outRows[range.first + r]) + panel.firstRow, 0);
}

void Matmul::linear(const PackedPanels &weight, const TensorView &x, const TensorView &out, const float *bias,
                    bool accumulate)
{
    linear(tilesOf(weight, x, bias), x, out, nullptr, accumulate);
}

void Matmul::gated(const PackedPanels &gateUp, Activation activation, const TensorView &x, const TensorView &out,
                   const float *bias)
{
    gated(tilesOf(gateUp, x, bias), activation, x, out, nullptr);
}

void Matmul::linear(std::span<const WeightTile> tiles, const TensorView &x, const TensorView &out,
                    const std::int64_t *outRows, bool accumulate)
{
    if (tiles.empty())
        return;
    prepare(tiles, x);
    overTiles(tiles[0].weight->panels(), x.shape[0] > 1 ? 2 : 1, tiles.size(),
              [&](std::int64_t begin, std::int64_t end, std::size_t index, Worker &worker) {
                  const WeightTile &tile = tiles[index];
                  const auto store = [&](const PackedPanels::Panel &panel, const float *products) {
                      const float *bias = tile.bias != nullptr ? tile.bias + panel.firstRow : nullptr;
                      finish(products, tile.range, bias, panel, accumulate, out, outRows);
                  };
                  std::int64_t p = begin;
                  for (; p + 1 < end; p += 2) {
                      const PackedPanels::Panel first = tile.weight->panel(p);
                      const PackedPanels::Panel second = tile.weight->panel(p + 1);
                      pairProducts(first, second, static_cast<std::int64_t>(index), tile.range, worker);
                      store(first, worker.tiles[0]);
                      store(second, worker.tiles[1]);
                  }
                  if (p < end) {
                      const PackedPanels::Panel last = tile.weight->panel(p);
                      panelProducts(last, static_cast<std::int64_t>(index), tile.range, worker, worker.tiles[0]);
                      store(last, worker.tiles[0]);
                  }
              });
}

void Matmul::gated(std::span<const WeightTile> tiles, Activation activation, const TensorView &x, const TensorView &out,
                   const std::int64_t *outRows)
{
    if (tiles.empty())
        return;
    prepare(tiles, x);
    const GatedRow activate = m_level.gatedRows[static_cast<std::size_t>(activation)];
    const std::int64_t half = tiles[0].weight->panels() / 2;
    const auto gate = [&](std::int64_t p, std::size_t index, Worker &worker) {
        const WeightTile &tile = tiles[index];
        const PackedPanels::Panel gates = tile.weight->panel(p);
        const PackedPanels::Panel ups = tile.weight->panel(half + p);
        pairProducts(gates, ups, static_cast<std::int64_t>(index), tile.range, worker);
        if (tile.bias != nullptr) {
            addBias(tile.bias + gates.firstRow, gates.rows, tile.range.rows, worker.tiles[0]);
            addBias(tile.bias + ups.firstRow, ups.rows, tile.range.rows, worker.tiles[1]);
        }
        activate(worker.tiles[0], worker.tiles[1], worker.tiles[0], tile.range.rows * panelRows);
        finish(worker.tiles[0], tile.range, nullptr, gates, false, out, outRows);
    };
    overTiles(half, 1, tiles.size(), [&](std::int64_t begin, std::int64_t end, std::size_t index, Worker &worker) {
        for (std::int64_t p = begin; p < end; ++p)
            gate(p, index, worker);
    });
}

} // namespace kernels
