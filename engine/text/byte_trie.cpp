// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/byte_trie.h"

#include <algorithm>

namespace engine {

ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> words)
{
    std::sort(words.begin(), words.end());
    struct Range {
        std::uint32_t node = 0;
        std::size_t begin = 0;
        std::size_t end = 0;
        std::size_t depth = 0;
    };
    // Breadth first, so that the children of a node stand side by side.
    std::vector<Range> open{{0, 0, words.size(), 0}};
    for (std::size_t next = 0; next < open.size(); ++next) {
        Range range = open[next];
        for (; range.begin < range.end && words[range.begin].first.size() == range.depth; ++range.begin)
            m_nodes[range.node].value = words[range.begin].second;
        m_nodes[range.node].children = static_cast<std::uint32_t>(m_nodes.size());
        while (range.begin < range.end) {
            const char byte = words[range.begin].first[range.depth];
            std::size_t end = range.begin;
            while (end < range.end && words[end].first[range.depth] == byte)
                ++end;
            open.push_back({static_cast<std::uint32_t>(m_nodes.size()), range.begin, end, range.depth + 1});
            ++m_nodes[range.node].count;
            m_nodes.emplace_back();
            m_labels.push_back(static_cast<std::uint8_t>(byte));
            range.begin = end;
        }
    }
    for (std::uint32_t i = 0; i < m_nodes[0].count; ++i)
        m_roots[m_labels[m_nodes[0].children + i]] = m_nodes[0].children + i;
}

std::uint32_t ByteTrie::childOf(const Node &node, std::uint8_t byte) const
{
    constexpr std::ptrdiff_t few = 8;
    const auto begin = m_labels.begin() + node.children;
    const auto end = begin + node.count;
    const auto found = node.count <= few ? std::find(begin, end, byte) : std::lower_bound(begin, end, byte);
    return found != end && *found == byte ? static_cast<std::uint32_t>(found - m_labels.begin()) : none;
}

} // namespace engine
