// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/stop_matcher.h"

#include "engine/text/utf8.h"

#include <utility>

namespace engine {

std::string StopMatcher::check(const std::vector<std::string> &stops)
{
    if (stops.size() > maxStrings)
        return "stop has " + std::to_string(stops.size()) + " strings, at most " + std::to_string(maxStrings)
            + " are allowed";
    for (std::size_t i = 0; i < stops.size(); ++i) {
        const std::string name = "stop string " + std::to_string(i);
        if (stops[i].empty())
            return name + " is empty, wanted is at least 1 byte";
        if (stops[i].size() > maxBytes)
            return name + " has " + std::to_string(stops[i].size()) + " bytes, at most " + std::to_string(maxBytes)
                + " are allowed";
        if (!utf8::isValid(stops[i]))
            return name + " is not valid UTF-8";
    }
    return {};
}

StopMatcher::StopMatcher(const std::vector<std::string> &stops)
    : m_nodes(1)
{
    for (const std::string &stop : stops)
        insert(stop);
    linkSuffixes();
}

void StopMatcher::insert(std::string_view stop)
{
    int node = 0;
    for (const char byte : stop) {
        int next = childOf(node, byte);
        if (next < 0) {
            next = static_cast<int>(m_nodes.size());
            Node &parent = m_nodes[static_cast<std::size_t>(node)];
            const Node made{-1, parent.child, 0, parent.depth + 1, 0, byte};
            parent.child = next;
            m_nodes.push_back(made);
        }
        node = next;
    }
    m_nodes[static_cast<std::size_t>(node)].match = static_cast<int>(stop.size());
}

/// Breadth first, so that a node's suffix is finished before the node.
void StopMatcher::linkSuffixes()
{
    std::vector<int> queue{0};
    for (std::size_t i = 0; i < queue.size(); ++i) {
        const int node = queue[i];
        for (int child = m_nodes[static_cast<std::size_t>(node)].child; child >= 0;
             child = m_nodes[static_cast<std::size_t>(child)].sibling) {
            Node &entry = m_nodes[static_cast<std::size_t>(child)];
            entry.fail = node == 0 ? 0 : step(m_nodes[static_cast<std::size_t>(node)].fail, entry.byte);
            if (entry.match == 0)
                entry.match = m_nodes[static_cast<std::size_t>(entry.fail)].match;
            queue.push_back(child);
        }
    }
}

int StopMatcher::childOf(int node, char byte) const
{
    int child = m_nodes[static_cast<std::size_t>(node)].child;
    while (child >= 0 && m_nodes[static_cast<std::size_t>(child)].byte != byte)
        child = m_nodes[static_cast<std::size_t>(child)].sibling;
    return child;
}

int StopMatcher::step(int node, char byte) const
{
    while (true) {
        const int child = childOf(node, byte);
        if (child >= 0)
            return child;
        if (node == 0)
            return 0;
        node = m_nodes[static_cast<std::size_t>(node)].fail;
    }
}

std::string StopMatcher::append(std::string_view text)
{
    if (m_matched)
        return {};
    m_held.append(text);
    for (std::size_t at = m_held.size() - text.size(); at < m_held.size(); ++at) {
        m_state = step(m_state, m_held[at]);
        const int match = m_nodes[static_cast<std::size_t>(m_state)].match;
        if (match > 0) {
            m_matched = true;
            m_held.resize(at + 1 - static_cast<std::size_t>(match));
            return std::exchange(m_held, {});
        }
    }
    const auto keep = static_cast<std::size_t>(m_nodes[static_cast<std::size_t>(m_state)].depth);
    std::string shown = m_held.substr(0, m_held.size() - keep);
    m_held.erase(0, shown.size());
    return shown;
}

std::string StopMatcher::flush()
{
    m_state = 0;
    return std::exchange(m_held, {});
}

} // namespace engine
