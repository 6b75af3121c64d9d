// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cuda/driver.h"
#include "kernels/cuda/runtime.h"

#include <memory>
#include <string>
#include <vector>

namespace kernels::cuda {

/// What a driver's error means for those who work on the device. Source: CUDA Runtime API reference, cudaError_t.
enum class FaultKind {
    None,
    OutOfMemory, ///< the call had no effect
    Lost,        ///< every later call of this process fails
    Other,       ///< the call had no effect: a fault of ours
};
[[nodiscard]] FaultKind faultKind(int error);

struct FoundDevice {
    DeviceFacts facts;
    std::string problem; ///< why it cannot be used; empty when it can
};
struct FoundDevices {
    std::vector<FoundDevice> devices; ///< by number
    std::string problem;              ///< why there are none; empty when there are
    std::string driver;               ///< "CUDA 13.0"; empty without one
};
/// Opens nothing. Finds a driver that is missing or too old, and devices that the kernels were not compiled for.
[[nodiscard]] FoundDevices findDevices(Driver &driver);

/// What is known of a device that can be used. \throws Error NoDevice naming the device, what was found and what is
/// wanted
DeviceFacts requireDevice(Driver &driver, int index);

/// A GPU. \throws Error NoDevice naming the device, what was found and what is wanted
[[nodiscard]] std::unique_ptr<Runtime> makeDeviceRuntime(std::unique_ptr<Driver> driver, int index);

} // namespace kernels::cuda
