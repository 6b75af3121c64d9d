// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"

#include <memory>
#include <span>
#include <vector>

namespace kernels::cuda {

/// Memory that is handed out from front to back and taken back as a whole. What does not fit comes from pieces of its
/// own until the next reserve(), so that nothing handed out moves.
class Arena {
public:
    enum class Kind { Device, Pinned };

    Arena(Runtime &runtime, Kind kind)
        : m_runtime(runtime)
        , m_kind(kind)
    {
    }

    /// Aligned to 256 bytes. While `counting`, nothing is made and the result is null.
    [[nodiscard]] std::byte *take(std::size_t bytes, bool counting);
    /// Everything handed out is free again, once the device has used it.
    void reset() { m_used = 0; }
    /// Makes one piece of what was needed at most so far. \pre the device is idle and nothing is handed out
    void reserve();

private:
    [[nodiscard]] std::unique_ptr<Buffer> make(std::size_t bytes);

    Runtime &m_runtime;
    Kind m_kind;
    std::unique_ptr<Buffer> m_memory;
    std::vector<std::unique_ptr<Buffer>> m_pieces; ///< of what did not fit
    std::size_t m_used = 0;
    std::size_t m_most = 0;
};

/// A stream with the memory that operations on it need besides their outputs: a workspace for one operation at a time,
/// and the step's small inputs (ids, positions, tables), which the host writes. Both are made while planning, and
/// grow only for a step larger than all planned ones.
class DeviceStream final : public Stream {
public:
    explicit DeviceStream(Runtime &runtime);
    ~DeviceStream() override;
    DeviceStream(const DeviceStream &) = delete;
    DeviceStream &operator=(const DeviceStream &) = delete;

    void synchronize() override;
    [[nodiscard]] bool plan(bool on) override;

    [[nodiscard]] static DeviceStream &of(Stream &stream);
    /// \throws DeviceLost
    void checkDevice() { m_runtime.checkDevice(); }
    [[nodiscard]] StreamHandle handle() const { return m_handle; }
    [[nodiscard]] bool plans() const override { return m_plans; }

    /// Until all that was queued is done; what was handed out stays.
    void wait() { m_runtime.synchronize(m_handle); }

    /// The next operation begins: the workspace of the last one is free, as operations follow one another.
    void beginOperation() { m_workspace.reset(); }
    template<typename T> [[nodiscard]] T *take(std::int64_t count)
    {
        return reinterpret_cast<T *>(m_workspace.take(static_cast<std::size_t>(count) * sizeof(T), m_plans));
    }
    /// The values on the device until the next synchronize(); equal ones are brought there once.
    template<typename T> [[nodiscard]] const T *put(std::span<const T> values)
    {
        return reinterpret_cast<const T *>(putBytes(std::as_bytes(values)));
    }

private:
    struct Input {
        std::span<const std::byte> host;
        std::byte *device = nullptr;
    };
    [[nodiscard]] const std::byte *putBytes(std::span<const std::byte> bytes);
    void dropInputs();

    Runtime &m_runtime;
    StreamHandle m_handle;
    Arena m_workspace;
    Arena m_staging;
    Arena m_inputMemory;
    std::vector<Input> m_inputs;
    std::vector<std::vector<std::byte>> m_planned; ///< inputs while planning, when there is no staging memory
    bool m_plans = false;
};

} // namespace kernels::cuda
