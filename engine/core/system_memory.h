// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <string>

namespace engine {

/// Host memory that a new allocation can use now without swapping: what the kernel calls available, cut by the
/// limits of the control groups this process is in. 0 when the system does not say.
[[nodiscard]] std::size_t availableMemoryBytes();

/// For messages: "<n> bytes (<m> MiB)".
[[nodiscard]] std::string describeBytes(std::size_t bytes);

} // namespace engine
