// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/character_set.h"

#include <algorithm>
#include <map>
#include <utility>

namespace engine {
namespace {

constexpr CharacterSet::Range belowSurrogates{0, 0xD7FF};
constexpr CharacterSet::Range aboveSurrogates{0xE000, 0x10FFFF};

} // namespace

CharacterSet::CharacterSet(std::vector<Range> ranges)
{
    std::ranges::sort(ranges);
    for (const Range &given : ranges) {
        for (const Range &half : {belowSurrogates, aboveSurrogates}) {
            const Range range{std::max(given.first, half.first), std::min(given.last, half.last)};
            if (range.first > range.last)
                continue;
            if (!m_ranges.empty() && range.first <= m_ranges.back().last + 1)
                m_ranges.back().last = std::max(m_ranges.back().last, range.last);
            else
                m_ranges.push_back(range);
        }
    }
}

CharacterSet CharacterSet::all()
{
    return CharacterSet({belowSurrogates, aboveSurrogates});
}

bool CharacterSet::contains(char32_t code) const
{
    const auto after = std::ranges::upper_bound(m_ranges, code, {}, &Range::first);
    return after != m_ranges.begin() && std::prev(after)->last >= code;
}

CharacterSet CharacterSet::united(const CharacterSet &other) const
{
    std::vector<Range> ranges = m_ranges;
    ranges.insert(ranges.end(), other.m_ranges.begin(), other.m_ranges.end());
    return CharacterSet(std::move(ranges));
}

CharacterSet CharacterSet::intersected(const CharacterSet &other) const
{
    std::vector<Range> ranges;
    for (auto a = m_ranges.begin(), b = other.m_ranges.begin(); a != m_ranges.end() && b != other.m_ranges.end();) {
        const Range common{std::max(a->first, b->first), std::min(a->last, b->last)};
        if (common.first <= common.last)
            ranges.push_back(common);
        a->last < b->last ? ++a : ++b;
    }
    return CharacterSet(std::move(ranges));
}

CharacterSet CharacterSet::complement() const
{
    std::vector<Range> ranges;
    char32_t next = 0;
    for (const Range &range : m_ranges) {
        if (range.first > next)
            ranges.push_back({next, range.first - 1});
        next = range.last + 1;
    }
    if (next <= aboveSurrogates.last)
        ranges.push_back({next, aboveSurrogates.last});
    return CharacterSet(std::move(ranges));
}

std::vector<CharacterSet> partition(const std::vector<CharacterSet> &sets)
{
    std::vector<char32_t> borders{belowSurrogates.first, aboveSurrogates.first};
    for (const CharacterSet &set : sets)
        for (const CharacterSet::Range &range : set.ranges()) {
            borders.push_back(range.first);
            borders.push_back(range.last + 1);
        }
    std::ranges::sort(borders);
    borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
    std::map<std::vector<bool>, std::vector<CharacterSet::Range>> parts; // by the sets that hold them
    for (std::size_t i = 0; i < borders.size() && borders[i] <= aboveSurrogates.last; ++i) {
        std::vector<bool> holders;
        for (const CharacterSet &set : sets)
            holders.push_back(set.contains(borders[i]));
        const char32_t last = i + 1 < borders.size() ? borders[i + 1] - 1 : aboveSurrogates.last;
        parts[std::move(holders)].push_back({borders[i], last});
    }
    std::vector<CharacterSet> result;
    for (auto &[holders, ranges] : parts)
        if (CharacterSet part(std::move(ranges)); !part.empty())
            result.push_back(std::move(part));
    return result;
}

} // namespace engine
