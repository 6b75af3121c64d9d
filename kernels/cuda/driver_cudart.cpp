// SPDX-License-Identifier: GPL-3.0-or-later
// NVIDIA's runtime library, linked statically; it looks for the driver by itself when it is first called.
#include "kernels/cuda/driver.h"

#include <cuda_runtime_api.h>

namespace kernels::cuda {

namespace {

class LinkedDriver final : public Driver {
public:
    int libraryVersion() const override { return CUDART_VERSION; }
    int driverVersion(int &version) override { return cudaDriverGetVersion(&version); }
    int deviceCount(int &count) override { return cudaGetDeviceCount(&count); }
    int deviceFacts(int index, DeviceFacts &facts) override
    {
        cudaDeviceProp properties{};
        const int error = cudaGetDeviceProperties(&properties, index);
        if (error == cudaSuccess)
            facts = {properties.name, properties.major, properties.minor, properties.totalGlobalMem};
        return error;
    }
    int useDevice(int index) override { return cudaSetDevice(index); }
    int memory(std::size_t &free, std::size_t &total) override { return cudaMemGetInfo(&free, &total); }

    int allocate(void *&memory, std::size_t bytes) override { return cudaMalloc(&memory, bytes); }
    int zero(void *memory, std::size_t bytes) override { return cudaMemset(memory, 0, bytes); }
    int free(void *memory) override { return cudaFree(memory); }
    int allocatePinned(void *&memory, std::size_t bytes) override
    {
        return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable);
    }
    int freePinned(void *memory) override { return cudaFreeHost(memory); }

    int makeStream(StreamHandle &stream) override { return cudaStreamCreate(&stream); }
    int destroyStream(StreamHandle stream) override { return cudaStreamDestroy(stream); }
    int synchronize(StreamHandle stream) override { return cudaStreamSynchronize(stream); }
    int synchronizeDevice() override { return cudaDeviceSynchronize(); }
    int copy(const void *from, void *to, std::size_t bytes, StreamHandle stream) override
    {
        return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
    }
    int copyNow(const void *from, void *to, std::size_t bytes) override
    {
        return cudaMemcpy(to, from, bytes, cudaMemcpyDefault);
    }
    int canReach(int from, int to, bool &can) override
    {
        int found = 0;
        const int error = cudaDeviceCanAccessPeer(&found, from, to);
        can = found != 0;
        return error;
    }
    int reach(int to) override
    {
        const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
        if (error != cudaErrorPeerAccessAlreadyEnabled)
            return error;
        (void)cudaGetLastError(); // it did already
        return cudaSuccess;
    }
    /// Calls of other threads go on meanwhile.
    int beginCapture(StreamHandle stream) override
    {
        return cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    }
    int endCapture(StreamHandle stream, GraphHandle &graph) override { return cudaStreamEndCapture(stream, &graph); }
    int destroyGraph(GraphHandle graph) override { return cudaGraphDestroy(graph); }
    int instantiate(GraphInstanceHandle &instance, GraphHandle graph) override
    {
        return cudaGraphInstantiate(&instance, graph, 0);
    }
    int destroyInstance(GraphInstanceHandle instance) override { return cudaGraphExecDestroy(instance); }
    int launchGraph(GraphInstanceHandle instance, StreamHandle stream) override
    {
        return cudaGraphLaunch(instance, stream);
    }
    int lastError() override { return cudaGetLastError(); }
    std::string errorText(int error) const override { return cudaGetErrorString(static_cast<cudaError_t>(error)); }
};

} // namespace

std::unique_ptr<Driver> makeLinkedDriver()
{
    return std::make_unique<LinkedDriver>();
}

} // namespace kernels::cuda
