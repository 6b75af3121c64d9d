// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/ops.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kernels::cuda {

/// Launches and copies of a stream that were captured, to be queued as one. Source: CUDA C++ Programming Guide, CUDA
/// Graphs.
class Graph {
public:
    virtual ~Graph() = default;
};

/// What the host asks of a device besides launching kernels: memory, copies, streams and graphs. The seam below
/// CudaOps: one implementation for the emulator, one for NVIDIA's driver. Launchers take the stream's handle, and
/// nothing else of it. Thread: one caller at a time.
class Runtime {
public:
    virtual ~Runtime() = default;

    /// What Ops::isa says: "simt" or the compute capability.
    [[nodiscard]] virtual std::string_view name() const = 0;
    /// Memory of the device, zeroed, aligned to 256 bytes. \throws Error OutOfMemory naming bytes asked for and free
    [[nodiscard]] virtual std::unique_ptr<Buffer> allocate(std::size_t bytes) = 0;
    /// Memory of the host that the device can copy by itself while the host goes on. \throws Error OutOfMemory
    [[nodiscard]] virtual std::unique_ptr<Buffer> allocatePinned(std::size_t bytes) = 0;
    [[nodiscard]] virtual std::size_t freeBytes() const = 0;

    [[nodiscard]] virtual StreamHandle makeStream() = 0;
    virtual void destroyStream(StreamHandle stream) = 0;
    virtual void synchronize(StreamHandle stream) = 0;
    /// Between host and device in any direction, in the order of the stream.
    virtual void copy(const void *from, void *to, std::size_t bytes, StreamHandle stream) = 0;
    /// Waits for everything and copies; for weights, which are loaded outside all streams.
    virtual void copyNow(const void *from, void *to, std::size_t bytes) = 0;

    /// From here the stream notes launches and copies and does none of them, until endCapture(), which makes a graph of
    /// them, or abandonCapture(). Memory may not be allocated meanwhile, nor anything be waited for.
    virtual void beginCapture(StreamHandle stream) = 0;
    [[nodiscard]] virtual std::unique_ptr<Graph> endCapture(StreamHandle stream) = 0;
    /// The stream is as before; errors are left alone.
    virtual void abandonCapture(StreamHandle stream) = 0;
    virtual void launch(const Graph &graph, StreamHandle stream) = 0;

    /// Whether it still works, without waiting. \throws DeviceLost
    virtual void checkDevice() { }

    /// Threads of the host that stand for the device; 1 for a real one, where setThreads does nothing.
    [[nodiscard]] virtual int threads() const { return 1; }
    virtual void setThreads(int) { }
};

/// Choices for an emulated device.
struct SimtOptions {
    int threads = 2;          ///< of the host
    unsigned long seed = 1;   ///< of the order in which threads of the device run
    bool randomOrder = false; ///< else the order of their numbers
    /// The host gets a segmentation fault where it touches the device's memory, as it would with a real device.
    bool guarded = false;
};
/// In programs with the emulator only (LATHE_HAS_SIMT).
[[nodiscard]] std::unique_ptr<Runtime> makeSimtRuntime(const SimtOptions &options);

/// Choices for the operations on a device.
struct CudaOptions {
    /// cuBLASLt may multiply many rows, from as many on as it is measured to be faster.
    bool batchDependent = false;
    std::vector<std::string> libraries{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}; ///< one of them
    /// Instead of the measurement: seconds of a product with so many rows, by the library or by the kernels.
    std::function<double(int rows, bool dense)> seconds = {};
    int pieceBytes = 64 << 20;                 ///< of expanded weights at a time
    std::vector<std::string> *notes = nullptr; ///< what was chosen and why goes there
};
/// The operations on a device; takes the runtime.
[[nodiscard]] std::unique_ptr<Ops> makeCudaOps(std::unique_ptr<Runtime> runtime, const CudaOptions &options = {});

} // namespace kernels::cuda
