// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cuda/step_memory.h"

#include <algorithm>
#include <cstring>

namespace kernels::cuda {

std::unique_ptr<Buffer> Arena::make(std::size_t bytes)
{
    return m_kind == Kind::Device ? m_runtime.allocate(bytes) : m_runtime.allocatePinned(bytes);
}

std::byte *Arena::take(std::size_t bytes, bool counting)
{
    constexpr std::size_t alignment = 256;
    const std::size_t first = m_used;
    m_used += (bytes + alignment - 1) / alignment * alignment;
    m_most = std::max(m_most, m_used);
    if (counting)
        return nullptr;
    if (m_memory && m_used <= m_memory->bytes())
        return m_memory->data() + first;
    m_pieces.push_back(make(bytes));
    return m_pieces.back()->data();
}

void Arena::reserve()
{
    m_pieces.clear();
    if (m_memory ? m_memory->bytes() >= m_most : m_most == 0)
        return;
    m_memory.reset(); // both at once might not fit
    m_memory = make(m_most);
}

DeviceStream::DeviceStream(Runtime &runtime)
    : m_runtime(runtime)
    , m_handle(runtime.makeStream())
    , m_workspace(runtime, Arena::Kind::Device)
    , m_staging(runtime, Arena::Kind::Pinned)
    , m_inputMemory(runtime, Arena::Kind::Device)
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
    for (Arena *arena : {&m_workspace, &m_staging, &m_inputMemory}) {
        arena->reset();
        arena->reserve(); // a step that was larger than planned leaves what it needed
    }
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
    dropInputs();
    return true;
}

const std::byte *DeviceStream::putBytes(std::span<const std::byte> bytes)
{
    if (bytes.empty())
        return nullptr;
    for (const Input &input : m_inputs)
        if (std::ranges::equal(input.host, bytes))
            return input.device;
    std::byte *host = m_staging.take(bytes.size(), m_plans);
    std::byte *device = m_inputMemory.take(bytes.size(), m_plans);
    if (m_plans) {
        host = m_planned.emplace_back(bytes.begin(), bytes.end()).data();
    } else {
        std::memcpy(host, bytes.data(), bytes.size());
        m_runtime.copy(host, device, bytes.size(), m_handle);
    }
    m_inputs.push_back({{host, bytes.size()}, device});
    return device;
}

} // namespace kernels::cuda
