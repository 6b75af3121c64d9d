// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/host_pages.h"

#include "kernels/error.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <sys/mman.h>

namespace kernels {

namespace {

constexpr std::size_t hugePage = std::size_t{2} << 20;
constexpr std::size_t largeBytes = 4 * hugePage; // below that what rounding adds would weigh more than what it saves

} // namespace

HostPages::HostPages(std::size_t bytes)
    : m_mappedBytes(bytes >= largeBytes ? bytes + hugePage : std::max<std::size_t>(bytes, 1))
{
    m_mapped = mmap(nullptr, m_mappedBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m_mapped == MAP_FAILED)
        throw Error(ErrorCode::OutOfMemory, "not enough memory: " + std::to_string(bytes) + " bytes asked for");
    m_data = static_cast<std::byte *>(m_mapped);
    if (bytes < largeBytes)
        return;
    m_data += (hugePage - reinterpret_cast<std::uintptr_t>(m_mapped) % hugePage) % hugePage;
#if defined(MADV_HUGEPAGE)
    madvise(m_data, bytes, MADV_HUGEPAGE); // a hint; without it everything works, 15 % slower
#endif
}

HostPages::~HostPages()
{
    munmap(m_mapped, m_mappedBytes);
}

} // namespace kernels
