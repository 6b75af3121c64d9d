// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What tests ask of the emulated tile registers.
namespace kernels::emulated_tiles {

/// While true, every sum of products comes out one too large.
void breakProducts(bool broken);
/// Whether this thread holds no tiles.
[[nodiscard]] bool released();

} // namespace kernels::emulated_tiles
