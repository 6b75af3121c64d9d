// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/self_test_side.h"

#include "kernels/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace engine {

std::byte *SelfTestSide::memory(std::size_t bytes)
{
    m_buffers.push_back(m_ops.allocate(bytes));
    return m_buffers.back()->data();
}

namespace {

std::vector<float> draw(TestNumbers &random, std::int64_t count)
{
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float &value : values)
        value = static_cast<float>(random.uniform() * 2.0 - 1.0);
    return values;
}

} // namespace

kernels::TensorView SelfTestSide::random(TestNumbers &random, std::int64_t rows, std::int64_t columns)
{
    return kernels::makeView(upload(std::span<const float>(draw(random, rows * columns))), kernels::DType::F32, rows,
                             columns);
}

kernels::TensorView SelfTestSide::random(TestNumbers &random, std::int64_t rows, std::int64_t heads, std::int64_t n)
{
    return kernels::makeView(upload(std::span<const float>(draw(random, rows * heads * n))), kernels::DType::F32, rows,
                             heads, n);
}

kernels::TensorView SelfTestSide::empty(std::int64_t rows, std::int64_t columns)
{
    return kernels::makeView(memory(static_cast<std::size_t>(rows * columns) * sizeof(float)), kernels::DType::F32,
                             rows, columns);
}

const float *SelfTestSide::randomRow(TestNumbers &random, std::int64_t columns)
{
    return upload(std::span<const float>(draw(random, columns)));
}

const kernels::PackedWeight &SelfTestSide::weight(TestNumbers &random, kernels::DType type,
                                                  std::initializer_list<std::int64_t> partRows, std::int64_t columns)
{
    const std::size_t rowBytes = kernels::rowBytes(type, columns);
    std::vector<kernels::WeightPart> parts;
    for (const std::int64_t rows : partRows) {
        std::vector<std::byte> &source = m_sources.emplace_back(static_cast<std::size_t>(rows) * rowBytes);
        for (std::int64_t r = 0; r < rows; ++r)
            kernels::quantizeRow(type, draw(random, columns).data(), columns, nullptr,
                                 source.data() + static_cast<std::size_t>(r) * rowBytes);
        kernels::WeightPart part;
        part.name = "test";
        part.type = type;
        part.rows = rows;
        part.columns = columns;
        part.data = source.data();
        parts.push_back(part);
    }
    m_weights.push_back(m_ops.pack(parts));
    return *m_weights.back();
}

namespace {

constexpr std::int64_t int8Block = 32; ///< numbers of a block of W8A8, behind their scale

/// A row of W8A8 whose blocks share a scale.
void writeInt8Row(const std::vector<float> &values, std::byte *out)
{
    float largest = 0.0F;
    for (const float value : values)
        largest = std::max(largest, std::fabs(value));
    const float scale = largest / 127.0F;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (i % int8Block == 0) {
            std::memcpy(out, &scale, sizeof scale);
            out += sizeof scale;
        }
        *out++ = static_cast<std::byte>(static_cast<std::int8_t>(std::lround(values[i] / scale)));
    }
}

} // namespace

const kernels::PackedWeight &SelfTestSide::int8Weight(TestNumbers &random,
                                                      std::initializer_list<float> activationScales,
                                                      std::int64_t partRows, std::int64_t columns)
{
    const std::size_t rowBytes = kernels::rowBytes(kernels::DType::W8A8, columns);
    std::vector<kernels::WeightPart> parts;
    for (const float scale : activationScales) {
        std::vector<std::byte> &source = m_sources.emplace_back(static_cast<std::size_t>(partRows) * rowBytes);
        for (std::size_t r = 0; r < static_cast<std::size_t>(partRows); ++r)
            writeInt8Row(draw(random, columns), source.data() + r * rowBytes);
        kernels::WeightPart &part = parts.emplace_back();
        part.name = "test";
        part.type = kernels::DType::W8A8;
        part.rows = partRows;
        part.columns = columns;
        part.data = source.data();
        part.activationScale = scale;
    }
    m_weights.push_back(m_ops.pack(parts));
    return *m_weights.back();
}

kernels::TensorView SelfTestSide::multiples(TestNumbers &random, std::int64_t rows, std::int64_t columns, float unit,
                                            int largest)
{
    std::vector<float> values = draw(random, rows * columns);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const float most = std::copysign(static_cast<float>(largest), values[i]);
        values[i] = unit * (i % int8Block < 2 ? most : std::trunc(values[i] * static_cast<float>(largest)));
    }
    return kernels::makeView(upload(std::span<const float>(values)), kernels::DType::F32, rows, columns);
}

std::vector<float> SelfTestSide::values(const kernels::TensorView &view)
{
    std::vector<float> found(static_cast<std::size_t>(view.elements()));
    m_ops.transfer(view.data, found.data(), found.size() * sizeof(float), *m_stream);
    m_stream->synchronize();
    return found;
}

std::vector<float> SelfTestSide::numbers(const kernels::TensorView &view)
{
    std::vector<std::int32_t> found(static_cast<std::size_t>(view.elements()));
    m_ops.transfer(view.data, found.data(), found.size() * sizeof(std::int32_t), *m_stream);
    m_stream->synchronize();
    return {found.begin(), found.end()};
}

} // namespace engine
