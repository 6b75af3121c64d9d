// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/packed_matrix.h"

#include "kernels/checks.h"
#include "kernels/cuda/block_planes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

namespace kernels::cuda {

namespace {

/// At least the size of the largest weight of a block, and of the terms that the kernels make it of; none for types
/// whose numbers have to be looked at.
std::optional<float> sizeOfBlock(DType type, const std::byte *block)
{
    const auto half = [block](std::size_t index) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, block + 2 * index, sizeof bits);
        return std::fabs(halfToFloat(bits));
    };
    switch (type) {
    case DType::Q4_0:
        return 8.0F * half(0);
    case DType::Q4_1:
        return 15.0F * half(0) + half(1);
    case DType::Q8_0:
        return 128.0F * half(0);
    case DType::Q4_K:
        return 63.0F * 15.0F * half(0) + 63.0F * half(1);
    case DType::Q5_K:
        return 63.0F * 31.0F * half(0) + 63.0F * half(1);
    case DType::Q6_K:
        return 128.0F * 32.0F * half(104);
    case DType::INT4: {
        float scale = 0.0F;
        std::memcpy(&scale, block, sizeof scale);
        return std::fabs(scale) * std::max(15.0F, static_cast<float>(std::to_integer<int>(block[4])));
    }
    default:
        return std::nullopt;
    }
}

/// Of numbers that are not infinite.
float largestOf(const WeightPart &part)
{
    const auto elements = static_cast<std::size_t>(info(part.type).blockElements);
    const auto bytes = static_cast<std::size_t>(info(part.type).blockBytes);
    std::vector<float> row(static_cast<std::size_t>(part.columns));
    const std::size_t stride = rowBytes(part.type, part.columns);
    float largest = 0.0F;
    const auto meet = [&largest](float size) {
        if (std::isfinite(size))
            largest = std::max(largest, size);
    };
    for (std::size_t r = 0; r < static_cast<std::size_t>(part.rows); ++r) {
        const std::byte *data = part.data + r * stride;
        if (sizeOfBlock(part.type, data)) {
            for (std::size_t i = 0; i < row.size() / elements; ++i)
                meet(*sizeOfBlock(part.type, data + i * bytes));
            continue;
        }
        dequantize(part.type, data, row.data(), part.columns);
        for (const float value : row)
            meet(std::fabs(value));
    }
    return largest;
}

/// The power of two that brings the largest weight to [2^12, 2^13), far from both ends of a half: products meet
/// activations of at most 1. Weights that are cast to bfloat16, or not at all, stay as they are.
float factorFor(const WeightPart &part)
{
    const bool stays = part.type == DType::F32 || wantsBf16(part.type) || wantsInt8(part.type);
    const float largest = stays ? 0.0F : largestOf(part);
    if (largest == 0.0F)
        return 1.0F;
    int exponent = 0;
    (void)std::frexp(largest, &exponent);
    return std::ldexp(1.0F, std::clamp(13 - exponent, -126, 126));
}

/// Both planes of a part; rows are filled up with zeros.
struct Planes {
    std::vector<std::byte> head;
    std::vector<std::byte> body;
};

Planes split(const WeightPart &part, const BlockPlanes &planes)
{
    const std::size_t blocks = static_cast<std::size_t>(wholeColumns(part.columns) / planes.elements);
    const auto headBytes = static_cast<std::size_t>(planes.headBytes);
    const auto bodyBytes = static_cast<std::size_t>(planes.bodyBytes);
    const std::size_t stride = rowBytes(part.type, part.columns);
    Planes result;
    result.head.resize(static_cast<std::size_t>(part.rows) * blocks * headBytes);
    result.body.resize(static_cast<std::size_t>(part.rows) * blocks * bodyBytes);
    for (std::size_t r = 0; r < static_cast<std::size_t>(part.rows); ++r) {
        const std::byte *row = part.data + r * stride;
        if (headBytes == 0) {
            std::copy(row, row + stride, result.body.data() + r * blocks * bodyBytes);
            continue;
        }
        for (std::size_t b = 0; b < stride / (headBytes + bodyBytes); ++b)
            splitBlock(planes, row + b * (headBytes + bodyBytes), result.head.data() + (r * blocks + b) * headBytes,
                       result.body.data() + (r * blocks + b) * bodyBytes);
    }
    return result;
}

/// Of every `count` numbers of so many bytes the first.
void keepFirst(std::vector<std::byte> &numbers, std::size_t bytes, std::size_t count)
{
    std::size_t kept = 0;
    for (std::size_t at = 0; at < numbers.size(); at += bytes * count, kept += bytes)
        std::memmove(numbers.data() + kept, numbers.data() + at, bytes);
    numbers.resize(kept);
}

void checkPart(const WeightPart &part)
{
    const auto refuse = [&part](const std::string &why) {
        throw Error(ErrorCode::Refused, "tensor '" + part.name + "' " + why);
    };
    if (!isMatrixType(part.type))
        refuse("has type " + std::string(info(part.type).name) + ", which the CUDA kernels do not multiply");
    if (part.rows > std::numeric_limits<int>::max() || part.columns > std::numeric_limits<int>::max() - 32)
        refuse("has " + std::to_string(part.rows) + " rows of " + std::to_string(part.columns)
               + " columns, which is more than the CUDA kernels count");
    if (part.type == DType::F32 && part.columnOrder)
        refuse("is F32 with columns in an order of its own, which the CUDA kernels do not multiply");
}

} // namespace

bool hasRowScales(const WeightPart &part)
{
    constexpr std::int64_t mostColumns = 128 * 1024; // of products of at most 128 x 127
    const std::size_t bytes = static_cast<std::size_t>(info(part.type).blockBytes);
    if (!wantsInt8(part.type) || wholeColumns(part.columns) > mostColumns)
        return false;
    const std::size_t stride = rowBytes(part.type, part.columns);
    for (const std::byte *row = part.data; row != part.data + static_cast<std::size_t>(part.rows) * stride;
         row += stride)
        for (std::size_t at = bytes; at < stride; at += bytes)
            if (std::memcmp(row, row + at, sizeof(float)) != 0)
                return false;
    return true;
}

PackedMatrix::PackedMatrix(std::span<const WeightPart> parts, Runtime &runtime)
{
    checkParts(parts);
    m_columns = parts[0].columns;
    m_name = parts[0].name;
    for (const WeightPart &part : parts) {
        checkPart(part);
        add(part, runtime);
    }
    m_bytesPerPass = m_residentBytes;
}

const PackedMatrix &PackedMatrix::of(const PackedWeight &weight)
{
    const auto *packed = dynamic_cast<const PackedMatrix *>(&weight);
    CHECK(packed != nullptr);
    return *packed;
}

std::byte *PackedMatrix::upload(std::span<const std::byte> bytes, Runtime &runtime)
{
    if (bytes.empty())
        return nullptr;
    m_memory.push_back(runtime.allocate(bytes.size()));
    m_residentBytes += bytes.size();
    runtime.copyNow(bytes.data(), m_memory.back()->data(), bytes.size());
    return m_memory.back()->data();
}

void PackedMatrix::add(const WeightPart &part, Runtime &runtime)
{
    Planes planes = split(part, planesOf(part.type));
    Part added;
    if (hasRowScales(part)) {
        added.view.scaleUnits = wholeColumns(part.columns) / 32;
        keepFirst(planes.head, sizeof(float), static_cast<std::size_t>(added.view.scaleUnits));
    }
    added.activationScale = part.activationScale;
    added.firstRow = static_cast<int>(m_rows);
    added.view.type = part.type;
    added.view.body = upload(planes.body, runtime);
    added.view.head = upload(planes.head, runtime);
    added.view.rows = static_cast<int>(part.rows);
    added.view.columns = wholeColumns(part.columns);
    added.view.factor = factorFor(part);
    if (part.columnOrder)
        added.order = reinterpret_cast<const int *>(
            upload(std::as_bytes(std::span(part.columnOrder, static_cast<std::size_t>(part.columns))), runtime));
    m_parts.push_back(added);
    m_rows += part.rows;
    m_partRows.push_back(part.rows);
}

namespace {

std::unique_ptr<Buffer> uploaded(std::span<const std::byte> bytes, Runtime &runtime)
{
    auto memory = runtime.allocate(bytes.size());
    runtime.copyNow(bytes.data(), memory->data(), bytes.size());
    return memory;
}

/// Of the next part, whose matrices have these scales of activations.
void addRounding(PackedMatrix::Together &together, const std::vector<float> &scales, Runtime &runtime)
{
    if (std::ranges::all_of(scales, [&](float scale) { return scale == scales[0]; })) {
        together.roundings.push_back({scales[0], nullptr});
        return;
    }
    // The gate and the up of an expert see the same activations, so files mostly give them one scale: one table then,
    // and activations are rounded once.
    if (together.scales.empty() || together.scales.back() != scales) {
        together.scales.push_back(scales);
        together.scaleTables.push_back(uploaded(std::as_bytes(std::span(scales)), runtime));
    }
    together.roundings.push_back({0.0F, reinterpret_cast<const float *>(together.scaleTables.back()->data())});
}

} // namespace

const PackedMatrix::Together &PackedMatrix::together(std::span<const PackedWeight *const> matrices,
                                                     std::span<const float *const> biases, Runtime &runtime)
{
    const PackedMatrix &first = of(*matrices[0]);
    if (first.m_together && std::ranges::equal(first.m_together->matrices, matrices)
        && std::ranges::equal(first.m_together->biases, biases))
        return *first.m_together;
    auto made = std::make_unique<Together>();
    made->matrices.assign(matrices.begin(), matrices.end());
    made->biases.assign(biases.begin(), biases.end());
    std::vector<WeightView> views;
    for (std::size_t p = 0; p < first.m_parts.size(); ++p) {
        std::vector<DType> &types = made->types.emplace_back();
        std::vector<float> scales;
        for (const PackedWeight *weight : matrices) {
            const PackedMatrix &matrix = of(*weight);
            CHECK(matrix.m_parts.size() == first.m_parts.size());
            const Part &part = matrix.m_parts[p];
            if (part.order != nullptr)
                throw Error(ErrorCode::Refused,
                            "tensor '" + matrix.m_name
                                + "' of an expert has columns in an order of their own, which the CUDA kernels do not "
                                  "multiply");
            views.push_back(part.view);
            scales.push_back(part.activationScale);
            if (std::ranges::find(types, part.view.type) == types.end())
                types.push_back(part.view.type);
        }
        addRounding(*made, scales, runtime);
    }
    made->views = uploaded(std::as_bytes(std::span(views)), runtime);
    if (!biases.empty())
        made->biasTable = uploaded(std::as_bytes(biases), runtime);
    first.m_together = std::move(made);
    return *first.m_together;
}

} // namespace kernels::cuda
