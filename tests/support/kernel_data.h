// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "kernels/ops.h"

#include <cstdint>
#include <string>
#include <vector>

/// Seeded weights and activations for kernel tests and benchmarks.
namespace kernel_data {

/// Every type that a weight may have.
[[nodiscard]] const std::vector<kernels::DType> &weightTypes();

/// A weight matrix with its bytes.
struct Weight {
    kernels::DType type = kernels::DType::F32;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    std::vector<std::byte> bytes;

    [[nodiscard]] kernels::WeightPart part(const std::string &name = "weight") const;
    /// All values as `dequantize` gives them, [rows, columns].
    [[nodiscard]] std::vector<float> expanded() const;
};

enum class Scales {
    Usual, ///< about 0.001 to 0.02
    Tiny,  ///< subnormal fp16
    Huge,  ///< close to the largest fp16
};

/// Random numbers of every stored value, with scales of one kind.
[[nodiscard]] Weight randomWeight(kernels::DType type, std::int64_t rows, std::int64_t columns, std::uint32_t seed,
                                  Scales scales = Scales::Usual);

/// Floats in [-1, 1).
[[nodiscard]] std::vector<float> randomFloats(std::size_t count, std::uint32_t seed);
/// Rows whose blocks of 32 are whole multiples of a power of two, the two largest 127 times it: int8 holds them
/// exactly, and all but one of them as well.
[[nodiscard]] std::vector<float> exactActivations(std::int64_t rows, std::int64_t columns, std::uint32_t seed);

/// The source of level amx over emulated tiles (amx_tiles.h), as if it were a level. Needs avx512-vnni.
inline const std::string emulatedAmx = "amx-emulated";

/// Backends on this machine.
[[nodiscard]] std::unique_ptr<kernels::Ops> reference();
[[nodiscard]] std::unique_ptr<kernels::Ops> cpu(const std::string &isa, int threads);
/// Whether the machine has an instruction level.
[[nodiscard]] bool hasLevel(const std::string &isa);
/// All levels that exist, whether or not the machine has them.
[[nodiscard]] const std::vector<std::string> &allLevels();

} // namespace kernel_data
