// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

/// Appending to bytes in GGUF's own forms, little-endian like the machines we run on.
namespace engine {

using Bytes = std::vector<std::byte>;

// Grown and copied by hand: GCC 12 warns falsely of an overflow in vector::insert at -O3.
inline void putBytes(Bytes &bytes, const void *source, std::size_t size)
{
    const std::size_t end = bytes.size();
    bytes.resize(end + size);
    if (size > 0)
        std::memcpy(bytes.data() + end, source, size);
}

template<typename Number> void put(Bytes &bytes, Number number)
{
    putBytes(bytes, &number, sizeof number);
}

/// A text after its length in 64 bits.
inline void putText(Bytes &bytes, std::string_view text)
{
    put(bytes, std::uint64_t{text.size()});
    putBytes(bytes, text.data(), text.size());
}

} // namespace engine
