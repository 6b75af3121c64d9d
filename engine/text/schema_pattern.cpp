// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/schema_pattern.h"

#include "engine/api/error.h"
#include "engine/text/pattern_tree.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace engine {
namespace {

using Kind = PatternTree::Kind;
using Node = PatternTree::Node;
using Place = TextNetwork::Place;

constexpr std::size_t mostParts = 50'000; // of a network

/// Lays the parts of a tree out as a network, counted parts as often as they count.
class NetworkBuilder {
public:
    explicit NetworkBuilder(const PatternTree &tree)
        : m_tree(tree)
    {
    }

    /// The texts in which `parts` are found one after the other.
    TextNetwork build(const std::vector<int> &parts)
    {
        m_network.start = addState();
        m_network.states.front().sets.emplace_back(setOf(CharacterSet::all()), m_network.start); // found anywhere
        int at = m_network.start;
        for (const int part : parts)
            at = append(at, part);
        m_network.end = at;
        return std::move(m_network);
    }

private:
    int addState()
    {
        if (m_network.states.size() >= mostParts)
            throw Error(ErrorCode::Refused, "its counts come to more than " + std::to_string(mostParts) + " parts");
        m_network.states.emplace_back();
        return static_cast<int>(m_network.states.size()) - 1;
    }
    void addFree(int from, int to, Place place = Place::Anywhere)
    {
        m_network.states[static_cast<std::size_t>(from)].free.emplace_back(place, to);
    }
    int setOf(const CharacterSet &set)
    {
        const auto [at, isNew] = m_sets.try_emplace(set, static_cast<int>(m_network.sets.size()));
        if (isNew)
            m_network.sets.push_back(set);
        return at->second;
    }

    /// Returns the state behind the part. The tree is as deep as the groups of a pattern may be.
    int append(int from, int part) // NOLINT(misc-no-recursion)
    {
        const Node &node = m_tree.nodes[static_cast<std::size_t>(part)];
        switch (node.kind) {
        case Kind::Sequence:
            for (const int one : node.parts)
                from = append(from, one);
            return from;
        case Kind::Choice:
            return appendChoice(from, node);
        case Kind::Repeat:
            return appendRepeat(from, node);
        case Kind::Ahead:
        case Kind::NotAhead:
            throw Error(ErrorCode::Refused, "a lookahead is supported right at the beginning, beside ^, alone");
        default:
            break;
        }
        const int to = addState();
        if (node.kind == Kind::Characters)
            m_network.states[static_cast<std::size_t>(from)].sets.emplace_back(setOf(node.set), to);
        else
            addFree(from, to, node.kind == Kind::Begin ? Place::Begin : Place::End);
        return to;
    }

    int appendChoice(int from, const Node &node) // NOLINT(misc-no-recursion)
    {
        if (node.parts.size() == 1)
            return append(from, node.parts.front());
        const int to = addState();
        for (const int branch : node.parts)
            addFree(append(from, branch), to);
        return to;
    }

    int appendRepeat(int from, const Node &node) // NOLINT(misc-no-recursion)
    {
        const int part = node.parts.front();
        for (int i = 0; i < node.least; ++i)
            from = append(from, part);
        if (node.most == PatternTree::endless) {
            const int loop = addState();
            addFree(from, loop);
            addFree(append(loop, part), loop);
            return loop;
        }
        const int to = addState();
        for (int i = node.least; i < node.most; ++i) {
            addFree(from, to);
            const int before = addState(); // so that nothing leads back to where a part before may end
            addFree(from, before);
            from = append(before, part);
        }
        addFree(from, to);
        return to;
    }

    const PatternTree &m_tree;
    TextNetwork m_network;
    std::map<CharacterSet, int> m_sets;
};

bool isAhead(const Node &node)
{
    return node.kind == Kind::Ahead || node.kind == Kind::NotAhead;
}

} // namespace

TextLanguage patternLanguage(std::string_view pattern, TextBudget &budget)
{
    const PatternTree tree = parsePattern(pattern);
    const auto nodeOf = [&tree](int index) -> const Node & { return tree.nodes[static_cast<std::size_t>(index)]; };
    std::vector<int> parts{static_cast<int>(tree.nodes.size()) - 1};
    if (tree.root().parts.size() == 1) // no choice
        parts = nodeOf(tree.root().parts.front()).parts;
    // Where the text is held at its beginning, each lookahead is a question of its own to the whole text.
    std::size_t heads = 0;
    int begin = -1;
    for (; heads < parts.size() && (isAhead(nodeOf(parts[heads])) || nodeOf(parts[heads]).kind == Kind::Begin); ++heads)
        if (nodeOf(parts[heads]).kind == Kind::Begin)
            begin = parts[heads];
    std::vector<int> body = parts;
    std::vector<int> ahead;
    if (begin >= 0) {
        body.assign(parts.begin() + static_cast<std::ptrdiff_t>(heads), parts.end());
        body.insert(body.begin(), begin);
        for (std::size_t i = 0; i < heads; ++i)
            if (isAhead(nodeOf(parts[i])))
                ahead.push_back(parts[i]);
    }
    TextLanguage language(NetworkBuilder(tree).build(body), budget);
    for (const int one : ahead) {
        const TextLanguage seen(NetworkBuilder(tree).build({begin, nodeOf(one).parts.front()}), budget);
        language = language.intersected(nodeOf(one).kind == Kind::Ahead ? seen : seen.complement(), budget);
    }
    return language;
}

} // namespace engine
