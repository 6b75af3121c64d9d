// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/error.h"

namespace engine {

using kernels::Error;
using kernels::ErrorCode;

} // namespace engine
