// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>

namespace kernels {

/// Fresh pages of the system: zero, and resident only once touched. Large ones begin at a huge page and ask for such,
/// as memory behind small ones is read at half the rate where a virtual machine's pages are looked up twice.
class HostPages {
public:
    /// \throws Error OutOfMemory naming the bytes
    explicit HostPages(std::size_t bytes);
    ~HostPages();
    HostPages(const HostPages &) = delete;
    HostPages &operator=(const HostPages &) = delete;

    [[nodiscard]] std::byte *data() const { return m_data; }

private:
    void *m_mapped;
    std::size_t m_mappedBytes;
    std::byte *m_data;
};

} // namespace kernels
