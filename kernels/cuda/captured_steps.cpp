// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/captured_steps.h"

#include <algorithm>
#include <cstring>

namespace kernels::cuda {

std::size_t FixedInputs::arrange(StepInputs inputs)
{
    m_places.clear();
    std::size_t used = 0;
    for (const std::span<const std::byte> input : inputs) {
        if (input.empty())
            continue;
        m_places.push_back({input, used});
        used += Arena::aligned(input.size());
    }
    return used;
}

void FixedInputs::plan(StepInputs inputs)
{
    m_most = std::max(m_most, arrange(inputs));
}

void FixedInputs::reserve()
{
    if (m_most == 0 || (m_staging && m_staging->bytes() >= m_most))
        return;
    m_staging.reset();
    m_device.reset();
    m_device = m_runtime.allocate(m_most);
    m_staging = m_runtime.allocatePinned(m_most);
}

bool FixedInputs::place(StepInputs inputs, StreamHandle stream)
{
    const std::size_t bytes = arrange(inputs);
    if (!m_staging || bytes > m_staging->bytes())
        return false;
    for (const Place &place : m_places)
        std::memcpy(m_staging->data() + place.first, place.host.data(), place.host.size());
    m_runtime.copy(m_staging->data(), m_device->data(), bytes, stream);
    return true;
}

std::optional<const std::byte *> FixedInputs::find(std::span<const std::byte> bytes) const
{
    for (const Place &place : m_places)
        if (place.host.data() == bytes.data() && place.host.size() == bytes.size())
            return m_device ? m_device->data() + place.first : nullptr;
    return std::nullopt;
}

const std::byte *StepConstants::put(std::span<const std::byte> bytes, bool counting, bool captured, StreamHandle stream)
{
    for (const Constant &constant : m_constants)
        if (constant.host.size() >= bytes.size()
            && std::ranges::equal(std::span(constant.host).first(bytes.size()), bytes))
            return constant.device;
    if (captured)
        throw Error(ErrorCode::Internal, "a step that is captured reads other numbers than it did before");
    std::byte *device = m_memory.take(bytes.size(), counting);
    if (!counting)
        m_runtime.copy(bytes.data(), device, bytes.size(), stream);
    m_constants.push_back({{bytes.begin(), bytes.end()}, device});
    return device;
}

void StepConstants::restart()
{
    m_constants.clear();
    m_memory.reset();
    m_memory.reserve();
}

const Graph *StepGraphs::find(const StepShape &shape)
{
    const auto found =
        std::ranges::find(m_graphs, shape, [](const auto &entry) -> const StepShape & { return entry.first; });
    if (found == m_graphs.end())
        return nullptr;
    std::rotate(found, found + 1, m_graphs.end());
    return m_graphs.back().second.get();
}

void StepGraphs::keep(const StepShape &shape, std::unique_ptr<Graph> graph)
{
    if (m_graphs.size() == most)
        m_graphs.erase(m_graphs.begin());
    m_graphs.emplace_back(shape, std::move(graph));
}

} // namespace kernels::cuda
