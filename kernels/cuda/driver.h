// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/launch.h"

#include <cstddef>
#include <memory>
#include <string>

struct CUgraph_st;
struct CUgraphExec_st;

namespace kernels::cuda {

using GraphHandle = CUgraph_st *;             ///< cudaGraph_t
using GraphInstanceHandle = CUgraphExec_st *; ///< cudaGraphExec_t

/// What is known of a GPU before it is opened.
struct DeviceFacts {
    std::string name;
    int major = 0; ///< of the compute capability
    int minor = 0;
    std::size_t totalBytes = 0;
};

/// The calls of NVIDIA's runtime library that Lathe makes: the library itself, linked into programs with
/// LATHE_HAS_CUDA, or a scripted one in tests. Every call gives a cudaError_t, 0 for success; versions are 1000 * major
/// + 10 * minor. Thread: any; useDevice() acts for the calling thread. Source: CUDA Runtime API reference.
class Driver {
public:
    virtual ~Driver() = default;

    [[nodiscard]] virtual int libraryVersion() const = 0;
    /// 0 where there is no driver.
    [[nodiscard]] virtual int driverVersion(int &version) = 0;
    [[nodiscard]] virtual int deviceCount(int &count) = 0;
    [[nodiscard]] virtual int deviceFacts(int index, DeviceFacts &facts) = 0;
    [[nodiscard]] virtual int useDevice(int index) = 0;
    [[nodiscard]] virtual int memory(std::size_t &free, std::size_t &total) = 0;

    [[nodiscard]] virtual int allocate(void *&memory, std::size_t bytes) = 0;
    [[nodiscard]] virtual int zero(void *memory, std::size_t bytes) = 0;
    virtual int free(void *memory) = 0;
    [[nodiscard]] virtual int allocatePinned(void *&memory, std::size_t bytes) = 0;
    virtual int freePinned(void *memory) = 0;

    [[nodiscard]] virtual int makeStream(StreamHandle &stream) = 0;
    virtual int destroyStream(StreamHandle stream) = 0;
    [[nodiscard]] virtual int synchronize(StreamHandle stream) = 0;
    [[nodiscard]] virtual int synchronizeDevice() = 0;
    /// From and to the host or any device; without a stream when the call returns.
    [[nodiscard]] virtual int copy(const void *from, void *to, std::size_t bytes, StreamHandle stream) = 0;
    [[nodiscard]] virtual int copyNow(const void *from, void *to, std::size_t bytes) = 0;
    /// Whether `from` can reach the memory of `to` without the host between them.
    [[nodiscard]] virtual int canReach(int from, int to, bool &can) = 0;
    /// The device in use reaches that memory from now on.
    [[nodiscard]] virtual int reach(int to) = 0;

    /// What this thread queues on the stream becomes a graph.
    [[nodiscard]] virtual int beginCapture(StreamHandle stream) = 0;
    /// Null with an error; the stream captures no longer in any case.
    [[nodiscard]] virtual int endCapture(StreamHandle stream, GraphHandle &graph) = 0;
    virtual int destroyGraph(GraphHandle graph) = 0;
    [[nodiscard]] virtual int instantiate(GraphInstanceHandle &instance, GraphHandle graph) = 0;
    virtual int destroyInstance(GraphInstanceHandle instance) = 0;
    [[nodiscard]] virtual int launchGraph(GraphInstanceHandle instance, StreamHandle stream) = 0;

    /// The last error of any call or kernel, which it takes away unless it is there to stay.
    [[nodiscard]] virtual int lastError() = 0;
    [[nodiscard]] virtual std::string errorText(int error) const = 0;
};

/// The library that is linked in. In programs with LATHE_HAS_CUDA only.
[[nodiscard]] std::unique_ptr<Driver> makeLinkedDriver();

} // namespace kernels::cuda
