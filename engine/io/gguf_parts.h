// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/io/byte_reader.h"
#include "engine/io/gguf_reader.h"

namespace engine {

/// \pre value is at most a file size, so that this cannot wrap
[[nodiscard]] inline std::uint64_t alignUp(std::uint64_t value, std::uint64_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

/// Bytes that the decoded header of one file may take; the largest vocabularies known take a tenth of it.
class HeaderBudget {
public:
    static constexpr std::uint64_t limitBytes = std::uint64_t{256} << 20;

    /// \throws Error Refused when `count` more values of `bytesEach` go over the limit
    void charge(std::uint64_t count, std::uint64_t bytesEach, const ByteReader &reader, const Place &place);

private:
    std::uint64_t m_left = limitBytes;
};

/// Reads `count` key/value pairs into header.metadata. \pre count has been checked against the bytes left
void readGgufMetadata(ByteReader &reader, std::uint64_t count, ArrayContents arrays, HeaderBudget &budget,
                      GgufHeader &header);

/// Reads `count` tensor descriptions and checks types, shapes, offsets and overlaps against the file's size.
/// Sets header.dataOffset. \pre count has been checked; header.alignment is set
void readGgufTensors(ByteReader &reader, std::uint64_t count, HeaderBudget &budget, GgufHeader &header);

} // namespace engine
