// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/api/error.h"
#include "engine/io/quantized_module.h"
#include "tests/support/tensor_file.h"

#include <QTemporaryDir>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

/// One quantised module of formulas, packed by the plainest loops, so that each trap of a layout shows.
namespace quantized_rig {

using engine::QuantizedMatrix;
using engine::QuantizedScheme;
using kernels::DType;
using Layout = QuantizedScheme::Layout;
using Zeros = QuantizedScheme::Zeros;
using Words = std::vector<std::uint32_t>;

constexpr std::int64_t rows = 32;
constexpr std::int64_t columns = 96; // out != in
constexpr std::int64_t group = 32;
constexpr std::int64_t groups = columns / group;

inline int number(std::int64_t row, std::int64_t k, int bits)
{
    return static_cast<int>((7 * row + 3 * k + row * k) % (std::int64_t{1} << bits));
}

/// Exact in F16, BF16 and F32, other for every row and group.
inline float scale(std::int64_t row, std::int64_t g)
{
    return static_cast<float>(row + 1 + 32 * g) / 64.0F;
}

/// At least 1, so that one less is no negative number.
inline int zero(std::int64_t row, std::int64_t g, int bits)
{
    return static_cast<int>((row + 5 * g) % ((std::int64_t{1} << bits) - 1)) + 1;
}

/// Adds `value` at bit `index` x `bits` of a stream.
inline void put(Words &words, std::int64_t index, int bits, int value)
{
    for (int b = 0; b < bits; ++b) {
        const std::int64_t at = index * bits + b;
        words[static_cast<std::size_t>(at / 32)] |= static_cast<std::uint32_t>(value >> b & 1) << (at % 32);
    }
}

using Number = std::function<int(std::int64_t row, std::int64_t k)>;

inline std::vector<std::uint16_t> halves(const std::vector<float> &values)
{
    std::vector<std::uint16_t> result;
    for (const float value : values)
        result.push_back(kernels::floatToHalf(value));
    return result;
}

inline std::vector<float> scalesByRow()
{
    std::vector<float> values;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t g = 0; g < groups; ++g)
            values.push_back(scale(row, g));
    }
    return values;
}

using Value = std::function<float(std::int64_t row, std::int64_t k)>;

inline std::vector<float> matrixOf(const Value &value, std::int64_t height = rows, std::int64_t width = columns)
{
    std::vector<float> result;
    for (std::int64_t row = 0; row < height; ++row) {
        for (std::int64_t k = 0; k < width; ++k)
            result.push_back(value(row, k));
    }
    return result;
}

/// A module in a file.
class Folder {
public:
    TensorFile file;

    QuantizedMatrix read(const QuantizedScheme &scheme)
    {
        const QString path = m_dir.filePath(QStringLiteral("model.safetensors"));
        if (!file.write(path))
            throw std::runtime_error("cannot write the test's file");
        m_set = engine::SafetensorsSet::openFile(path.toStdString());
        m_module.name = "m";
        m_module.parts.clear();
        for (const auto &entry : m_set->entries()) {
            const auto part = engine::quantizedPart(entry.tensor);
            m_module.parts.emplace(part ? std::string(part->ending) : entry.tensor.name.substr(2), &entry);
        }
        return engine::readQuantizedModule(*m_set, m_module, scheme);
    }

    /// Why the module is refused; empty when it is not.
    QString refusal(const QuantizedScheme &scheme)
    {
        try {
            (void)read(scheme);
        } catch (const engine::Error &error) {
            return error.code() == engine::ErrorCode::Refused ? QString::fromUtf8(error.what()) : QString();
        }
        return {};
    }

private:
    QTemporaryDir m_dir;
    std::unique_ptr<engine::SafetensorsSet> m_set;
    engine::QuantizedModule m_module;
};

/// The matrix with its columns in place.
inline std::vector<float> expand(const QuantizedMatrix &matrix)
{
    const std::vector<std::byte> bytes = matrix.make();
    const std::size_t rowBytes = kernels::rowBytes(matrix.type, matrix.columns);
    std::vector<float> result(static_cast<std::size_t>(matrix.rows * matrix.columns));
    std::vector<float> stored(static_cast<std::size_t>(matrix.columns));
    for (std::int64_t row = 0; row < matrix.rows; ++row) {
        kernels::dequantize(matrix.type, bytes.data() + static_cast<std::size_t>(row) * rowBytes, stored.data(),
                            matrix.columns);
        for (std::size_t k = 0; k < stored.size(); ++k) {
            const std::size_t at = matrix.columnOrder.empty() ? k : static_cast<std::size_t>(matrix.columnOrder[k]);
            result[static_cast<std::size_t>(row * matrix.columns) + at] = stored[k];
        }
    }
    return result;
}

inline QuantizedScheme compressed(int bits, std::int64_t groupSize)
{
    QuantizedScheme scheme;
    scheme.layout = Layout::Compressed;
    scheme.bits = bits;
    scheme.groupSize = groupSize;
    return scheme;
}

/// [out, in x bits / 32], each row a stream.
inline Words alongRows(int bits)
{
    Words packed(static_cast<std::size_t>(rows * columns * bits / 32));
    for (std::int64_t i = 0; i < rows * columns; ++i)
        put(packed, i, bits, number(i / columns, i % columns, bits));
    return packed;
}

} // namespace quantized_rig
