// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/cpu/isa.h"
#include "kernels/cpu/level.h"

#include <string>
#include <vector>

namespace kernels {

/// Whether two levels give the same bits for small known products: scales of 32 and of 16, with and without minimums,
/// whole tiles of rows and a rest. \pre the machine has both
[[nodiscard]] bool sameProducts(const LevelKernels &tested, const LevelKernels &trusted);

/// A level with its functions, the next one below where the products of `tested` are wrong; then `notes` says so.
struct CheckedLevel {
    Isa isa;
    LevelKernels kernels;
};

/// \pre the machine has the level
[[nodiscard]] CheckedLevel checkedLevel(Isa isa, std::vector<std::string> *notes);
/// The same with given functions for avx512-vnni and amx. `tested` and `trusted` are used when `isa` is Amx.
[[nodiscard]] CheckedLevel checkedTiles(const LevelKernels &tested, const LevelKernels &trusted,
                                        std::vector<std::string> *notes);

/// `add` sets the level's products in bfloat16 when they agree with those it has; else `notes` says that they do not.
/// \pre the machine has both
void addCheckedBfloatTiles(LevelKernels &level, void (*add)(LevelKernels &), std::vector<std::string> *notes);

} // namespace kernels
