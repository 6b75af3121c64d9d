// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/block_planes.h"
#include "kernels/cuda/packed_matrix.h"
#include "tests/cuda/device_rig.h"
#include "tests/support/kernel_data.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace device_rig {

/// A matrix as it lies on the device: blocks split into planes, columns of floats filled up with zeros.
class DeviceWeight {
public:
    explicit DeviceWeight(const kernel_data::Weight &weight, float factor = 1.0F)
    {
        const kernels::cuda::BlockPlanes planes = kernels::cuda::planesOf(weight.type);
        const auto block = static_cast<std::size_t>(planes.headBytes + planes.bodyBytes);
        const auto rows = static_cast<std::size_t>(weight.rows);
        const int columns = kernels::cuda::wholeColumns(weight.columns);
        const std::size_t blocks = static_cast<std::size_t>(columns / planes.elements);
        const std::size_t rowBytes = weight.bytes.size() / rows;
        m_heads = std::make_unique<DeviceArray<std::byte>>(rows * blocks * static_cast<std::size_t>(planes.headBytes));
        m_bodies = std::make_unique<DeviceArray<std::byte>>(rows * blocks * static_cast<std::size_t>(planes.bodyBytes));
        for (std::size_t row = 0; row < rows; ++row) {
            std::vector<std::byte> whole(blocks * block);
            std::memcpy(whole.data(), weight.bytes.data() + row * rowBytes, rowBytes);
            for (std::size_t i = 0; i < blocks; ++i)
                splitBlock(planes, whole.data() + i * block,
                           m_heads->data() + (row * blocks + i) * static_cast<std::size_t>(planes.headBytes),
                           m_bodies->data() + (row * blocks + i) * static_cast<std::size_t>(planes.bodyBytes));
        }
        m_view = {weight.type, m_bodies->data(), m_heads->data(), static_cast<int>(weight.rows), columns, factor};
        if (kernels::cuda::hasRowScales(weight.part()))
            keepRowScales(weight.rows);
    }
    [[nodiscard]] const kernels::cuda::WeightView &view() const { return m_view; }

private:
    /// Every block of a row has the scale of the first.
    void keepRowScales(std::int64_t rows)
    {
        m_view.scaleUnits = m_view.columns / 32;
        auto scales = std::make_unique<DeviceArray<std::byte>>(static_cast<std::size_t>(rows) * sizeof(float));
        for (std::int64_t row = 0; row < rows; ++row)
            std::memcpy(scales->data() + row * 4, m_heads->data() + row * m_view.scaleUnits * 4, sizeof(float));
        m_heads = std::move(scales);
        m_view.head = m_heads->data();
    }

    std::unique_ptr<DeviceArray<std::byte>> m_heads;
    std::unique_ptr<DeviceArray<std::byte>> m_bodies;
    kernels::cuda::WeightView m_view;
};

/// Activations after the cast.
class Cast {
public:
    Cast(const kernels::cuda::RowSpan &x, int columns, bool bf16, const int *order, StreamHandle stream)
        : m_numbers(static_cast<std::size_t>(x.rows * columns * (bf16 ? 2 : 1)))
        , m_scales(static_cast<std::size_t>(x.rows))
    {
        m_rows = {m_numbers.data(), m_scales.data(), x.rows, columns, bf16 ? 2 : 1};
        launchCast(x, order, bf16, m_rows, stream);
    }
    [[nodiscard]] const kernels::cuda::CastRows &rows() const { return m_rows; }
    [[nodiscard]] const DeviceArray<std::uint16_t> &numbers() const { return m_numbers; }
    [[nodiscard]] const DeviceArray<float> &scales() const { return m_scales; }
    [[nodiscard]] bool bordersIntact() const { return m_numbers.bordersIntact() && m_scales.bordersIntact(); }

private:
    DeviceArray<std::uint16_t> m_numbers;
    DeviceArray<float> m_scales;
    kernels::cuda::CastRows m_rows;
};

/// Activations rounded to int8.
class Rounded {
public:
    Rounded(const kernels::cuda::RowSpan &x, int columns, const int *order, float fixedScale, StreamHandle stream)
        : m_numbers(static_cast<std::size_t>(x.rows * columns))
        , m_scales(static_cast<std::size_t>(x.rows))
    {
        m_rows = {m_numbers.data(), m_scales.data(), x.rows, columns, 1};
        launchRound(x, order, fixedScale, m_rows, stream);
    }
    [[nodiscard]] const kernels::cuda::CastRows &rows() const { return m_rows; }
    [[nodiscard]] const DeviceArray<std::int8_t> &numbers() const { return m_numbers; }
    [[nodiscard]] const DeviceArray<float> &scales() const { return m_scales; }
    [[nodiscard]] bool bordersIntact() const { return m_numbers.bordersIntact() && m_scales.bordersIntact(); }

private:
    DeviceArray<std::int8_t> m_numbers;
    DeviceArray<float> m_scales;
    kernels::cuda::CastRows m_rows;
};

/// What products of W8A8 make of rows [.., columns]: whole multiples of a scale.
inline std::vector<float> roundedRows(std::vector<float> x, std::size_t columns, float fixedScale = 0.0F)
{
    for (std::size_t first = 0; first < x.size(); first += columns) {
        float largest = 0.0F;
        for (std::size_t i = first; i < first + columns; ++i)
            largest = std::max(largest, std::fabs(x[i]));
        const float scale = fixedScale > 0.0F ? fixedScale : largest / 127.0F;
        const float perUnit = fixedScale > 0.0F ? 1.0F / fixedScale : 127.0F / largest;
        for (std::size_t i = first; i < first + columns; ++i)
            x[i] = largest > 0.0F ? std::clamp(std::nearbyint(x[i] * perUnit), -127.0F, 127.0F) * scale : 0.0F;
    }
    return x;
}

} // namespace device_rig
