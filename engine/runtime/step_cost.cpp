// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/error.h"
#include "engine/api/modelled.h"

#include <algorithm>

namespace engine {
namespace {

constexpr double teraflops = 1e12;
constexpr double gigabytes = 1e9;

// What kernels reach of the roofs. Memory: gpt-fast, Llama-2-7B in fp16 on one A100-80G, 104.9 tokens/s = 1397 of 2039
// GB/s (pytorch-labs/gpt-fast, README). Arithmetic: 54.2 % of the A100's peak in a whole transformer step (Korthikanti
// et al. 2022, arXiv:2205.05198, table 5).
constexpr double a100BandwidthShare = 1397.0 / 2039.0;
constexpr double a100FlopsShare = 0.542;

/// NVIDIA A100 Tensor Core GPU datasheet, 2021: 312 TFLOPS dense FP16, 1555 GB/s (40 GB) or 2039 GB/s (80 GB, SXM),
/// NVLink 600 GB/s, both directions together. 10 us a collective: NCCL's latency of a small all-reduce on NVLink.
DeviceRoof a100(double memoryGigabytes, double bandwidthGigabytes, int devices)
{
    DeviceRoof roof;
    roof.name = "A100-SXM4-" + std::to_string(static_cast<int>(memoryGigabytes)) + "GB";
    roof.devices = devices;
    roof.memoryBytes = memoryGigabytes * gigabytes;
    roof.bytesPerSecond = bandwidthGigabytes * gigabytes;
    roof.flopsPerSecond = 312 * teraflops;
    roof.bandwidthShare = a100BandwidthShare;
    roof.flopsShare = a100FlopsShare;
    roof.linkBytesPerSecond = 300 * gigabytes;
    roof.linkSeconds = 10e-6;
    return roof;
}

/// config.json of mistralai/Mistral-7B-Instruct-v0.2: grouped queries, no sliding window.
ModelShape mistral7b()
{
    return {"Mistral-7B-v0.2 fp16", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 2, 2};
}

/// config.json of meta-llama/Llama-2-70b-hf.
ModelShape llama70b()
{
    return {"Llama-2-70B fp16", 80, 8192, 64, 8, 128, 28672, 32000, 4096, 2, 2};
}

/// Two all-reduces a layer of tokens x hidden half-precision values; a ring moves 2 (n - 1) / n of them over each link.
double reduceSeconds(const DeviceRoof &device, const ModelShape &shape, const StepWork &work)
{
    if (device.devices == 1)
        return 0;
    const double bytes = 2.0 * work.tokens * shape.hidden;
    const double share = 2.0 * (device.devices - 1) / device.devices;
    return 2.0 * shape.layers * (device.linkSeconds + share * bytes / device.linkBytesPerSecond);
}

} // namespace

double ModelShape::layerParameters() const
{
    const double attention = 2.0 * hidden * heads * headDim + 2.0 * hidden * kvHeads * headDim;
    return layers * (attention + 3.0 * hidden * inner);
}

double ModelShape::headParameters() const
{
    return static_cast<double>(vocab) * hidden;
}

double ModelShape::weightBytes() const
{
    return weightBytesEach * (layerParameters() + 2.0 * headParameters());
}

double ModelShape::kvBytesPerToken() const
{
    return kvBytesEach * 2.0 * layers * kvHeads * headDim;
}

double stepSeconds(const DeviceRoof &device, const ModelShape &shape, const StepWork &work)
{
    const double bandwidth = device.bytesPerSecond * device.bandwidthShare * device.devices;
    const double flops = device.flopsPerSecond * device.flopsShare * device.devices;
    const double readBytes = shape.weightBytesEach * (shape.layerParameters() + shape.headParameters());
    const double products = 2.0 * (shape.layerParameters() * work.tokens + shape.headParameters() * work.logitRows);
    const double cacheBytes = work.cacheTokens * shape.kvBytesPerToken();
    const double scores = 4.0 * work.scorePairs * shape.layers * shape.heads * shape.headDim;
    const auto both = [&device](double memory, double arithmetic) {
        return device.overlaps ? std::max(memory, arithmetic) : memory + arithmetic;
    };
    return both(readBytes / bandwidth, products / flops)
        + both(cacheBytes / (bandwidth * device.cacheShare), scores / flops) + reduceSeconds(device, shape, work)
        + device.stepSeconds;
}

std::vector<std::string> modelledTargets()
{
    return {"A100-7B", "A100-70B-TP4"};
}

ModelledTarget modelledTarget(std::string_view name)
{
    if (name == "A100-7B") // the card of Kwon et al. 2023, section 6.1
        return {std::string(name), a100(40, 1555, 1), mistral7b()};
    if (name == "A100-70B-TP4")
        return {std::string(name), a100(80, 2039, 4), llama70b()};
    std::string known;
    for (const std::string &one : modelledTargets())
        known += (known.empty() ? "" : ", ") + one;
    throw Error(ErrorCode::InvalidArgument, "--modelled: found \"" + std::string(name) + "\", wanted one of " + known);
}

std::int64_t kvTokensThatFit(const ModelledTarget &target, double reserve)
{
    const double usable = target.device.memoryBytes * target.device.devices * (1.0 - reserve);
    const double left = usable - target.shape.weightBytes();
    return left <= 0 ? 0 : static_cast<std::int64_t>(left / target.shape.kvBytesPerToken());
}

} // namespace engine
