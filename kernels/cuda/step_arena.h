// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"

#include <memory>
#include <vector>

namespace kernels::cuda {

/// Memory that is handed out from front to back and taken back as a whole. What does not fit comes from pieces of its
/// own until the next reserve(), so that nothing handed out moves.
class Arena {
public:
    enum class Kind { Device, Pinned };

    /// Bytes that so many take.
    [[nodiscard]] static constexpr std::size_t aligned(std::size_t bytes)
    {
        constexpr std::size_t alignment = 256;
        return (bytes + alignment - 1) / alignment * alignment;
    }

    Arena(Runtime &runtime, Kind kind)
        : m_runtime(runtime)
        , m_kind(kind)
    {
    }

    /// Aligned to 256 bytes. While `counting`, nothing is made and the result is null.
    [[nodiscard]] std::byte *take(std::size_t bytes, bool counting);
    /// Everything handed out is free again, once the device has used it.
    void reset() { m_used = 0; }
    /// Makes one piece of what was needed at most so far; true where it stands elsewhere than before. \pre the device
    /// is idle and nothing is handed out
    bool reserve();
    /// Whether something handed out since is a piece of its own.
    [[nodiscard]] bool overflowed() const { return !m_pieces.empty(); }

private:
    [[nodiscard]] std::unique_ptr<Buffer> make(std::size_t bytes);

    Runtime &m_runtime;
    Kind m_kind;
    std::unique_ptr<Buffer> m_memory;
    std::vector<std::unique_ptr<Buffer>> m_pieces; ///< of what did not fit
    std::size_t m_used = 0;
    std::size_t m_most = 0;
};

} // namespace kernels::cuda
