// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/aligned_memory.h"

#include "kernels/error.h"
#include "kernels/host_pages.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace kernels {

namespace {

constexpr std::size_t cacheLine = 64;
constexpr std::size_t hugePage = std::size_t{2} << 20;
constexpr std::size_t stretchBytes = std::size_t{32} << 20;

std::size_t roundUp(std::size_t bytes, std::size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

std::shared_ptr<std::uint8_t> mapStretch(std::size_t bytes)
{
    const auto pages = std::make_shared<HostPages>(bytes);
    return {pages, reinterpret_cast<std::uint8_t *>(pages->data())};
}

} // namespace

void AlignedMemory::Free::operator()(std::byte *data) const
{
    std::free(data);
}

void *AlignedMemory::reserveBytes(std::size_t bytes)
{
    if (bytes > m_bytes) {
        const std::size_t size = roundUp(bytes, cacheLine);
        m_data.reset(static_cast<std::byte *>(std::aligned_alloc(cacheLine, size)));
        m_bytes = m_data != nullptr ? size : 0;
        if (m_data == nullptr)
            throw Error(ErrorCode::OutOfMemory, "not enough memory: " + std::to_string(size) + " bytes asked for");
        std::memset(m_data.get(), 0, size);
    }
    return m_data.get();
}

std::shared_ptr<std::uint8_t> WeightArena::allocate(std::size_t bytes)
{
    bytes = roundUp(bytes, cacheLine);
    if (bytes >= stretchBytes)
        return mapStretch(roundUp(bytes, hugePage));
    if (m_stretch == nullptr || m_size - m_used < bytes) {
        m_stretch = mapStretch(stretchBytes);
        m_size = stretchBytes;
        m_used = 0;
    }
    std::uint8_t *start = m_stretch.get() + m_used;
    m_used += bytes;
    return {m_stretch, start};
}

} // namespace kernels
