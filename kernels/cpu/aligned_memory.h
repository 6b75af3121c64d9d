// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace kernels {

/// Memory of a backend that only grows, aligned to a cache line and zero when it is new.
class AlignedMemory {
public:
    /// At least `count` objects; contents are kept only when the memory was large enough already.
    template<typename T> T *reserve(std::size_t count) { return static_cast<T *>(reserveBytes(count * sizeof(T))); }

private:
    struct Free {
        void operator()(std::byte *data) const;
    };

    void *reserveBytes(std::size_t bytes);

    std::unique_ptr<std::byte, Free> m_data;
    std::size_t m_bytes = 0;
};

/// Memory for packed weights: large stretches of huge pages shared by many matrices, each freed when the last of its
/// matrices is gone. A page of 2 MiB for every small matrix would waste more than a small model needs.
class WeightArena {
public:
    /// Zeroed and aligned to a cache line. \throws Error OutOfMemory
    [[nodiscard]] std::shared_ptr<std::uint8_t> allocate(std::size_t bytes);

private:
    std::shared_ptr<std::uint8_t> m_stretch;
    std::size_t m_used = 0;
    std::size_t m_size = 0;
};

} // namespace kernels
