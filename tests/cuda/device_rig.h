// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/simt/emulator.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

/// Memory, schedules and comparisons for tests of emulated CUDA kernels.
namespace device_rig {

using kernels::cuda::StreamHandle;

/// Whether the small shapes alone are tested: the quick pass under TSan, where a launch takes a hundred times as long.
[[nodiscard]] bool smallOnly();
/// Whether it is the full tier under TSan: every kernel, every type and every way through them, but fewer of the shapes
/// and random cases that differ in values alone, which the other builds go through.
[[nodiscard]] bool thinned();

/// Runs `work` on an emulated device once for each seed; seeds go through all schedules. `work` returns what is wrong,
/// or nothing. Returns the first complaint, of the work or of the emulator, with its seed.
[[nodiscard]] std::string underSchedules(const std::function<std::string(StreamHandle)> &work);

/// Memory of exactly the size asked for, aligned as cudaMalloc does, full of NaN. Its borders may not be touched: under
/// ASan they are poisoned, else bordersIntact() tells.
class DeviceBytes {
public:
    explicit DeviceBytes(std::size_t bytes)
        : m_bytes(bytes)
        , m_memory(static_cast<std::byte *>(std::aligned_alloc(border, whole(bytes))))
    {
        if (!m_memory)
            throw std::bad_alloc();
        for (std::size_t i = 0; i < whole(bytes); i += sizeof fill)
            std::memcpy(m_memory.get() + i, &fill, sizeof fill);
        setPoison(true);
    }
    ~DeviceBytes() { setPoison(false); }
    DeviceBytes(const DeviceBytes &) = delete;
    DeviceBytes &operator=(const DeviceBytes &) = delete;

    /// What memory holds: a NaN as float, half and bfloat16. It is a signalling one, so that no arithmetic results in
    /// it.
    static constexpr std::uint32_t fill = 0xffbfffff;

    [[nodiscard]] std::byte *data() const { return m_memory.get() + border; }
    [[nodiscard]] std::size_t bytes() const { return m_bytes; }

    [[nodiscard]] bool bordersIntact() const
    {
        setPoison(false);
        bool intact = true;
        for (std::size_t i = 0; i < whole(m_bytes); ++i)
            if (i < border || i >= border + m_bytes)
                intact = intact && m_memory.get()[i] == static_cast<std::byte>(fill >> 8 * (i % sizeof fill));
        setPoison(true);
        return intact;
    }

private:
    struct Free {
        void operator()(std::byte *memory) const { std::free(memory); }
    };
    static constexpr std::size_t border = 256;

    static std::size_t whole(std::size_t bytes) { return (bytes + border - 1) / border * border + 2 * border; }

    void setPoison([[maybe_unused]] bool on) const
    {
#if defined(__SANITIZE_ADDRESS__)
        if (on) {
            ASAN_POISON_MEMORY_REGION(m_memory.get(), border);
            ASAN_POISON_MEMORY_REGION(m_memory.get() + border + m_bytes, whole(m_bytes) - border - m_bytes);
        } else {
            ASAN_UNPOISON_MEMORY_REGION(m_memory.get(), whole(m_bytes));
        }
#endif
    }

    std::size_t m_bytes;
    std::unique_ptr<std::byte, Free> m_memory;
};

/// An array on the device.
template<typename T> class DeviceArray {
public:
    explicit DeviceArray(std::size_t count)
        : m_bytes(count * sizeof(T))
    {
    }
    explicit DeviceArray(std::span<const T> values)
        : DeviceArray(values.size())
    {
        if (!values.empty())
            std::memcpy(data(), values.data(), values.size_bytes());
    }
    explicit DeviceArray(const std::vector<T> &values)
        : DeviceArray(std::span<const T>(values))
    {
    }

    [[nodiscard]] T *data() const { return reinterpret_cast<T *>(m_bytes.data()); }
    [[nodiscard]] T &operator[](std::size_t i) const { return data()[i]; }
    [[nodiscard]] std::size_t size() const { return m_bytes.bytes() / sizeof(T); }
    [[nodiscard]] bool bordersIntact() const { return m_bytes.bordersIntact(); }
    [[nodiscard]] bool equals(const std::vector<T> &values) const
    {
        return size() == values.size() && (values.empty() || std::memcmp(data(), values.data(), m_bytes.bytes()) == 0);
    }

private:
    DeviceBytes m_bytes;
};

/// Rows with gaps between them, in groups with larger gaps; the last row ends with the memory.
class Rows {
public:
    struct Layout {
        int perGroup = 1;
        int gap = 3;      ///< elements behind a row
        int groupGap = 5; ///< more behind a group
    };
    Rows(int rows, int columns, const Layout &layout);
    Rows(int rows, int columns)
        : Rows(rows, columns, Layout())
    {
    }
    Rows(int rows, int columns, const std::vector<float> &values, const Layout &layout);
    Rows(int rows, int columns, const std::vector<float> &values)
        : Rows(rows, columns, values, Layout())
    {
    }

    [[nodiscard]] const kernels::cuda::RowSpan &span() const { return m_span; }
    [[nodiscard]] float *row(int row) const;
    [[nodiscard]] std::vector<float> values() const;
    /// Whether gaps and borders are as they were.
    [[nodiscard]] bool restIntact() const;

private:
    kernels::cuda::RowSpan m_span;
    std::unique_ptr<DeviceArray<float>> m_memory;
};

/// The largest NMSE of a row; infinity when a row differs in what is finite, or in length.
[[nodiscard]] double worstRow(const std::vector<float> &found, const std::vector<float> &wanted, int columns);
/// Empty when all rows are within the limit; else which row is not.
[[nodiscard]] std::string compareRows(const std::vector<float> &found, const std::vector<float> &wanted, int columns,
                                      double limit);
/// Empty when both hold the same bits; else the first difference.
[[nodiscard]] std::string compareBits(const std::vector<float> &found, const std::vector<float> &wanted);

} // namespace device_rig
