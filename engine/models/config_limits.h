// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace engine {

// What configurations of any form may ask for at most.
inline constexpr std::int64_t mostHeads = 65536;     ///< and experts
inline constexpr std::int64_t widest = 1 << 20;      ///< of hidden states
inline constexpr std::int64_t widestInner = 1 << 23; ///< of feed-forward parts
inline constexpr std::int64_t longestContext = 1 << 30;

} // namespace engine
