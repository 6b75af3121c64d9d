// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/safetensors_reader.h"

#include "engine/core/printable.h"
#include "engine/io/safetensors_parts.h"
#include "engine/io/safetensors_types.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace engine {
namespace {

constexpr std::uint64_t lengthBytes = 8;
constexpr std::uint64_t maxHeaderBytes = 100'000'000; // of the format

[[noreturn]] void refuseContent(const std::string &file, const std::string &problem)
{
    throw Error(ErrorCode::Refused, inQuotes(file) + ": " + problem);
}

/// The JSON text, whose length stands in front of it.
std::string_view headerText(std::span<const std::byte> bytes, const std::string &file)
{
    if (bytes.size() < lengthBytes)
        refuseContent(file,
                      "the file is too short for a header: " + std::to_string(bytes.size())
                          + " bytes, wanted at least the 8 bytes of the header's length");
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), lengthBytes);
    if (length > maxHeaderBytes)
        refuseContent(file,
                      "the header length " + std::to_string(length) + " is too large, wanted at most "
                          + std::to_string(maxHeaderBytes) + " bytes");
    if (length > bytes.size() - lengthBytes)
        refuseContent(file,
                      "the header length " + std::to_string(length) + " goes beyond the end of the file, which has "
                          + std::to_string(bytes.size() - lengthBytes) + " bytes after it");
    const std::string_view text(reinterpret_cast<const char *>(bytes.data()) + lengthBytes,
                                static_cast<std::size_t>(length));
    if (text.empty() || text.front() != '{')
        refuseContent(file,
                      "the header begins with " + inQuotes(text.substr(0, 8))
                          + ", wanted a JSON object, which starts with {");
    return text;
}

/// Bytes that the shape asks for.
std::uint64_t byteSize(const SafetensorsTensor &tensor, const std::string &file)
{
    const auto tooLarge = [&] {
        refuseContent(file,
                      "tensor " + inQuotes(tensor.name)
                          + ": the element count of its shape is too large, wanted at most 9223372036854775807 bits");
    };
    std::int64_t bits = findSafetensorsType(tensor.type)->bits;
    const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
    for (const std::int64_t size : tensor.shape) {
        if (size != 0 && __builtin_mul_overflow(bits, size, &bits))
            tooLarge();
    }
    if (empty)
        return 0;
    if (bits % 8 != 0)
        refuseContent(file,
                      "tensor " + inQuotes(tensor.name) + ": its " + std::to_string(bits) + " bits of dtype "
                          + tensor.type + " do not fill whole bytes");
    return static_cast<std::uint64_t>(bits) / 8;
}

void checkSize(const SafetensorsTensor &tensor, std::uint64_t dataBytes, const std::string &file)
{
    if (const std::uint64_t wanted = byteSize(tensor, file); wanted != tensor.bytes)
        refuseContent(file,
                      "tensor " + inQuotes(tensor.name) + ": its shape and dtype need " + std::to_string(wanted)
                          + " bytes, but its data_offsets give " + std::to_string(tensor.bytes));
    if (tensor.offset + tensor.bytes > dataBytes) // both are below 2^63
        refuseContent(file,
                      "tensor " + inQuotes(tensor.name) + ": its data_offsets end at "
                          + std::to_string(tensor.offset + tensor.bytes) + ", outside the " + std::to_string(dataBytes)
                          + " bytes of data: the file is truncated, "
                          + std::to_string(tensor.offset + tensor.bytes - dataBytes) + " bytes are missing");
}

/// The tensors lie end to end from the first byte of data to the last.
void checkCover(const std::vector<SafetensorsTensor> &tensors, std::uint64_t dataBytes, const std::string &file)
{
    std::vector<std::size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&tensors](std::size_t a, std::size_t b) {
        const SafetensorsTensor &x = tensors[a];
        const SafetensorsTensor &y = tensors[b];
        return x.offset != y.offset ? x.offset < y.offset : x.bytes < y.bytes;
    });
    std::uint64_t end = 0;
    for (const std::size_t index : order) {
        const SafetensorsTensor &tensor = tensors[index];
        if (tensor.offset != end)
            refuseContent(file,
                          "tensor " + inQuotes(tensor.name) + ": its data_offsets begin at "
                              + std::to_string(tensor.offset)
                              + (tensor.offset < end ? ", so it overlaps another tensor, which ends at "
                                                     : ", which leaves a hole of bytes that belong to no tensor, from ")
                              + std::to_string(end));
        end += tensor.bytes;
    }
    if (end != dataBytes)
        refuseContent(
            file,
            std::to_string(dataBytes - end)
                + " bytes after the last tensor belong to no tensor, wanted tensors that cover all of the data");
}

} // namespace

SafetensorsHeader readSafetensors(std::span<const std::byte> bytes, const std::string &name)
{
    const std::string_view text = headerText(bytes, name);
    SafetensorsHeader header = parseSafetensorsHeader(text, name);
    const std::uint64_t dataStart = lengthBytes + text.size();
    const std::uint64_t dataBytes = bytes.size() - dataStart;
    for (const SafetensorsTensor &tensor : header.tensors)
        checkSize(tensor, dataBytes, name);
    checkCover(header.tensors, dataBytes, name);
    for (SafetensorsTensor &tensor : header.tensors)
        tensor.offset += dataStart;
    return header;
}

} // namespace engine
