// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/runtime.h"

#include <functional>
#include <memory>
#include <utility>

/// A device that passes everything on, for tests that watch or disturb it.
class WatchedRuntime final : public kernels::cuda::Runtime {
public:
    using Graph = kernels::cuda::Graph;
    using StreamHandle = kernels::cuda::StreamHandle;
    enum class Call { Allocate, Copy, Synchronize, BeginCapture, EndCapture, LaunchGraph };

    struct Watch {
        std::function<void(Call)> before;             ///< each call that can fail; an exception is its failure
        std::function<void()> check = {};             ///< of checkDevice
        std::function<void(const Graph &)> made = {}; ///< of endCapture
    };

    WatchedRuntime(std::unique_ptr<Runtime> runtime, Watch watch)
        : m_runtime(std::move(runtime))
        , m_watch(std::move(watch))
    {
    }
    std::string_view name() const override { return m_runtime->name(); }
    std::unique_ptr<kernels::Buffer> allocate(std::size_t bytes) override
    {
        m_watch.before(Call::Allocate);
        return m_runtime->allocate(bytes);
    }
    std::unique_ptr<kernels::Buffer> allocatePinned(std::size_t bytes) override
    {
        m_watch.before(Call::Allocate);
        return m_runtime->allocatePinned(bytes);
    }
    std::size_t freeBytes() const override { return m_runtime->freeBytes(); }
    StreamHandle makeStream() override { return m_runtime->makeStream(); }
    void destroyStream(StreamHandle stream) override { m_runtime->destroyStream(stream); }
    void synchronize(StreamHandle stream) override
    {
        m_watch.before(Call::Synchronize);
        m_runtime->synchronize(stream);
    }
    void copy(const void *from, void *to, std::size_t bytes, StreamHandle stream) override
    {
        m_watch.before(Call::Copy);
        m_runtime->copy(from, to, bytes, stream);
    }
    void copyNow(const void *from, void *to, std::size_t bytes) override
    {
        m_watch.before(Call::Copy);
        m_runtime->copyNow(from, to, bytes);
    }
    void beginCapture(StreamHandle stream) override
    {
        m_watch.before(Call::BeginCapture);
        m_runtime->beginCapture(stream);
    }
    std::unique_ptr<Graph> endCapture(StreamHandle stream) override
    {
        std::unique_ptr<Graph> graph = m_runtime->endCapture(stream); // it captures no longer, though this call fails
        m_watch.before(Call::EndCapture);
        if (m_watch.made)
            m_watch.made(*graph);
        return graph;
    }
    void abandonCapture(StreamHandle stream) override { m_runtime->abandonCapture(stream); }
    void launch(const Graph &graph, StreamHandle stream) override
    {
        m_watch.before(Call::LaunchGraph);
        m_runtime->launch(graph, stream);
    }
    void checkDevice() override
    {
        if (m_watch.check)
            m_watch.check();
    }

private:
    std::unique_ptr<Runtime> m_runtime;
    Watch m_watch;
};
