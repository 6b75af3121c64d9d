// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace engine {

/// Finds every word of a fixed list that a text begins with. Immutable; any thread.
class ByteTrie {
public:
    /// Of equal words the one with the greatest value is kept; empty ones are ignored.
    explicit ByteTrie(std::vector<std::pair<std::string_view, std::int32_t>> words);

    /// Calls `use(end, value)` for each word that stands at `begin`, the shortest first.
    template<typename Use> void forEachAt(std::string_view text, std::size_t begin, const Use &use) const
    {
        std::uint32_t node = m_roots[static_cast<std::uint8_t>(text[begin])];
        for (std::size_t end = begin + 1; node != none; ++end) {
            if (m_nodes[node].value >= 0)
                use(end, m_nodes[node].value);
            node = end < text.size() ? childOf(m_nodes[node], static_cast<std::uint8_t>(text[end])) : none;
        }
    }

private:
    static constexpr std::uint32_t none = 0;
    struct Node {
        std::uint32_t children = none; ///< the first; they stand side by side, by byte
        std::uint16_t count = 0;
        std::int32_t value = -1;
    };

    [[nodiscard]] std::uint32_t childOf(const Node &node, std::uint8_t byte) const;

    std::vector<Node> m_nodes{Node{}};     ///< the first is the root
    std::vector<std::uint8_t> m_labels{0}; ///< by node, the byte that leads to it
    std::array<std::uint32_t, 256> m_roots{};
};

} // namespace engine
