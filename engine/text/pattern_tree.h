// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/character_set.h"

#include <string_view>
#include <vector>

namespace engine {

/// A regular expression as a tree; its root is the last node.
struct PatternTree {
    enum class Kind { Characters, Sequence, Choice, Repeat, Begin, End, Ahead, NotAhead };
    static constexpr int endless = -1;
    struct Node {
        Kind kind = Kind::Sequence;
        CharacterSet set;       ///< of Characters
        std::vector<int> parts; ///< of Sequence and Choice; one of Repeat, Ahead and NotAhead
        int least = 0;          ///< of Repeat
        int most = 0;           ///< of Repeat, or endless
    };
    std::vector<Node> nodes;

    [[nodiscard]] const Node &root() const { return nodes.back(); }
};

/// Reads a regular expression of ECMA-262 as far as schema_pattern.h says. \throws Error Refused
[[nodiscard]] PatternTree parsePattern(std::string_view pattern);

} // namespace engine
