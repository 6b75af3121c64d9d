// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/error.h"

#include <string>

namespace kernels {

/// A fault after which a device does nothing more for this process; only another device, or another process, goes on.
/// What was computed since the last synchronisation is lost.
class DeviceLost final : public Error {
public:
    explicit DeviceLost(const std::string &message)
        : Error(ErrorCode::Internal, message)
    {
    }
};

} // namespace kernels
