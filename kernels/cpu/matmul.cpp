// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/matmul.h"

#include "kernels/checks.h"
#include "kernels/cpu/activation.h"

#include <algorithm>

namespace kernels {

namespace {

constexpr int partsPerThread = 4; // so that a stolen core holds back little
constexpr std::int64_t panelsPerPart = 64;

} // namespace

/// Memory of one thread: two tiles and one for gathered rows, unpacked lines, scales, widened columns.
struct Matmul::Worker {
    explicit Worker(AlignedMemory &memory)
    {
        constexpr std::size_t tileFloats = tileRows * panelRows;
        constexpr std::size_t scaleFloats = 2 * quantSliceBlocks * panelRows;
        constexpr std::size_t columnFloats = floatSliceColumns * panelRows;
        constexpr std::size_t lineFloats = quantSliceBlocks * 8 * lineBytes / sizeof(float);
        tile = memory.reserve<float>(3 * tileFloats + lineFloats + 2 * scaleFloats + columnFloats);
        secondTile = tile + tileFloats;
        scratch.gathered = secondTile + tileFloats;
        scratch.scales = scratch.gathered + tileFloats;
        scratch.mins = scratch.scales + scaleFloats;
        scratch.columns = scratch.mins + scaleFloats;
        scratch.lines = reinterpret_cast<std::uint8_t *>(scratch.columns + columnFloats);
    }

    float *tile;
    float *secondTile;
    PanelScratch scratch{};
};

void Matmul::quantize(const PackedPanels &weight, const TensorView &x)
{
    if (weight.needsQuantized())
        m_rounded.round(m_level, m_pool, x, weight.needsHalves());
}

template<typename Body> void Matmul::overTiles(std::int64_t panels, std::int64_t rows, Body body)
{
    const auto threads = static_cast<std::size_t>(m_pool.threads());
    if (m_workers.size() < threads)
        m_workers.resize(threads);
    const std::int64_t share = (panels + m_pool.threads() * partsPerThread - 1) / (m_pool.threads() * partsPerThread);
    const std::int64_t perPart = std::clamp<std::int64_t>(share, 1, panelsPerPart);
    const std::int64_t panelParts = (panels + perPart - 1) / perPart;
    const std::int64_t rowParts = (rows + tileRows - 1) / tileRows;
    m_pool.run(static_cast<int>(panelParts * rowParts), [&](int part, int thread) {
        Worker worker(m_workers[static_cast<std::size_t>(thread)]);
        const std::int64_t firstRow = part / panelParts * tileRows;
        const auto count = static_cast<int>(std::min<std::int64_t>(tileRows, rows - firstRow));
        const std::int64_t firstPanel = part % panelParts * perPart;
        for (std::int64_t p = firstPanel; p < std::min(panels, firstPanel + perPart); ++p)
            body(p, firstRow, count, worker);
    });
}

void Matmul::panelProducts(const PackedPanels::Panel &panel, const TensorView &x, std::int64_t firstRow, int rows,
                           Worker &worker, float *tile)
{
    if (panel.layout->blocks == 0) {
        m_level.floatPanel(*panel.layout, panel.data, rowOf(x, firstRow), x.strides[0], rows, worker.scratch, tile);
        return;
    }
    const RoundedActivations::Tile rounded = m_rounded.tile(firstRow);
    m_level.quantPanel(*panel.layout, panel.data, rounded.rows, rounded.second, rows, worker.scratch, tile);
}

void Matmul::linear(const PackedPanels &weight, const TensorView &x, const TensorView &out, const float *bias,
                    bool accumulate)
{
    quantize(weight, x);
    overTiles(weight.panels(), x.shape[0], [&](std::int64_t p, std::int64_t firstRow, int rows, Worker &worker) {
        const PackedPanels::Panel panel = weight.panel(p);
        panelProducts(panel, x, firstRow, rows, worker, worker.tile);
        const float *panelBias = bias != nullptr ? bias + panel.firstRow : nullptr;
        for (int r = 0; r < rows; ++r)
            finishRow(worker.tile + r * panelRows, panelBias, panel.rows, accumulate,
                      rowOf(out, firstRow + r) + panel.firstRow);
    });
}

void Matmul::gated(const PackedPanels &gateUp, Activation activation, const TensorView &x, const TensorView &out)
{
    quantize(gateUp, x);
    const std::int64_t half = gateUp.panels() / 2;
    overTiles(half, x.shape[0], [&](std::int64_t p, std::int64_t firstRow, int rows, Worker &worker) {
        const PackedPanels::Panel gate = gateUp.panel(p);
        panelProducts(gate, x, firstRow, rows, worker, worker.tile);
        panelProducts(gateUp.panel(half + p), x, firstRow, rows, worker, worker.secondTile);
        if (activation == Activation::Silu)
            m_level.siluMultiply(worker.tile, worker.secondTile, worker.tile, rows * panelRows);
        else
            geluMultiply(activation, worker.tile, worker.secondTile, rows * panelRows);
        for (int r = 0; r < rows; ++r)
            finishRow(worker.tile + r * panelRows, nullptr, gate.rows, false, rowOf(out, firstRow + r) + gate.firstRow);
    });
}

} // namespace kernels
