// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/captured_steps.h"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kernels::cuda {

/// A stream with the memory that operations on it need besides their outputs: a workspace for one operation at a time,
/// and the step's small inputs (ids, positions, tables), which the host writes. Both are made while planning, and
/// grow only for a step larger than all planned ones. Steps of runStep() are queued as graphs from their second time
/// on.
class DeviceStream final : public Stream {
public:
    explicit DeviceStream(Runtime &runtime);
    ~DeviceStream() override;
    DeviceStream(const DeviceStream &) = delete;
    DeviceStream &operator=(const DeviceStream &) = delete;

    void synchronize() override;
    [[nodiscard]] bool plan(bool on) override;
    void runStep(const StepShape &shape, StepInputs inputs, const std::function<void()> &work) override;
    [[nodiscard]] bool capturesSteps() const override { return !m_refused; }
    void forgetSteps() override;
    [[nodiscard]] std::string takeCaptureFault() override { return std::exchange(m_fault, {}); }

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
    enum class Step { None, Plain, Captured }; ///< of runStep()
    struct Input {
        std::span<const std::byte> host;
        const std::byte *source = nullptr; ///< what was put
        std::byte *device = nullptr;
    };
    [[nodiscard]] const std::byte *putBytes(std::span<const std::byte> bytes);
    void dropInputs();
    /// Whether the step was queued.
    [[nodiscard]] bool replay(const Graph &graph);
    void capture(const StepShape &shape, const std::function<void()> &work);
    void refuse(const std::string &why);

    Runtime &m_runtime;
    StreamHandle m_handle;
    Arena m_workspace;
    Arena m_staging;
    Arena m_inputMemory;
    std::vector<Input> m_inputs;
    std::vector<std::vector<std::byte>> m_planned; ///< inputs while planning, when there is no staging memory
    FixedInputs m_fixedInputs;
    StepConstants m_constants;
    StepGraphs m_graphs;
    std::string m_fault; ///< not told yet
    Step m_step = Step::None;
    bool m_refused = false;
    bool m_plans = false;
};

} // namespace kernels::cuda
