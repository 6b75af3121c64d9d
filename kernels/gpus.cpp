// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/gpus.h"

#ifdef LATHE_HAS_CUDA
#include "kernels/cuda/peer_copies.h"
#include "kernels/cuda/runtime_device.h"
#endif

#include <charconv>

namespace kernels {

namespace {

/// N of "cuda:N". A model runs on one GPU.
int gpuNumber(const std::string &device)
{
    if (device.find(',') != std::string::npos)
        throw Error(ErrorCode::NoDevice,
                    "devices " + device + " are not available together; wanted one, as a model runs on one GPU");
    const char *first = device.data() + std::string("cuda:").size();
    const char *last = device.data() + device.size();
    int number = 0;
    const auto [end, fault] = std::from_chars(first, last, number);
    if (!device.starts_with("cuda:") || fault != std::errc() || end != last || number < 0)
        throw Error(ErrorCode::InvalidArgument, "device is \"" + device + "\"; wanted cuda:N");
    return number;
}

} // namespace

#ifdef LATHE_HAS_CUDA

GpuList listGpus()
{
    const auto driver = cuda::makeLinkedDriver();
    const cuda::FoundDevices found = cuda::findDevices(*driver);
    GpuList list;
    list.problem = found.problem;
    list.driver = found.driver;
    for (const cuda::FoundDevice &device : found.devices)
        list.problems.push_back(device.problem);
    return list;
}

std::unique_ptr<Ops> makeGpuOps(const std::string &device, bool deterministic, std::vector<std::string> *notes)
{
    return cuda::makeCudaOps(cuda::makeDeviceRuntime(cuda::makeLinkedDriver(), gpuNumber(device)),
                             {.batchDependent = !deterministic, .notes = notes});
}

void requireGpu(const std::string &device)
{
    (void)cuda::requireDevice(*cuda::makeLinkedDriver(), gpuNumber(device));
}

std::vector<PeerCopy> tryPeerCopies()
{
    constexpr std::size_t bytes = 256U << 20U;
    const GpuList list = listGpus();
    std::vector<int> usable;
    for (std::size_t i = 0; i < list.problems.size(); ++i)
        if (list.problems[i].empty())
            usable.push_back(static_cast<int>(i));
    return cuda::tryPeerCopies(*cuda::makeLinkedDriver(), usable, bytes);
}

#else

std::vector<PeerCopy> tryPeerCopies()
{
    return {};
}

GpuList listGpus()
{
    return {{}, "this program was built without CUDA (LATHE_CUDA)", {}};
}

void requireGpu(const std::string &device)
{
    (void)gpuNumber(device);
    throw Error(ErrorCode::NoDevice, "device " + device + " is not available, as " + listGpus().problem);
}

std::unique_ptr<Ops> makeGpuOps(const std::string &device, bool, std::vector<std::string> *)
{
    requireGpu(device);
    return nullptr; // never reached: it throws
}

#endif

std::string bestDevice()
{
    const GpuList list = listGpus();
    return !list.problems.empty() && list.problems.front().empty() ? "cuda:0" : "cpu";
}

} // namespace kernels
