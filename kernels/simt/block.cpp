// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/simt/block.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace simt {

namespace {

constexpr std::size_t redZoneBytes = 64;
constexpr int redZoneByte = 0xa5;
constexpr int poisonByte = 0xff; // NaN in every float type
constexpr std::size_t pageBytes = 4096;
constexpr std::size_t slackBytes = 64 * 1024; // red zones and alignment

} // namespace

SharedMemory::~SharedMemory()
{
    release();
}

void SharedMemory::release()
{
    if (!m_memory)
        return;
    allow(m_memory, m_capacity);
    munmap(m_memory, m_capacity);
    m_memory = nullptr;
}

void SharedMemory::reset(std::size_t bytes)
{
    const std::size_t wanted = (bytes + slackBytes + pageBytes - 1) / pageBytes * pageBytes;
    if (m_capacity < wanted)
        release();
    if (!m_memory) {
        void *memory =
            mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            throw std::bad_alloc();
        m_memory = static_cast<char *>(memory);
        m_capacity = wanted;
    }
    forbid(m_memory, m_capacity);
    m_used = 0;
    m_redZones.clear();
}

void *SharedMemory::carve(std::size_t bytes, std::size_t alignment, bool poison)
{
    const std::size_t offset = (m_used + redZoneBytes + alignment - 1) / alignment * alignment;
    char *array = m_memory + offset;
    m_used = offset + bytes + redZoneBytes;
    allow(array, bytes);
    if (poison)
        std::memset(array, poisonByte, bytes);
    if (!underAsan) {
        for (char *zone : {array - redZoneBytes, array + bytes}) {
            std::memset(zone, redZoneByte, redZoneBytes);
            m_redZones.push_back(zone);
        }
    }
    return array;
}

bool SharedMemory::redZonesIntact() const
{
    const auto intact = [](const char *zone) {
        return std::all_of(zone, zone + redZoneBytes, [](char byte) { return byte == static_cast<char>(redZoneByte); });
    };
    return std::all_of(m_redZones.begin(), m_redZones.end(), intact);
}

Pool::~Pool()
{
    for (const Lane *lane : lanes)
        delete lane;
    for (const Block *block : blocks)
        delete block;
}

std::string placeOf(const Location &where)
{
    const std::string file = where.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(where.line());
}

std::string nameOf(const Lane &lane)
{
    const auto triple = [](const uint3 &v) {
        return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
    };
    return "block " + triple(lane.block->index) + " thread " + triple(lane.index);
}

} // namespace simt
