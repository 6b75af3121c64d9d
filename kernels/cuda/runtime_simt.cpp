// SPDX-License-Identifier: GPL-3.0-or-later
// The emulator as a device: its memory is the host's, and every launch has ended when it returns.
#include "kernels/cuda/runtime_simt.h"

#include "kernels/checks.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace kernels::cuda {

namespace {

/// Device memory that the host may touch only while it is unlocked.
class GuardedMemory {
public:
    void add(void *memory, std::size_t bytes)
    {
        m_pieces[memory] = bytes;
        lock(memory, bytes, true);
    }
    void remove(void *memory) { m_pieces.erase(memory); }
    void lockAll(bool locked) const
    {
        for (const auto &[memory, bytes] : m_pieces)
            lock(memory, bytes, locked);
    }

private:
    static void lock(void *memory, std::size_t bytes, bool locked)
    {
        CHECK(mprotect(memory, bytes, locked ? PROT_NONE : PROT_READ | PROT_WRITE) == 0);
    }
    std::map<void *, std::size_t> m_pieces;
};

/// Exactly sized, so that ASan sees the true end.
class HeapBuffer final : public Buffer {
public:
    explicit HeapBuffer(std::size_t bytes)
        : m_bytes(bytes)
    {
        void *memory = nullptr;
        if (posix_memalign(&memory, 256, std::max<std::size_t>(bytes, 1)) != 0)
            throw Error(ErrorCode::OutOfMemory, "not enough memory: " + std::to_string(bytes) + " bytes asked for");
        std::memset(memory, 0, bytes);
        m_data = static_cast<std::byte *>(memory);
    }
    ~HeapBuffer() override { std::free(m_data); }
    HeapBuffer(const HeapBuffer &) = delete;
    HeapBuffer &operator=(const HeapBuffer &) = delete;
    std::byte *data() override { return m_data; }
    std::size_t bytes() const override { return m_bytes; }

private:
    std::byte *m_data = nullptr;
    std::size_t m_bytes;
};

class GuardedBuffer final : public Buffer {
public:
    GuardedBuffer(std::size_t bytes, GuardedMemory &guard)
        : m_memory(allocateHost(bytes))
        , m_guard(guard)
    {
        m_guard.add(m_memory->data(), std::max<std::size_t>(bytes, 1));
    }
    ~GuardedBuffer() override { m_guard.remove(m_memory->data()); }
    GuardedBuffer(const GuardedBuffer &) = delete;
    GuardedBuffer &operator=(const GuardedBuffer &) = delete;
    std::byte *data() override { return m_memory->data(); }
    std::size_t bytes() const override { return m_memory->bytes(); }

private:
    std::unique_ptr<Buffer> m_memory;
    GuardedMemory &m_guard;
};

class SimtRuntime final : public Runtime {
public:
    explicit SimtRuntime(const SimtOptions &options)
        : m_guarded(options.guarded)
        , m_emulator(configOf(options))
    {
        if (m_guarded)
            m_emulator.config().onRun = [this](bool runs) { m_guard.lockAll(!runs); };
    }

    std::string_view name() const override { return "simt"; }
    std::unique_ptr<Buffer> allocate(std::size_t bytes) override
    {
        constexpr std::size_t large = 1U << 20U; // pages of their own, which take memory only once they are used
        if (m_guarded)
            return std::make_unique<GuardedBuffer>(bytes, m_guard);
        return bytes >= large ? allocateHost(bytes) : std::make_unique<HeapBuffer>(bytes);
    }
    std::unique_ptr<Buffer> allocatePinned(std::size_t bytes) override { return allocateHost(bytes); }
    std::size_t freeBytes() const override { return availableHostBytes(); }

    StreamHandle makeStream() override { return m_emulator.stream(); }
    void destroyStream(StreamHandle) override { }
    void synchronize(StreamHandle) override { }
    void copy(const void *from, void *to, std::size_t bytes, StreamHandle) override
    {
        if (m_emulator.captures())
            m_captured.push_back({{}, false, [this, from, to, bytes] { copyNow(from, to, bytes); }});
        else
            copyNow(from, to, bytes);
    }
    void copyNow(const void *from, void *to, std::size_t bytes) override
    {
        if (bytes == 0)
            return;
        m_guard.lockAll(false);
        std::memcpy(to, from, bytes);
        m_guard.lockAll(true);
    }

    void beginCapture(StreamHandle) override
    {
        CHECK(!m_emulator.captures());
        m_captured.clear();
        m_emulator.setCapture([this](std::vector<simt::Launch> launches, bool coresident) {
            m_captured.push_back({std::move(launches), coresident, {}});
        });
    }
    std::unique_ptr<Graph> endCapture(StreamHandle) override
    {
        CHECK(m_emulator.captures());
        m_emulator.setCapture({});
        return std::make_unique<SimtGraph>(std::exchange(m_captured, {}));
    }
    void abandonCapture(StreamHandle) override
    {
        m_emulator.setCapture({});
        m_captured.clear();
    }
    void launch(const Graph &graph, StreamHandle) override
    {
        for (const SimtGraph::Node &node : dynamic_cast<const SimtGraph &>(graph).nodes())
            if (node.copy)
                node.copy();
            else
                m_emulator.run(node.launches, node.coresident);
    }

    int threads() const override { return static_cast<int>(m_threads); }
    void setThreads(int threads) override
    {
        m_threads = static_cast<unsigned>(std::max(1, threads));
        m_emulator.config().workers = m_threads;
    }

private:
    static simt::Config configOf(const SimtOptions &options)
    {
        simt::Config config;
        config.seed = options.seed;
        config.schedule = options.randomOrder ? simt::Schedule::Random : simt::Schedule::Fifo;
        config.workers = static_cast<unsigned>(std::max(1, options.threads));
        return config;
    }

    bool m_guarded;
    GuardedMemory m_guard;
    simt::Emulator m_emulator;
    std::vector<SimtGraph::Node> m_captured;
    unsigned m_threads = m_emulator.config().workers;
};

} // namespace

std::unique_ptr<Runtime> makeSimtRuntime(const SimtOptions &options)
{
    return std::make_unique<SimtRuntime>(options);
}

} // namespace kernels::cuda
