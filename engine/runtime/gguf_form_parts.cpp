// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/gguf_form_parts.h"

#include "engine/core/printable.h"

#include <cstring>

namespace engine::gguf_form {
namespace {

using kernels::DType;

std::size_t elementsOf(const TensorInfo &tensor)
{
    std::size_t count = 1;
    for (const std::int64_t size : tensor.shape)
        count *= static_cast<std::size_t>(size);
    return count;
}

/// "blk.0.attn_kv_b.weight" with another part in place of attn_kv_b.
std::string renamed(const std::string &name, const char *part)
{
    constexpr std::string_view fused = "attn_kv_b";
    std::string result = name;
    return result.replace(result.find(fused), fused.size(), part);
}

/// Rows [first, first + count) of each head.
Bytes rowsOfHeads(std::span<const std::byte> source, std::int64_t heads, const HeadRows &head)
{
    const std::size_t rowBytes = source.size() / static_cast<std::size_t>(heads * head.count);
    const std::size_t partBytes = static_cast<std::size_t>(head.rotary) * rowBytes;
    Bytes result(static_cast<std::size_t>(heads) * partBytes);
    for (std::int64_t i = 0; i < heads; ++i)
        std::memcpy(result.data() + static_cast<std::size_t>(i) * partBytes,
                    source.data() + static_cast<std::size_t>(i * head.count + head.first) * rowBytes, partBytes);
    return result;
}

/// Each of `matrices` [rows, columns] as [columns, rows], of elements of `size` bytes.
Bytes transposed(const Bytes &source, std::size_t matrices, std::size_t rows, std::size_t columns, std::size_t size)
{
    Bytes result(source.size());
    for (std::size_t m = 0; m < matrices; ++m) {
        const std::size_t start = m * rows * columns;
        for (std::size_t r = 0; r < rows; ++r) {
            for (std::size_t c = 0; c < columns; ++c)
                std::memcpy(result.data() + (start + c * rows + r) * size,
                            source.data() + (start + r * columns + c) * size, size);
        }
    }
    return result;
}

} // namespace

std::vector<float> floatsOf(const Checkpoint &checkpoint, const TensorInfo &tensor)
{
    std::vector<float> values(elementsOf(tensor));
    kernels::dequantize(tensor.type, checkpoint.bytes(tensor).data(), values.data(),
                        static_cast<std::int64_t>(values.size()));
    return values;
}

Bytes bytesOf(const std::vector<float> &values)
{
    const auto *start = reinterpret_cast<const std::byte *>(values.data());
    return {start, start + values.size() * sizeof(float)};
}

void setType(TensorInfo &info, DType type)
{
    info.type = type;
    info.typeName = kernels::info(type).name;
    info.bytes = elementsOf(info) * static_cast<std::size_t>(kernels::info(type).blockBytes);
}

void setFloats(TensorInfo &info)
{
    setType(info, DType::F32);
}

Bytes interleavedRows(std::span<const std::byte> source, std::int64_t rows, const HeadRows &head)
{
    const std::size_t rowBytes = source.size() / static_cast<std::size_t>(rows);
    Bytes result(source.begin(), source.end());
    for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t place = row % head.count - head.first;
        if (place < 0 || place >= head.rotary)
            continue;
        const std::int64_t from = row - place + place / 2 + place % 2 * (head.rotary / 2);
        std::memcpy(result.data() + static_cast<std::size_t>(row) * rowBytes,
                    source.data() + static_cast<std::size_t>(from) * rowBytes, rowBytes);
    }
    return result;
}

std::vector<FormedTensor> splitLatentHeads(const Checkpoint &checkpoint, const TensorInfo &tensor, std::int64_t keys,
                                           std::int64_t values)
{
    const std::int64_t rows = tensor.shape.front();
    const std::int64_t rank = tensor.shape.back();
    if (tensor.shape.size() != 2 || keys < 1 || values < 1 || rows % (keys + values) != 0)
        throw Error(ErrorCode::Refused,
                    inQuotes(checkpoint.path()) + ": tensor " + inQuotes(checkpoint.nameInFiles(tensor.name)) + " has "
                        + std::to_string(rows) + " rows, wanted a multiple of the " + std::to_string(keys) + " + "
                        + std::to_string(values) + " of a head's keys and values");
    const std::int64_t heads = rows / (keys + values);
    const bool blocks = kernels::info(tensor.type).quantized;
    FormedTensor key{tensor, {&tensor}, {}};
    key.info.name = renamed(tensor.name, "attn_k_b");
    key.info.shape = {heads, rank, keys};
    setType(key.info, blocks ? DType::F32 : tensor.type);
    key.make = [&checkpoint, &tensor, heads, rank, keys, values, blocks] {
        const Bytes floats = blocks ? bytesOf(floatsOf(checkpoint, tensor)) : Bytes();
        const std::span<const std::byte> all = blocks ? std::span(floats) : checkpoint.bytes(tensor);
        const DType type = blocks ? DType::F32 : tensor.type;
        return transposed(rowsOfHeads(all, heads, {keys + values, 0, keys}), static_cast<std::size_t>(heads),
                          static_cast<std::size_t>(keys), static_cast<std::size_t>(rank),
                          static_cast<std::size_t>(kernels::info(type).blockBytes));
    };
    FormedTensor value{tensor, {&tensor}, {}};
    value.info.name = renamed(tensor.name, "attn_v_b");
    value.info.shape = {heads, values, rank};
    value.info.bytes = tensor.bytes / static_cast<std::uint64_t>(rows) * static_cast<std::uint64_t>(heads * values);
    value.make = [&checkpoint, &tensor, heads, keys, values] {
        return rowsOfHeads(checkpoint.bytes(tensor), heads, {keys + values, keys, values});
    };
    return {std::move(key), std::move(value)};
}

} // namespace engine::gguf_form
