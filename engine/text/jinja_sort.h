// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace engine::jinja {

/// A stable merge sort. Unlike the library's it stays in bounds whatever `isLess` answers (values that are not numbers
/// have no order) and may be left by an exception.
template<class T, class Less> void sortBy(std::vector<T> &items, const Less &isLess)
{
    std::vector<T> other(items.size());
    for (std::size_t width = 1; width < items.size(); width *= 2) {
        for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
            const std::size_t middle = std::min(begin + width, items.size());
            const std::size_t end = std::min(begin + 2 * width, items.size());
            std::size_t left = begin;
            std::size_t right = middle;
            for (std::size_t at = begin; at < end; ++at) {
                const bool takeRight = left == middle || (right < end && isLess(items[right], items[left]));
                other[at] = std::move(items[takeRight ? right++ : left++]);
            }
        }
        std::swap(items, other);
    }
}

} // namespace engine::jinja
