// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/step_memory.h"

#include "kernels/device_lost.h"

#include <algorithm>
#include <cstring>

namespace kernels::cuda {

std::unique_ptr<Buffer> Arena::make(std::size_t bytes)
{
    return m_kind == Kind::Device ? m_runtime.allocate(bytes) : m_runtime.allocatePinned(bytes);
}

std::byte *Arena::take(std::size_t bytes, bool counting)
{
    const std::size_t first = m_used;
    m_used += aligned(bytes);
    m_most = std::max(m_most, m_used);
    if (counting)
        return nullptr;
    if (m_memory && m_used <= m_memory->bytes())
        return m_memory->data() + first;
    m_pieces.push_back(make(bytes));
    return m_pieces.back()->data();
}

bool Arena::reserve()
{
    m_pieces.clear();
    if (m_memory ? m_memory->bytes() >= m_most : m_most == 0)
        return false;
    m_memory.reset(); // both at once might not fit
    m_memory = make(m_most);
    return true;
}

DeviceStream::DeviceStream(Runtime &runtime)
    : m_runtime(runtime)
    , m_handle(runtime.makeStream())
    , m_workspace(runtime, Arena::Kind::Device)
    , m_staging(runtime, Arena::Kind::Pinned)
    , m_inputMemory(runtime, Arena::Kind::Device)
    , m_fixedInputs(runtime)
    , m_constants(runtime)
{
}

DeviceStream::~DeviceStream()
{
    m_runtime.destroyStream(m_handle);
}

DeviceStream &DeviceStream::of(Stream &stream)
{
    auto *own = dynamic_cast<DeviceStream *>(&stream);
    CHECK(own != nullptr);
    return *own;
}

void DeviceStream::dropInputs()
{
    m_inputs.clear();
    m_planned.clear();
    // A step that was larger than planned leaves what it needed.
    for (Arena *arena : {&m_staging, &m_inputMemory}) {
        arena->reset();
        (void)arena->reserve();
    }
    m_workspace.reset();
    if (m_workspace.reserve())
        m_graphs.clear(); // they know the old one
}

void DeviceStream::synchronize()
{
    if (m_plans)
        return;
    m_runtime.synchronize(m_handle);
    dropInputs();
}

bool DeviceStream::plan(bool on)
{
    CHECK(on != m_plans);
    if (on)
        synchronize();
    m_plans = on;
    forgetSteps();
    dropInputs();
    m_constants.restart();
    if (!on)
        m_fixedInputs.reserve();
    return true;
}

const std::byte *DeviceStream::putBytes(std::span<const std::byte> bytes)
{
    if (bytes.empty())
        return nullptr;
    if (m_step != Step::None) {
        if (const auto place = m_fixedInputs.find(bytes))
            return *place;
        return m_constants.put(bytes, m_plans, m_step == Step::Captured, m_handle);
    }
    // Arrays that are equal while planning need not be so later.
    for (const Input &input : m_inputs)
        if ((!m_plans || input.source == bytes.data()) && std::ranges::equal(input.host, bytes))
            return input.device;
    std::byte *host = m_staging.take(bytes.size(), m_plans);
    std::byte *device = m_inputMemory.take(bytes.size(), m_plans);
    if (m_plans) {
        host = m_planned.emplace_back(bytes.begin(), bytes.end()).data();
    } else {
        std::memcpy(host, bytes.data(), bytes.size());
        m_runtime.copy(host, device, bytes.size(), m_handle);
    }
    m_inputs.push_back({{host, bytes.size()}, bytes.data(), device});
    return device;
}

void DeviceStream::forgetSteps()
{
    m_graphs.clear();
    m_refused = false;
}

void DeviceStream::runStep(const StepShape &shape, StepInputs inputs, const std::function<void()> &work)
{
    CHECK(m_step == Step::None);
    if (m_refused || (!m_plans && !m_fixedInputs.place(inputs, m_handle)))
        return work();
    if (m_plans)
        m_fixedInputs.plan(inputs);
    const Graph *graph = m_graphs.find(shape);
    if (graph != nullptr && replay(*graph))
        return;
    const struct EndStep {
        Step &step;
        ~EndStep() { step = Step::None; }
    } end{m_step};
    m_step = Step::Plain;
    work();
    if (!m_plans && !m_refused && !m_workspace.overflowed())
        capture(shape, work);
}

bool DeviceStream::replay(const Graph &graph)
{
    try {
        m_runtime.launch(graph, m_handle);
        return true;
    } catch (const DeviceLost &) {
        throw;
    } catch (const Error &error) {
        m_runtime.checkDevice();
        refuse(error.what());
        return false; // nothing of it was done
    } catch (const std::exception &fault) {
        throw Error(ErrorCode::Internal, fault.what()); // found wrong with a kernel by the emulator
    }
}

/// The step has just been queued, so its kernels are loaded, and all that it reads has its place.
void DeviceStream::capture(const StepShape &shape, const std::function<void()> &work)
{
    m_step = Step::Captured;
    try {
        m_runtime.beginCapture(m_handle);
        try {
            work();
        } catch (...) {
            m_runtime.abandonCapture(m_handle);
            throw;
        }
        m_graphs.keep(shape, m_runtime.endCapture(m_handle));
    } catch (const DeviceLost &) {
        throw;
    } catch (const std::exception &error) {
        m_runtime.checkDevice();
        refuse(error.what());
    }
}

void DeviceStream::refuse(const std::string &why)
{
    m_graphs.clear();
    m_refused = true;
    m_fault = "steps are no longer queued as graphs, but kernel by kernel: " + why;
}

} // namespace kernels::cuda
