// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

/// Runs CUDA kernels that g++ compiled: every CUDA thread is a fiber, blocks are spread over a few threads of the
/// system. What it finds wrong with a kernel is thrown as Fault, naming block, thread and line.
namespace simt {

/// A fault of a kernel: a divergent barrier, a copy nobody waited for, an overrun of shared memory, a deadlock.
class Fault : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Which of the threads that can run goes next.
enum class Schedule {
    Fifo,
    Lifo,
    Random,
    Starve, ///< one warp of each block runs only when nothing else can
};

/// How kernels are run.
struct Config {
    std::uint64_t seed = 1;
    Schedule schedule = Schedule::Random;
    unsigned workers = 2;                 ///< threads of the system
    std::size_t stackBytes = 64 * 1024;   ///< of each CUDA thread; sanitizer builds take more
    std::size_t sharedBytes = 163 * 1024; ///< most shared memory of a block: sm_80
    std::function<void(bool)> onRun;      ///< called with true before launches run, with false after them
    bool poison = true;                   ///< NaN in fresh shared memory and in targets of copies under way
};

/// What one launch did.
struct Counts {
    std::uint64_t switches = 0;
    std::uint64_t warpOperations = 0;
    std::uint64_t barriers = 0;
    std::uint64_t asyncCopies = 0;
    std::uint64_t bankConflicts = 0; ///< of ldmatrix, the one access whose addresses are seen together
};

/// One kernel with its arguments bound.
struct Launch {
    dim3 grid;
    dim3 block;
    std::size_t sharedBytes = 0;
    std::function<void()> body;
    const void *kernel = nullptr;
    std::vector<std::byte> arguments; ///< one after the other, padding zero; of launches that are captured
};

/// Takes launches in the place of running them.
using Capture = std::function<void(std::vector<Launch> launches, bool coresident)>;

struct Pool; // stacks and blocks kept between launches

/// An emulated device. Stands behind a cudaStream_t, so that kernels are launched alike on both targets.
/// Thread: one caller at a time.
class Emulator {
public:
    explicit Emulator(const Config &config = {});
    ~Emulator();
    Emulator(const Emulator &) = delete;
    Emulator &operator=(const Emulator &) = delete;

    /// Runs launches to their end: block after block, or with `coresident` all blocks of all launches at once, as
    /// kernels that wait for one another need. \throws Fault
    void run(std::vector<Launch> launches, bool coresident);
    /// While there is one, launches go there and are not run. Empty ends that.
    void setCapture(Capture capture) { m_capture = std::move(capture); }
    [[nodiscard]] bool captures() const { return static_cast<bool>(m_capture); }

    /// Every launch on this stream runs here, before the call returns.
    [[nodiscard]] cudaStream_t stream() { return reinterpret_cast<cudaStream_t>(this); }
    [[nodiscard]] static Emulator &of(cudaStream_t stream) { return *reinterpret_cast<Emulator *>(stream); }

    [[nodiscard]] Config &config() { return m_config; }
    [[nodiscard]] const Counts &lastCounts() const { return m_counts; }

private:
    Config m_config;
    Counts m_counts;
    Capture m_capture;
    std::unique_ptr<Pool> m_pool;
};

} // namespace simt
