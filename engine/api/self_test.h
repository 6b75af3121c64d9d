// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>

namespace engine {

/// One operation of a device beside the reference.
struct SelfTestRow {
    std::string op;
    std::string dtype; ///< of weights, or of stored keys and values
    std::string shape;
    double nmse = 0;
    double limit = 0;
    bool ok = false;
    std::optional<double> gbps; ///< of copies, 1e9 bytes a second
    std::string skipped;        ///< why it was not tried; empty when it was
    std::string error;          ///< what the device said instead of a result
};

struct SelfTestTotals {
    int passed = 0;
    int failed = 0;
    int skipped = 0;
    std::string backend;
    std::string isa;
    double copyGbps = 0;                ///< read and written on the device, 1e9 bytes a second
    std::optional<double> toDeviceGbps; ///< of a device with memory of its own
    std::optional<double> fromDeviceGbps;
};

struct SelfTestOptions {
    std::string device = "auto"; ///< as EngineConfig::device
    int threads = 0;
    std::string isa = "auto";
    bool deterministic = true; ///< as EngineConfig::deterministic; of measureSpeed alone
};

/// Runs every operation on the device and on the reference with the same numbers, and measures what the device copies.
/// \throws Error NoDevice, InvalidArgument, Cancelled
[[nodiscard]] SelfTestTotals runSelfTest(const SelfTestOptions &options,
                                         const std::function<void(const SelfTestRow &)> &onRow, std::stop_token stop);

/// How fast one operation runs.
struct SpeedRow {
    std::string op;
    std::string dtype;
    std::string shape;
    double seconds = 0; ///< of one call
    double gbps = 0;    ///< 1e9 bytes a second of weights, or of keys and values, as if each was read once
    double gflops = 0;  ///< 1e9 operations a second that the result needs
    std::string error;  ///< what the device said instead
};
/// Products of one token and of a prompt, and attention of both. \throws Error NoDevice, InvalidArgument, Cancelled
void measureSpeed(const SelfTestOptions &options, const std::function<void(const SpeedRow &)> &onRow,
                  std::stop_token stop);

/// Bytes a second that a device reads and writes together when it copies its own memory; for rooflines. `device` as
/// EngineConfig::device, not auto. \throws Error
[[nodiscard]] double measureDeviceCopy(const std::string &device);

} // namespace engine
