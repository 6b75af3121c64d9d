// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"
#include "kernels/device_lost.h"

#include <atomic>
#include <csignal>
#include <memory>

/// A device that fails where a test wants it to.
namespace faulty {

enum Fault { Launch, Memory, Lost, Died };

/// When a device fails; owned by the test, used by the engine thread.
struct Plan {
    int fault = Launch;           ///< Died: the process is
    bool copiesOnly = false;      ///< only copies in the order of a stream count
    std::atomic<int> failing = 0; ///< number of the call that fails; 0 = none
    std::atomic<int> calls = 0;   ///< made since `failing` was set
    std::atomic<bool> lost = false;
};

/// The emulator, with calls that fail as a real device's do.
class FaultyRuntime final : public kernels::cuda::Runtime {
public:
    explicit FaultyRuntime(Plan &plan)
        : m_plan(plan)
        , m_device(kernels::cuda::makeSimtRuntime({.threads = 1}))
    {
    }
    std::string_view name() const override { return m_device->name(); }
    std::unique_ptr<kernels::Buffer> allocate(std::size_t bytes) override
    {
        count();
        return m_device->allocate(bytes);
    }
    std::unique_ptr<kernels::Buffer> allocatePinned(std::size_t bytes) override
    {
        count();
        return m_device->allocatePinned(bytes);
    }
    std::size_t freeBytes() const override { return m_device->freeBytes(); }
    kernels::cuda::StreamHandle makeStream() override { return m_device->makeStream(); }
    void destroyStream(kernels::cuda::StreamHandle stream) override { m_device->destroyStream(stream); }
    void synchronize(kernels::cuda::StreamHandle stream) override
    {
        count();
        m_device->synchronize(stream);
    }
    void copy(const void *from, void *to, std::size_t bytes, kernels::cuda::StreamHandle stream) override
    {
        count(true);
        m_device->copy(from, to, bytes, stream);
    }
    void copyNow(const void *from, void *to, std::size_t bytes) override
    {
        count();
        m_device->copyNow(from, to, bytes);
    }
    void checkDevice() override
    {
        if (m_plan.lost)
            throw kernels::DeviceLost("device simt was lost");
    }

private:
    void count(bool isCopy = false)
    {
        checkDevice();
        if (m_plan.copiesOnly && !isCopy)
            return;
        if (m_plan.failing == 0 || ++m_plan.calls != m_plan.failing)
            return;
        if (m_plan.fault == Launch)
            throw kernels::Error(kernels::ErrorCode::Internal, "a kernel was not launched");
        if (m_plan.fault == Memory)
            throw kernels::Error(kernels::ErrorCode::OutOfMemory, "not enough memory on device simt");
        if (m_plan.fault == Died)
            (void)std::raise(SIGKILL);
        m_plan.lost = true;
        checkDevice();
    }

    Plan &m_plan;
    std::unique_ptr<kernels::cuda::Runtime> m_device;
};

} // namespace faulty
