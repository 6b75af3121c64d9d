// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_lexer.h"

#include <initializer_list>
#include <string_view>
#include <unordered_map>

namespace engine::jinja {

/// Builds the tree of a template within a budget: nesting, memory and steps are limited while parsing too.
class Parser {
public:
    Parser(Template &out, const TemplateLimits &limits);
    /// \throws Fault; line() then tells where
    void parse();
    [[nodiscard]] int line() const { return m_line; }

private:
    /// One level of nesting of brackets, operators or blocks.
    class Depth {
    public:
        explicit Depth(Parser &parser);
        ~Depth() { --m_parser.m_depth; }
        Depth(const Depth &) = delete;
        Depth &operator=(const Depth &) = delete;

    private:
        Parser &m_parser;
    };

    // Tokens
    Token fetch();
    Token take();
    [[nodiscard]] const Token &peek();
    [[nodiscard]] bool at(std::string_view sign) const { return m_current.isOperator(sign); }
    [[nodiscard]] bool atName(std::string_view name) const { return m_current.isName(name); }
    bool skip(std::string_view sign);
    bool skipName(std::string_view name);
    Token expect(TokenKind kind, const char *what);
    void expectSign(std::string_view sign);
    void expectName(std::string_view name);
    [[noreturn]] void failAt(int line, const std::string &message);
    [[noreturn]] void failUnexpected();

    // Nodes
    [[nodiscard]] ExprPtr node(ExprKind kind, int line);
    [[nodiscard]] std::unique_ptr<Statement> statement(StatementKind kind, int line);
    /// Notes and limits the height of a finished node.
    [[nodiscard]] ExprPtr finished(ExprPtr node);
    [[nodiscard]] ExprPtr constant(Constant value, int line);
    [[nodiscard]] ExprPtr boolean(bool value, int line);
    [[nodiscard]] int symbol(std::string_view name);

    // Expressions, from the loosest to the tightest binding
    [[nodiscard]] ExprPtr expression(bool withConditional = true);
    [[nodiscard]] ExprPtr conditional();
    [[nodiscard]] ExprPtr either();
    [[nodiscard]] ExprPtr both();
    [[nodiscard]] ExprPtr negation();
    [[nodiscard]] ExprPtr comparison();
    [[nodiscard]] bool comparisonSign(Comparison &out);
    [[nodiscard]] ExprPtr sum();
    [[nodiscard]] ExprPtr concatenation();
    [[nodiscard]] ExprPtr product();
    [[nodiscard]] ExprPtr powers();
    [[nodiscard]] ExprPtr unary(bool withFilter = true);
    [[nodiscard]] ExprPtr primary(bool withNamespace = false);
    [[nodiscard]] ExprPtr nameOrConstant(bool withNamespace);
    [[nodiscard]] ExprPtr stringLiteral();
    [[nodiscard]] ExprPtr numberLiteral();
    [[nodiscard]] ExprPtr listLiteral();
    [[nodiscard]] ExprPtr dictLiteral();
    struct TupleRules {
        bool simplified = false; ///< names and literals only
        bool withConditional = true;
        bool parentheses = false; ///< an empty tuple is allowed
        bool withNamespace = false;
        std::string_view endName; ///< a word that ends the tuple
    };
    [[nodiscard]] ExprPtr tuple(const TupleRules &rules);
    [[nodiscard]] bool tupleEnds(const TupleRules &rules) const;
    [[nodiscard]] ExprPtr postfix(ExprPtr value);
    [[nodiscard]] ExprPtr filters(ExprPtr value);
    [[nodiscard]] ExprPtr filter(ExprPtr value);
    [[nodiscard]] ExprPtr filterChain(ExprPtr value);
    [[nodiscard]] ExprPtr test(ExprPtr value);
    [[nodiscard]] std::string dottedName();
    void noteUnknown(const char *sort, const std::string &name, int line);
    [[nodiscard]] ExprPtr attribute(ExprPtr value);
    [[nodiscard]] ExprPtr subscript(ExprPtr value);
    [[nodiscard]] ExprPtr subscripted(ExprPtr value, int line);
    [[nodiscard]] ExprPtr call(ExprPtr callee);
    [[nodiscard]] std::unique_ptr<CallArguments> arguments();
    void argument(CallArguments &out, int line);
    [[nodiscard]] ExprPtr assignmentTarget(const TupleRules &rules);
    void checkAssignable(const Expr &target);

    // Statements
    using EndNames = std::initializer_list<std::string_view>;
    [[nodiscard]] Body body(EndNames ends); ///< after a tag's own words; stops at one of `ends`
    [[nodiscard]] Body bodyToEnd(std::string_view end);
    [[nodiscard]] Body statements(EndNames ends);
    [[nodiscard]] bool atEnd(EndNames ends) const;
    void tag(Body &out, EndNames ends);
    [[nodiscard]] bool blockTag(std::string_view word, Body &out);
    [[noreturn]] void failUnknownTag(const std::string &word, EndNames ends);
    [[nodiscard]] std::unique_ptr<Statement> ifTag();
    [[nodiscard]] std::unique_ptr<Statement> forTag();
    [[nodiscard]] std::unique_ptr<Statement> setTag();
    [[nodiscard]] std::unique_ptr<Statement> withTag();
    [[nodiscard]] std::unique_ptr<Statement> macroTag();
    [[nodiscard]] std::unique_ptr<Statement> callTag();
    [[nodiscard]] std::unique_ptr<Statement> filterTag();
    [[nodiscard]] std::unique_ptr<Statement> scopeTag();
    [[nodiscard]] std::unique_ptr<Statement> autoescapeTag();
    [[nodiscard]] std::unique_ptr<Statement> loopControl();
    [[nodiscard]] std::unique_ptr<Statement> refusedTag();
    void importNames();
    void importContext();
    void printTag(Body &out);
    void signature(MacroNode &out);
    /// Parses a macro's body and notes which of caller, kwargs and varargs it speaks of.
    void macroBody(MacroNode &out, std::string_view end);

    /// Parses what has variables of its own; conditions outside do not excuse unknown names inside.
    template<class Parse> [[nodiscard]] auto inner(const Parse &parse)
    {
        const int soft = std::exchange(m_soft, 0);
        auto out = parse();
        m_soft = soft;
        return out;
    }

    Template &m_out;
    Budget m_budget;
    Lexer m_lexer;
    Token m_current;
    Token m_ahead;
    bool m_hasAhead = false;
    int m_line = 1;
    int m_depth = 0;
    int m_maxDepth;
    int m_loops = 0; ///< loops around this place inside the same macro
    int m_soft = 0;  ///< inside an if: unknown filters and tests fail only when they are reached
    struct Unknown {
        std::string message;
        int line;
    };
    std::vector<Unknown> m_unknown;  ///< filters and tests that do not exist, outside of conditions
    std::vector<std::string> m_tags; ///< open blocks, for error messages
    struct MacroUse {
        bool caller = false;
        bool kwargs = false;
        bool varargs = false;
    };
    MacroUse m_use;                                      ///< of the macro that is being parsed
    std::unordered_map<std::string_view, int> m_symbols; ///< keys are views of the source
    std::unordered_map<std::string, int> m_texts;        ///< constants; equal literals are one object, as in Python
};

/// Whether a filter or a test of that name exists.
[[nodiscard]] bool hasFilter(std::string_view name);
[[nodiscard]] bool hasTest(std::string_view name);

} // namespace engine::jinja
