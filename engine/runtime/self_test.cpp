// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/self_test.h"

#include "engine/api/error.h"
#include "engine/runtime/self_test_side.h"
#include "kernels/gpus.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace engine {

namespace {

/// Sum of squared differences over that of the wanted values; infinite where one side alone is not finite.
double nmse(std::span<const float> found, std::span<const float> wanted)
{
    if (found.size() != wanted.size())
        return std::numeric_limits<double>::infinity();
    double error = 0;
    double norm = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (!std::isfinite(found[i]))
            return std::numeric_limits<double>::infinity();
        const double difference = static_cast<double>(found[i]) - static_cast<double>(wanted[i]);
        error += difference * difference;
        norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
    }
    return norm > 0 ? error / norm : (error > 0 ? std::numeric_limits<double>::infinity() : 0.0);
}

SelfTestRow tried(const SelfTestCase &test, kernels::Ops &device, kernels::Ops &reference)
{
    SelfTestRow row{test.op, test.dtype, test.shape, 0, test.limit, false, {}, test.skipped, {}};
    if (!row.skipped.empty())
        return row;
    try {
        TestNumbers first;
        TestNumbers second;
        SelfTestSide own(device);
        SelfTestSide wanted(reference);
        const std::vector<float> found = test.run(own, first);
        row.nmse = nmse(found, test.run(wanted, second));
        row.ok = row.nmse <= row.limit;
    } catch (const Error &error) {
        row.error = error.what();
    }
    return row;
}

/// Bytes a second, best of several: `bytes` are moved by each call of `work`.
template<typename Work> double best(std::size_t bytes, kernels::Stream &stream, const Work &work)
{
    constexpr int passes = 5;
    double most = 0;
    for (int pass = 0; pass <= passes; ++pass) {
        const auto begin = std::chrono::steady_clock::now();
        work();
        stream.synchronize();
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
        if (pass > 0) // the first one touches the memory
            most = std::max(most, static_cast<double>(bytes) / taken.count());
    }
    return most;
}

double copyBandwidth(kernels::Ops &ops)
{
    // Beyond the caches of the device; an emulator has none, and is slow.
    const std::int64_t rows = ops.isa() == "simt" ? 64 : ops.freeOwnMemory() ? 16384 : 8192;
    constexpr std::int64_t columns = 4096;
    const auto stream = ops.makeStream();
    const std::size_t bytes = static_cast<std::size_t>(rows * columns) * sizeof(float);
    const auto from = ops.allocate(bytes);
    const auto to = ops.allocate(bytes);
    const auto view = [&](kernels::Buffer &buffer) {
        return kernels::makeView(buffer.data(), kernels::DType::F32, rows, columns);
    };
    return best(2 * bytes, *stream, [&] { ops.copy(view(*from), view(*to), *stream); });
}

} // namespace

double measureDeviceCopy(const std::string &device)
{
    kernels::OpsOptions options;
    options.device = device;
    return copyBandwidth(*kernels::makeOps(options));
}

namespace {

void measureTransfers(kernels::Ops &ops, SelfTestTotals &totals)
{
    constexpr std::size_t bytes = 64U << 20U;
    const auto stream = ops.makeStream();
    const auto host = ops.allocateStaging(bytes);
    const auto device = ops.allocate(bytes);
    totals.toDeviceGbps =
        best(bytes, *stream, [&] { ops.transfer(host->data(), device->data(), bytes, *stream); }) / 1e9;
    totals.fromDeviceGbps =
        best(bytes, *stream, [&] { ops.transfer(device->data(), host->data(), bytes, *stream); }) / 1e9;
}

SelfTestRow peerRow(const kernels::PeerCopy &copy)
{
    SelfTestRow row;
    row.op = "peer copy";
    row.dtype = copy.direct ? "direct" : "by host";
    row.shape = "cuda:" + std::to_string(copy.from) + " to cuda:" + std::to_string(copy.to);
    row.ok = copy.problem.empty();
    row.error = copy.problem;
    if (row.ok)
        row.gbps = copy.gbps;
    return row;
}

/// Copies between all GPUs, whichever of them is tested.
std::vector<SelfTestRow> peerRows()
{
    std::vector<SelfTestRow> rows;
    for (const kernels::PeerCopy &copy : kernels::tryPeerCopies())
        rows.push_back(peerRow(copy));
    if (rows.empty()) {
        SelfTestRow &row = rows.emplace_back();
        row.op = "peer copy";
        row.skipped = "one device, nothing to copy between";
    }
    return rows;
}

} // namespace

SelfTestTotals runSelfTest(const SelfTestOptions &options, const std::function<void(const SelfTestRow &)> &onRow,
                           std::stop_token stop)
{
    kernels::OpsOptions wanted;
    if (options.device == "auto")
        wanted.device = options.isa == "auto" ? kernels::bestDevice() : "cpu";
    else
        wanted.device = options.device;
    wanted.threads = options.threads;
    wanted.isa = options.isa;
    const auto device = kernels::makeOps(wanted);
    kernels::OpsOptions truth;
    truth.reference = true;
    truth.threads = options.threads;
    const auto reference = kernels::makeOps(truth);
    SelfTestTotals totals;
    totals.backend = device->name();
    totals.isa = device->isa();
    const auto tell = [&](const SelfTestRow &row) {
        ++(!row.skipped.empty() ? totals.skipped : row.ok ? totals.passed : totals.failed);
        onRow(row);
    };
    for (const SelfTestCase &test : selfTestCases(*device)) {
        if (stop.stop_requested())
            throw Error(ErrorCode::Cancelled, "the self-test was cancelled");
        tell(tried(test, *device, *reference));
    }
    if (device->freeOwnMemory()) // a GPU, or what stands for one
        for (const SelfTestRow &row : peerRows())
            tell(row);
    totals.copyGbps = copyBandwidth(*device) / 1e9;
    if (device->freeOwnMemory())
        measureTransfers(*device, totals);
    return totals;
}

} // namespace engine
