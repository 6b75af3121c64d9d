// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>

namespace engine {

/// Random numbers without state: the number at (seed, position) is always the same, whoever else draws.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Philox4x32-10).
class CounterRandom {
public:
    using Block = std::array<std::uint32_t, 4>;
    using Key = std::array<std::uint32_t, 2>;

    [[nodiscard]] static constexpr Block philox(Block counter, Key key)
    {
        for (int round = 0; round < 10; ++round) {
            const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
            const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
            counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
                       low(product0)};
            key[0] += 0x9E3779B9U; // the golden ratio and sqrt(3) - 1, as the paper's key schedule
            key[1] += 0xBB67AE85U;
        }
        return counter;
    }

    /// Uniform in [0, 1), 53 bits.
    [[nodiscard]] static constexpr double uniform(std::uint64_t seed, std::uint64_t position)
    {
        const Block bits = philox({low(position), high(position), 0, 0}, {low(seed), high(seed)});
        const std::uint64_t mantissa = (std::uint64_t{bits[0]} << 32U | bits[1]) >> 11U;
        return static_cast<double>(mantissa) * 0x1p-53;
    }

private:
    [[nodiscard]] static constexpr std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
    [[nodiscard]] static constexpr std::uint32_t high(std::uint64_t value)
    {
        return static_cast<std::uint32_t>(value >> 32U);
    }
};

} // namespace engine
