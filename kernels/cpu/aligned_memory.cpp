// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/aligned_memory.h"

#include "kernels/error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/mman.h>

namespace kernels {

namespace {

constexpr std::size_t cacheLine = 64;
constexpr std::size_t hugePage = std::size_t{2} << 20;
constexpr std::size_t stretchBytes = std::size_t{32} << 20;

std::size_t roundUp(std::size_t bytes, std::size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

[[noreturn]] void failMemory(std::size_t bytes)
{
    throw Error(ErrorCode::OutOfMemory, "not enough memory: " + std::to_string(bytes) + " bytes asked for");
}

/// Zeroed pages that begin at a huge page.
std::shared_ptr<std::uint8_t> mapStretch(std::size_t bytes)
{
    const std::size_t mapped = bytes + hugePage;
    void *base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        failMemory(bytes);
    auto *start = reinterpret_cast<std::uint8_t *>(roundUp(reinterpret_cast<std::uintptr_t>(base), hugePage));
#if defined(MADV_HUGEPAGE)
    madvise(start, bytes, MADV_HUGEPAGE); // a hint; without it everything works, 15 % slower
#endif
    return {start, [base, mapped](std::uint8_t *) { munmap(base, mapped); }};
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
            failMemory(size);
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
