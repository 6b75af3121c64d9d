// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/level.h"

namespace kernels {

/// The functions of a level. \pre the machine has it, as far as they are called
[[nodiscard]] LevelKernels kernelsOf(Isa isa);

} // namespace kernels
