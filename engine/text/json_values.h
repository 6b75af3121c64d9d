// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/grammar.h"

#include <string>
#include <vector>

namespace engine {

/// The parts that all JSON texts are made of, as rules and states of one grammar. Rules are made when first asked for.
class JsonValues {
public:
    explicit JsonValues(Grammar &grammar);

    [[nodiscard]] int character(); ///< rule: one character of a string, escaped or not
    [[nodiscard]] int string();    ///< rule: any string with its quotes
    [[nodiscard]] int integer();   ///< rule
    [[nodiscard]] int number();    ///< rule
    [[nodiscard]] int value();     ///< rule: anything
    [[nodiscard]] int object();    ///< rule: any object
    [[nodiscard]] int array();     ///< rule: any list

    /// Between the parts of lists and objects: nothing, a space, or a new line and its indentation. Returns the state
    /// after it.
    int space(int from);
    /// What may stand behind a colon: nothing or one space.
    int gap(int from);
    /// A key that is none of `names`, with its quotes. Returns the state after it.
    int otherKey(int from, const std::vector<std::string> &names);

private:
    void addUtf8(int from, int to);
    void addEscape(int from, int to);
    int digits(int from, int least, int most);

    Grammar &m_grammar;
    int m_character = -1;
    int m_string = -1;
    int m_integer = -1;
    int m_number = -1;
    int m_value = -1;
    int m_object = -1;
    int m_array = -1;
};

} // namespace engine
