// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/cuda/device_rig.h"

#include "tests/support/shared_data.h"
#include "tests/support/tolerance.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace device_rig {

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int quickSeeds = 1;
constexpr int fullSeeds = 4;
constexpr bool slow = true;
#elif defined(__SANITIZE_ADDRESS__)
constexpr int quickSeeds = 2;
constexpr int fullSeeds = 4;
constexpr bool slow = false;
#else
constexpr int quickSeeds = 2;
constexpr int fullSeeds = 8;
constexpr bool slow = false;
#endif

constexpr simt::Schedule schedules[] = {simt::Schedule::Random, simt::Schedule::Lifo, simt::Schedule::Starve,
                                        simt::Schedule::Fifo};

/// One device for all seeds: it keeps the stacks of as many threads as a launch had at most, which are costly to map,
/// and two mappings for each of the 65,530 that a process may have, where TSan has six more.
std::string runOn(int seed, const std::function<std::string(StreamHandle)> &work)
{
    static simt::Emulator device;
    device.config().seed = static_cast<unsigned>(seed) + 1;
    device.config().schedule = schedules[static_cast<std::size_t>(seed) % std::size(schedules)];
    return work(device.stream());
}

int seedCount()
{
    const char *wanted = std::getenv("LATHE_SIMT_SEEDS");
    if (wanted != nullptr && std::atoi(wanted) > 0)
        return std::atoi(wanted);
    return shared_data::fullTier() ? fullSeeds : quickSeeds;
}

} // namespace

bool smallOnly()
{
    return slow && !shared_data::fullTier();
}

bool thinned()
{
    return slow && shared_data::fullTier();
}

std::string underSchedules(const std::function<std::string(StreamHandle)> &work)
{
    for (int seed = 0; seed < seedCount(); ++seed) {
        std::string wrong;
        try {
            wrong = runOn(seed, work);
        } catch (const std::exception &error) {
            wrong = error.what();
        }
        if (!wrong.empty())
            return "seed " + std::to_string(seed) + ": " + wrong;
    }
    return {};
}

Rows::Rows(int rows, int columns, const Layout &layout)
{
    m_span.rows = rows;
    m_span.columns = columns;
    m_span.perGroup = layout.perGroup;
    m_span.rowStride = columns + layout.gap;
    m_span.groupStride = layout.perGroup * m_span.rowStride + layout.groupGap;
    const int groups = (rows + layout.perGroup - 1) / layout.perGroup;
    const std::int64_t last = (groups - 1) * m_span.groupStride + (layout.perGroup - 1) * m_span.rowStride + columns;
    m_memory = std::make_unique<DeviceArray<float>>(static_cast<std::size_t>(rows > 0 ? last : 0));
    m_span.data = m_memory->data();
}

Rows::Rows(int rows, int columns, const std::vector<float> &values, const Layout &layout)
    : Rows(rows, columns, layout)
{
    for (int r = 0; r < rows; ++r)
        std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(r) * columns, columns, row(r));
}

float *Rows::row(int row) const
{
    return m_span.data + row / m_span.perGroup * m_span.groupStride + row % m_span.perGroup * m_span.rowStride;
}

std::vector<float> Rows::values() const
{
    std::vector<float> values;
    for (int r = 0; r < m_span.rows; ++r)
        values.insert(values.end(), row(r), row(r) + m_span.columns);
    return values;
}

bool Rows::restIntact() const
{
    std::vector<bool> inside(m_memory->size());
    for (int r = 0; r < m_span.rows; ++r) {
        const auto first = inside.begin() + (row(r) - m_span.data);
        std::fill(first, first + m_span.columns, true);
    }
    bool intact = m_memory->bordersIntact();
    for (std::size_t i = 0; i < inside.size(); ++i)
        intact = intact && (inside[i] || std::bit_cast<std::uint32_t>((*m_memory)[i]) == DeviceBytes::fill);
    return intact;
}

double worstRow(const std::vector<float> &found, const std::vector<float> &wanted, int columns)
{
    if (found.size() != wanted.size())
        return std::numeric_limits<double>::infinity();
    const auto width = static_cast<std::size_t>(columns);
    double worst = 0.0;
    for (std::size_t first = 0; first + width <= found.size(); first += width)
        worst = std::max(worst, tolerance::nmse({found.data() + first, width}, {wanted.data() + first, width}));
    return worst;
}

std::string compareRows(const std::vector<float> &found, const std::vector<float> &wanted, int columns, double limit)
{
    if (found.size() != wanted.size())
        return "found " + std::to_string(found.size()) + " values, wanted " + std::to_string(wanted.size());
    const auto width = static_cast<std::size_t>(columns);
    for (std::size_t first = 0; first + width <= found.size(); first += width) {
        const std::span<const float> own(found.data() + first, width);
        const std::span<const float> other(wanted.data() + first, width);
        const double error = tolerance::nmse(own, other);
        if (!(error <= limit))
            return "row " + std::to_string(first / width) + " has an NMSE of " + std::to_string(error * 1e9)
                + "e-9, wanted at most " + std::to_string(limit * 1e9) + "e-9; its first value is "
                + std::to_string(own[0]) + ", wanted " + std::to_string(other[0]);
    }
    return {};
}

std::string compareBits(const std::vector<float> &found, const std::vector<float> &wanted)
{
    if (found.size() != wanted.size())
        return "found " + std::to_string(found.size()) + " values, wanted " + std::to_string(wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
        if (std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>(wanted[i]))
            return "value " + std::to_string(i) + " is " + std::to_string(found[i]) + ", wanted "
                + std::to_string(wanted[i]) + " to the bit";
    return {};
}

} // namespace device_rig
