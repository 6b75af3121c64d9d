// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/packed_panels.h"

#include "kernels/cpu/panel_pack.h"
#include "kernels/error.h"

#include <algorithm>
#include <utility>

namespace kernels {

namespace {

/// What is packed before the source's pages are given back: of a large matrix both copies would be resident at once.
constexpr std::size_t stretchBytes = std::size_t{16} << 20U;

void packPanels(const WeightPart &source, const PanelLayout &layout, std::int64_t panels, std::uint8_t *target,
                ThreadPool &pool)
{
    const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(stretchBytes / layout.panelBytes));
    const std::int64_t stretch = source.packed ? most : panels;
    for (std::int64_t first = 0; first < panels; first += stretch) {
        const std::int64_t count = std::min(stretch, panels - first);
        pool.run(static_cast<int>(count), [&](int p, int) {
            packPanel(source, layout, (first + p) * panelRows,
                      target + static_cast<std::size_t>(first + p) * layout.panelBytes);
        });
        if (source.packed)
            source.packed(first * panelRows, std::min(count * panelRows, source.rows - first * panelRows));
    }
}

} // namespace

PackedPanels::PackedPanels(std::span<const WeightPart> parts, WeightArena &arena, ThreadPool &pool)
{
    m_columns = parts[0].columns;
    std::int64_t panelCount = 0;
    for (const WeightPart &source : parts) {
        Part part;
        part.layout = panelLayout(source.type, source.columns);
        part.firstRow = m_rows;
        part.rows = source.rows;
        part.input = addInput(source);
        part.firstPanel = panelCount;
        part.panels = (source.rows + panelRows - 1) / panelRows;
        const std::size_t bytes = static_cast<std::size_t>(part.panels) * part.layout.panelBytes;
        part.data = arena.allocate(bytes);
        packPanels(source, part.layout, part.panels, part.data.get(), pool);
        panelCount += part.panels;
        m_rows += source.rows;
        m_partRows.push_back(source.rows);
        m_residentBytes += bytes;
        m_needsQuantized = m_needsQuantized || part.layout.blocks > 0;
        m_needsHalves = m_needsHalves || (part.layout.groupWidth == 16 && part.layout.blocks > 0);
        m_parts.push_back(std::move(part));
    }
    m_bytesPerPass = m_residentBytes;
}

std::size_t PackedPanels::addInput(const WeightPart &part)
{
    std::vector<std::int32_t> order;
    if (part.columnOrder != nullptr)
        order.assign(part.columnOrder, part.columnOrder + part.columns);
    const auto known = std::find(m_inputs.begin(), m_inputs.end(), order);
    if (known != m_inputs.end())
        return static_cast<std::size_t>(known - m_inputs.begin());
    m_residentBytes += order.size() * sizeof(std::int32_t);
    m_inputs.push_back(std::move(order));
    return m_inputs.size() - 1;
}

const PackedPanels &PackedPanels::of(const PackedWeight &weight)
{
    const auto *mine = dynamic_cast<const PackedPanels *>(&weight);
    CHECK(mine != nullptr);
    return *mine;
}

std::int64_t PackedPanels::panels() const
{
    return m_parts.back().firstPanel + m_parts.back().panels;
}

PackedPanels::Panel PackedPanels::panel(std::int64_t index) const
{
    const Part *part = m_parts.data();
    while (index >= part->firstPanel + part->panels)
        ++part;
    const std::int64_t inPart = index - part->firstPanel;
    const auto rows = static_cast<int>(std::min<std::int64_t>(panelRows, part->rows - inPart * panelRows));
    return {&part->layout, part->data.get() + static_cast<std::size_t>(inPart) * part->layout.panelBytes,
            part->firstRow + inPart * panelRows, rows, part->input};
}

void PackedPanels::expandRow(std::int64_t row, float *target) const
{
    for (const Part &part : m_parts) {
        if (row >= part.firstRow + part.rows)
            continue;
        const std::int64_t inPart = row - part.firstRow;
        const std::uint8_t *panel =
            part.data.get() + static_cast<std::size_t>(inPart / panelRows) * part.layout.panelBytes;
        const std::span<const std::int32_t> order = input(part.input);
        if (order.empty()) {
            expandPanelRow(part.layout, panel, static_cast<int>(inPart % panelRows), target);
            return;
        }
        std::vector<float> stored(order.size());
        expandPanelRow(part.layout, panel, static_cast<int>(inPart % panelRows), stored.data());
        for (std::size_t k = 0; k < order.size(); ++k)
            target[order[k]] = stored[k];
        return;
    }
    CHECK(row < m_rows);
}

} // namespace kernels
