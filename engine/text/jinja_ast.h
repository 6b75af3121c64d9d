// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_arithmetic.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace engine::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

/// Arguments of a call, a filter or a test.
struct CallArguments {
    std::vector<ExprPtr> positional;
    std::vector<std::pair<std::string, ExprPtr>> named;
    ExprPtr rest;      ///< *sequence
    ExprPtr restNamed; ///< **mapping
};

enum class ExprKind : std::uint8_t {
    Constant,     ///< constant
    Name,         ///< symbol
    NamespaceRef, ///< symbol.text, only as the target of an assignment
    List,         ///< items
    Tuple,        ///< items
    Dict,         ///< items: key, value, key, value ...
    Attribute,    ///< a.text
    Item,         ///< a[b]
    Slice,        ///< a[items[0]:items[1]:items[2]], any of the three may be null
    Call,         ///< a(call)
    Filter,       ///< a | text(call); a is null at the head of a filter block
    Test,         ///< a is text(call)
    Not,          ///< not a
    Negative,     ///< -a
    Positive,     ///< +a
    And,          ///< all of items
    Or,           ///< any of items
    Chain,        ///< items[0] operators[0] items[1] operators[1] ..., from left to right
    Compare,      ///< items[0] comparisons[0] items[1] ...
    Concat,       ///< items joined as text
    Conditional,  ///< a if b else c; c may be null
};

enum class Comparison : std::uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual, In, NotIn };

/// One expression. Which members are in use is said at the kinds.
struct Expr {
    Expr(ExprKind kind, int line)
        : kind(kind)
        , line(line)
    {
    }
    ExprKind kind;
    int line;
    int height = 1;    ///< levels of this tree, limited by the parser
    int constant = -1; ///< number in Program::constants
    int symbol = -1;   ///< number in Program::symbols
    std::string text;
    ExprPtr a;
    ExprPtr b;
    ExprPtr c;
    std::vector<ExprPtr> items;
    std::vector<Operator> operators;
    std::vector<Comparison> comparisons;
    std::unique_ptr<CallArguments> call;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

enum class StatementKind : std::uint8_t {
    Data,        ///< text
    Output,      ///< expr
    If,          ///< branches; a branch without condition is the else
    For,         ///< target in expr [if condition]: body, otherwise
    Set,         ///< target = expr
    SetBlock,    ///< target = body, through the filter expr when there is one
    Macro,       ///< macro
    CallBlock,   ///< expr is the call, macro its body
    FilterBlock, ///< body through expr
    With,        ///< targets = values: body
    Scope,       ///< body with its own variables ({% block %}, {% generation %})
    Autoescape,  ///< body with escaping as expr says
    Break,
    Continue,
    Refused, ///< include, import, extends: text names the tag; it fails when it is reached
};

struct MacroNode {
    std::string name; ///< empty for the body of a call block
    int symbol = -1;
    std::vector<std::pair<int, std::string>> parameters; ///< symbol, name
    std::vector<ExprPtr> defaults;                       ///< of the last parameters
    bool usesCaller = false;
    bool usesKwargs = false;
    bool usesVarargs = false;
    int callerSymbol = -1;
    int kwargsSymbol = -1;
    int varargsSymbol = -1;
    Body body;
    std::vector<int> unset; ///< as of Statement
};

struct Branch {
    ExprPtr condition;
    Body body;
};

struct Statement {
    Statement(StatementKind kind, int line)
        : kind(kind)
        , line(line)
    {
    }
    StatementKind kind;
    int line;
    bool recursive = false; ///< of a for loop
    bool isolated = false;  ///< a block that sees the variables of the template only
    int loopSymbol = -1;
    std::string_view text;
    std::string name; ///< of a block
    ExprPtr target;
    ExprPtr expr;
    ExprPtr condition;
    std::vector<ExprPtr> targets;
    std::vector<ExprPtr> values;
    std::vector<Branch> branches;
    Body body;
    Body otherwise;
    std::vector<int> unset;          ///< symbols that are undefined where the body begins, see jinja_unset_names.h
    std::vector<int> unsetOtherwise; ///< the same of `otherwise`
    std::unique_ptr<MacroNode> macro;
};

/// A literal as parsed; values are made from it once in every render.
struct Constant {
    enum class Type { None, Bool, Text, Int, Float };
    Type type = Type::None;
    bool boolean = false;
    std::string text;
    BigInt integer;
    double real = 0;
};

/// A parsed template. Immutable after parsing.
struct Template {
    std::string source;
    std::vector<std::string> symbols; ///< all variable names that the template speaks of
    std::vector<Constant> constants;
    std::vector<std::pair<std::string, const Statement *>> blocks; ///< by name, for self.name()
    Body body;
    std::vector<int> unset; ///< as of Statement
};

} // namespace engine::jinja
