// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string_view>
#include <vector>

namespace kernels {

/// Instruction levels of the CPU backend, lowest first. Each includes the ones before it.
enum class Isa { Scalar, Avx2, Avx512, Avx512Vnni, Amx };

[[nodiscard]] std::string_view isaName(Isa isa);

/// Whether the processor multiplies bfloat16 pairs (AVX512-BF16), which no level includes. \pre it has avx512
[[nodiscard]] bool hasBfloatProducts();

/// Whether prefetches into the second cache bring weights faster than the processor's own streams: on Intel's cores 29
/// to 39 GB/s at two threads where those bring 15 to 24; on AMD's they bring less.
[[nodiscard]] bool gainsFromFetches();

/// Levels that processor and operating system grant, lowest first; never empty. AMX is asked for from Linux here.
[[nodiscard]] std::vector<Isa> detectIsa();

/// The level for an option value ("auto" is the highest granted one).
/// \throws Error InvalidArgument for an unknown name, NoDevice when the machine lacks it, naming what it has
[[nodiscard]] Isa chooseIsa(std::string_view option);

} // namespace kernels
