// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_reader.h"

#include "engine/core/printable.h"
#include "engine/io/byte_reader.h"
#include "engine/io/gguf_parts.h"

#include <algorithm>
#include <bit>
#include <fstream>

namespace engine {

namespace {

constexpr std::uint64_t smallestPair = 8 + 1 + 4 + 1;       // key length, one letter, value type, one byte
constexpr std::uint64_t smallestTensor = 8 + 1 + 4 + 4 + 8; // name length, one letter, dimensions, type, offset
constexpr std::int64_t minAlignment = 8;                    // the widest element type is read in place
constexpr std::int64_t maxAlignment = std::int64_t{1} << 20;

void checkMagic(ByteReader &reader, std::size_t fileBytes)
{
    if (fileBytes == 0)
        reader.fail("the file is empty (0 bytes), wanted a GGUF file");
    const std::size_t available = std::min<std::size_t>(4, fileBytes);
    const std::string_view magic(reinterpret_cast<const char *>(reader.take(available, {"magic", {}})), available);
    if (magic != "GGUF")
        reader.failAt(0, "this is not a GGUF file: it begins with " + inQuotes(magic) + ", wanted the magic \"GGUF\"");
}

std::uint32_t readVersion(ByteReader &reader)
{
    const auto version = reader.read<std::uint32_t>({"header", {}});
    if (version != 0 && (version & 0xffffU) == 0)
        reader.failAt(4,
                      "the file is big-endian (its version reads as " + std::to_string(version)
                          + "), wanted a little-endian file");
    if (version != 2 && version != 3)
        reader.failAt(4, "GGUF version " + std::to_string(version) + " is not supported, wanted version 2 or 3");
    return version;
}

std::uint64_t readAlignment(const Metadata &metadata, const ByteReader &reader)
{
    const std::int64_t alignment = metadata.integer("general.alignment").value_or(32);
    if (alignment < minAlignment || alignment > maxAlignment
        || !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
        reader.fail("key \"general.alignment\" is " + std::to_string(alignment) + ", wanted a power of two from "
                    + std::to_string(minAlignment) + " to " + std::to_string(maxAlignment));
    }
    return static_cast<std::uint64_t>(alignment);
}

} // namespace

bool isGgufFile(const std::filesystem::path &path)
{
    char magic[4] = {};
    std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
    return path.extension() == ".gguf" || std::string_view(magic, sizeof(magic)) == "GGUF";
}

GgufHeader readGguf(std::span<const std::byte> bytes, const std::string &name, ArrayContents arrays)
{
    ByteReader reader(bytes, name);
    checkMagic(reader, bytes.size());
    GgufHeader header;
    header.version = readVersion(reader);
    header.metadata.setSource(name);
    const auto tensorCount = reader.read<std::uint64_t>({"header", {}});
    const auto pairCount = reader.read<std::uint64_t>({"header", {}});
    reader.checkCount(tensorCount, smallestTensor, {"tensor table", {}});
    reader.checkCount(pairCount, smallestPair, {"metadata keys", {}});
    HeaderBudget budget;
    readGgufMetadata(reader, pairCount, arrays, budget, header);
    header.alignment = readAlignment(header.metadata, reader);
    reader.checkCount(tensorCount, smallestTensor, {"tensor table", {}});
    readGgufTensors(reader, tensorCount, budget, header);
    return header;
}

} // namespace engine
