// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/byte_reader.h"

#include "engine/api/error.h"
#include "engine/core/printable.h"

#include <bit>

namespace engine {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and read in place");

std::string Place::text() const
{
    return name.empty() ? std::string(kind) : std::string(kind) + ' ' + inQuotes(name);
}

void ByteReader::checkCount(std::uint64_t count, std::uint64_t smallestEntry, const Place &place) const
{
    const std::uint64_t most = left() / smallestEntry;
    if (count > most) {
        fail(place.text() + ": the count " + std::to_string(count) + " is larger than the " + std::to_string(most)
             + " that fit in the " + std::to_string(left())
             + " bytes left; the file is cut short or the count is wrong");
    }
}

void ByteReader::fail(const std::string &message) const
{
    failAt(m_position, message);
}

void ByteReader::failAt(std::size_t position, const std::string &message) const
{
    throw Error(ErrorCode::Refused, inQuotes(m_file) + ": " + message + " (at byte " + std::to_string(position) + ")");
}

void ByteReader::failShort(std::uint64_t wanted, const Place &place) const
{
    fail("the file ends inside the " + place.text() + ": " + std::to_string(left()) + " bytes left, wanted "
         + std::to_string(wanted));
}

void ByteReader::failLength(std::uint64_t length, const Place &place) const
{
    fail(place.text() + ": the string length " + std::to_string(length) + " is larger than the "
         + std::to_string(left()) + " bytes left");
}

} // namespace engine
