// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstddef>

namespace kernels {

/// Sum of products in double. Several sums stand side by side, or the latency of one addition would decide the speed;
/// the order is fixed by n alone.
template<typename A, typename B> [[nodiscard]] double dot(const A *a, const B *b, std::size_t n)
{
    constexpr std::size_t lanes = 8;
    std::array<double, lanes> sums{};
    std::size_t k = 0;
    for (; k + lanes <= n; k += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sums[lane] += static_cast<double>(a[k + lane]) * static_cast<double>(b[k + lane]);
    }
    for (std::size_t lane = 0; k < n; ++k, ++lane)
        sums[lane] += static_cast<double>(a[k]) * static_cast<double>(b[k]);
    double total = 0.0;
    for (const double sum : sums)
        total += sum;
    return total;
}

} // namespace kernels
