// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_parser.h"

#include "engine/text/jinja_unset_names.h"

#include <algorithm>
#include <utility>

namespace engine::jinja {
namespace {

// What a node holds beyond its own size: vectors, names, the allocator's overhead.
constexpr std::size_t kNodeOverhead = 48;

} // namespace

Parser::Parser(Template &out, const TemplateLimits &limits)
    : m_out(out)
    , m_budget(limits)
    , m_lexer(out.source, m_budget)
    , m_maxDepth(limits.depth)
{
}

Parser::Depth::Depth(Parser &parser)
    : m_parser(parser)
{
    if (++parser.m_depth > parser.m_maxDepth) {
        --parser.m_depth;
        parser.failAt(parser.m_current.line,
                      "nested deeper than the limit of " + std::to_string(parser.m_maxDepth) + " levels");
    }
}

void Parser::parse()
{
    m_current = fetch();
    m_out.body = statements({});
    if (!m_unknown.empty())
        failAt(m_unknown.front().line, m_unknown.front().message);
    findUnsetNames(m_out);
}

Token Parser::fetch()
{
    try {
        return m_lexer.next();
    } catch (const Fault &) {
        m_line = m_lexer.line();
        throw;
    }
}

Token Parser::take()
{
    Token out = m_current;
    m_line = out.line;
    if (m_hasAhead) {
        m_current = m_ahead;
        m_hasAhead = false;
    } else {
        m_current = fetch();
    }
    return out;
}

const Token &Parser::peek()
{
    if (!m_hasAhead) {
        m_ahead = fetch();
        m_hasAhead = true;
    }
    return m_ahead;
}

bool Parser::skip(std::string_view sign)
{
    if (!at(sign))
        return false;
    take();
    return true;
}

bool Parser::skipName(std::string_view name)
{
    if (!atName(name))
        return false;
    take();
    return true;
}

Token Parser::expect(TokenKind kind, const char *what)
{
    if (m_current.kind == TokenKind::End && kind != TokenKind::End)
        failAt(m_current.line, std::string("unexpected end of template, expected ") + what);
    if (m_current.kind != kind)
        failAt(m_current.line, std::string("expected ") + what + ", got '" + describe(m_current) + "'");
    return take();
}

void Parser::expectSign(std::string_view sign)
{
    if (!skip(sign))
        failAt(m_current.line, "expected '" + std::string(sign) + "', got '" + describe(m_current) + "'");
}

void Parser::expectName(std::string_view name)
{
    if (!skipName(name))
        failAt(m_current.line, "expected '" + std::string(name) + "', got '" + describe(m_current) + "'");
}

void Parser::failAt(int line, const std::string &message)
{
    m_line = line;
    throw Fault(message);
}

void Parser::failUnexpected()
{
    failAt(m_current.line, "unexpected '" + describe(m_current) + "'");
}

ExprPtr Parser::node(ExprKind kind, int line)
{
    m_budget.take(sizeof(Expr) + kNodeOverhead);
    m_budget.steps(8);
    return std::make_unique<Expr>(kind, line);
}

std::unique_ptr<Statement> Parser::statement(StatementKind kind, int line)
{
    m_budget.take(sizeof(Statement) + kNodeOverhead);
    m_budget.steps(8);
    return std::make_unique<Statement>(kind, line);
}

ExprPtr Parser::constant(Constant value, int line)
{
    ExprPtr out = node(ExprKind::Constant, line);
    out->constant = static_cast<int>(m_out.constants.size());
    if (value.type == Constant::Type::Text) {
        const auto [known, added] = m_texts.try_emplace(value.text, out->constant);
        out->constant = known->second;
        if (!added)
            return out;
    }
    m_budget.take(sizeof(Constant) + 2 * value.text.size() + kNodeOverhead);
    m_out.constants.push_back(std::move(value));
    return out;
}

ExprPtr Parser::boolean(bool value, int line)
{
    Constant out;
    out.type = Constant::Type::Bool;
    out.boolean = value;
    return constant(std::move(out), line);
}

int Parser::symbol(std::string_view name)
{
    const auto [it, added] = m_symbols.try_emplace(name, static_cast<int>(m_out.symbols.size()));
    if (added) {
        m_budget.take(name.size() + 2 * kNodeOverhead);
        m_out.symbols.emplace_back(name);
    }
    return it->second;
}

void Parser::checkAssignable(const Expr &target)
{
    if (target.kind == ExprKind::Tuple) {
        for (const ExprPtr &item : target.items)
            checkAssignable(*item);
        return;
    }
    if (target.kind != ExprKind::Name && target.kind != ExprKind::NamespaceRef)
        failAt(target.line, "can't assign to a literal or an expression");
}

ExprPtr Parser::assignmentTarget(const TupleRules &rules)
{
    ExprPtr out = tuple(rules);
    checkAssignable(*out);
    return out;
}

bool Parser::atEnd(EndNames ends) const
{
    return m_current.kind == TokenKind::Name
        && std::any_of(ends.begin(), ends.end(), [this](std::string_view end) { return atName(end); });
}

Body Parser::body(EndNames ends)
{
    skip(":");
    expect(TokenKind::BlockEnd, "end of statement block");
    Body out = statements(ends);
    if (m_current.kind == TokenKind::End) {
        std::string wanted;
        for (const std::string_view end : ends)
            wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
        failAt(m_current.line,
               "unexpected end of template, expected the tag " + wanted + " to close '" + m_tags.back() + "'");
    }
    return out;
}

Body Parser::bodyToEnd(std::string_view end)
{
    Body out = body({end});
    take();
    return out;
}

Body Parser::statements(EndNames ends)
{
    const Depth depth(*this);
    Body out;
    while (m_current.kind != TokenKind::End) {
        if (m_current.kind == TokenKind::Data) {
            const Token data = take();
            auto text = statement(StatementKind::Data, data.line);
            text->text = data.text;
            out.push_back(std::move(text));
        } else if (m_current.kind == TokenKind::VariableBegin) {
            auto print = statement(StatementKind::Output, take().line);
            print->expr = tuple({});
            expect(TokenKind::VariableEnd, "end of print statement");
            out.push_back(std::move(print));
        } else {
            expect(TokenKind::BlockBegin, "begin of a tag");
            if (atEnd(ends))
                return out;
            tag(out, ends);
            expect(TokenKind::BlockEnd, "end of statement block");
        }
    }
    return out;
}

void Parser::tag(Body &out, EndNames ends)
{
    if (m_current.kind != TokenKind::Name)
        failAt(m_current.line, "a tag needs a name, got '" + describe(m_current) + "'");
    const std::string word(m_current.text);
    m_tags.push_back(word.substr(0, 60));
    if (!blockTag(word, out))
        failUnknownTag(word, ends);
    m_tags.pop_back();
}

bool Parser::blockTag(std::string_view word, Body &out)
{
    using Handler = std::unique_ptr<Statement> (Parser::*)();
    static constexpr std::pair<std::string_view, Handler> handlers[] = {
        {"if", &Parser::ifTag},
        {"for", &Parser::forTag},
        {"set", &Parser::setTag},
        {"with", &Parser::withTag},
        {"macro", &Parser::macroTag},
        {"call", &Parser::callTag},
        {"filter", &Parser::filterTag},
        {"block", &Parser::scopeTag},
        {"generation", &Parser::scopeTag},
        {"autoescape", &Parser::autoescapeTag},
        {"break", &Parser::loopControl},
        {"continue", &Parser::loopControl},
        {"include", &Parser::refusedTag},
        {"import", &Parser::refusedTag},
        {"from", &Parser::refusedTag},
        {"extends", &Parser::refusedTag},
    };
    if (word == "print") {
        printTag(out);
        return true;
    }
    for (const auto &[name, handler] : handlers) {
        if (name == word) {
            out.push_back((this->*handler)());
            return true;
        }
    }
    return false;
}

void Parser::failUnknownTag(const std::string &word, EndNames ends)
{
    std::string message = "unknown tag '" + word.substr(0, 60) + "'";
    std::string wanted;
    for (const std::string_view end : ends)
        wanted += (wanted.empty() ? "'" : " or '") + std::string(end) + "'";
    if (!wanted.empty())
        message += " where " + wanted + " could close '" + m_tags[m_tags.size() - 2] + "'";
    failAt(m_current.line, message);
}

void Parser::printTag(Body &out)
{
    const int line = take().line;
    for (bool first = true; m_current.kind != TokenKind::BlockEnd; first = false) {
        if (!first)
            expectSign(",");
        auto print = statement(StatementKind::Output, line);
        print->expr = expression();
        out.push_back(std::move(print));
    }
}

std::unique_ptr<Statement> Parser::ifTag()
{
    auto out = statement(StatementKind::If, m_current.line);
    ++m_soft;
    TupleRules rules;
    rules.withConditional = false;
    do {
        take();
        Branch branch;
        branch.condition = tuple(rules);
        branch.body = body({"elif", "else", "endif"});
        m_budget.take(sizeof(Branch));
        out->branches.push_back(std::move(branch));
    } while (atName("elif"));
    if (take().text == "else") {
        Branch branch;
        branch.body = bodyToEnd("endif");
        out->branches.push_back(std::move(branch));
    }
    --m_soft;
    return out;
}

std::unique_ptr<Statement> Parser::forTag()
{
    auto out = statement(StatementKind::For, take().line);
    TupleRules targetRules;
    targetRules.simplified = true;
    targetRules.endName = "in";
    out->target = assignmentTarget(targetRules);
    expectName("in");
    TupleRules rules;
    rules.withConditional = false;
    rules.endName = "recursive";
    out->expr = tuple(rules);
    out->loopSymbol = symbol("loop");
    if (skipName("if"))
        out->condition = inner([&] { return expression(); });
    out->recursive = skipName("recursive");
    ++m_loops;
    out->body = inner([&] { return body({"endfor", "else"}); });
    --m_loops;
    if (take().text == "else")
        out->otherwise = inner([&] { return bodyToEnd("endfor"); });
    return out;
}

std::unique_ptr<Statement> Parser::setTag()
{
    const int line = take().line;
    TupleRules targetRules;
    targetRules.simplified = true;
    targetRules.withNamespace = true;
    ExprPtr target = assignmentTarget(targetRules);
    const bool isInline = skip("=");
    auto out = statement(isInline ? StatementKind::Set : StatementKind::SetBlock, line);
    out->target = std::move(target);
    if (isInline) {
        out->expr = tuple({});
        return out;
    }
    if (skip("|"))
        out->expr = filterChain(nullptr);
    out->body = inner([&] { return bodyToEnd("endset"); });
    return out;
}

std::unique_ptr<Statement> Parser::withTag()
{
    auto out = statement(StatementKind::With, take().line);
    TupleRules targetRules;
    targetRules.simplified = true;
    while (m_current.kind != TokenKind::BlockEnd) {
        if (!out->targets.empty())
            expectSign(",");
        out->targets.push_back(assignmentTarget(targetRules));
        expectSign("=");
        out->values.push_back(inner([&] { return expression(); }));
    }
    out->body = inner([&] { return bodyToEnd("endwith"); });
    return out;
}

void Parser::signature(MacroNode &out)
{
    expectSign("(");
    while (!at(")")) {
        if (!out.parameters.empty())
            expectSign(",");
        const Token name = expect(TokenKind::Name, "name");
        for (const auto &[symbol, other] : out.parameters) {
            if (other == name.text)
                failAt(name.line, "the parameter '" + describe(name) + "' is repeated");
        }
        m_budget.steps(out.parameters.size());
        m_budget.take(kNodeOverhead + name.text.size());
        out.parameters.emplace_back(symbol(name.text), name.text);
        if (skip("="))
            out.defaults.push_back(inner([&] { return expression(); }));
        else if (!out.defaults.empty())
            failAt(name.line, "the parameter '" + describe(name) + "' without a default follows one with a default");
    }
    expectSign(")");
}

void Parser::macroBody(MacroNode &out, std::string_view end)
{
    const std::size_t required = out.parameters.size() - out.defaults.size();
    for (std::size_t i = 0; i < required; ++i) {
        if (out.parameters[i].second == "caller")
            failAt(m_current.line, "the special parameter 'caller' must be left out or have a default");
    }
    const MacroUse outer = std::exchange(m_use, MacroUse());
    const int loops = std::exchange(m_loops, 0);
    out.body = inner([&] { return bodyToEnd(end); });
    const auto isParameter = [&](std::string_view name) {
        return std::any_of(out.parameters.begin(), out.parameters.end(),
                           [name](const auto &parameter) { return parameter.second == name; });
    };
    out.usesCaller = m_use.caller && !isParameter("caller");
    out.usesKwargs = m_use.kwargs && !isParameter("kwargs");
    out.usesVarargs = m_use.varargs && !isParameter("varargs");
    out.callerSymbol = symbol("caller");
    out.kwargsSymbol = symbol("kwargs");
    out.varargsSymbol = symbol("varargs");
    m_loops = loops;
    m_use = {outer.caller || m_use.caller, outer.kwargs || m_use.kwargs, outer.varargs || m_use.varargs};
}

std::unique_ptr<Statement> Parser::macroTag()
{
    auto out = statement(StatementKind::Macro, take().line);
    out->macro = std::make_unique<MacroNode>();
    const Token name = expect(TokenKind::Name, "name");
    out->macro->name = name.text;
    out->macro->symbol = symbol(name.text);
    signature(*out->macro);
    macroBody(*out->macro, "endmacro");
    return out;
}

std::unique_ptr<Statement> Parser::callTag()
{
    auto out = statement(StatementKind::CallBlock, take().line);
    out->macro = std::make_unique<MacroNode>();
    if (at("("))
        signature(*out->macro);
    out->expr = expression();
    if (out->expr->kind != ExprKind::Call)
        failAt(out->line, "the tag 'call' needs a call");
    macroBody(*out->macro, "endcall");
    return out;
}

std::unique_ptr<Statement> Parser::filterTag()
{
    auto out = statement(StatementKind::FilterBlock, take().line);
    out->expr = filterChain(nullptr);
    out->body = inner([&] { return bodyToEnd("endfilter"); });
    return out;
}

/// {% block name %} renders in its place, since there is no inheritance; {% generation %} only marks its text.
std::unique_ptr<Statement> Parser::scopeTag()
{
    auto out = statement(StatementKind::Scope, m_current.line);
    const int loops = std::exchange(m_loops, 0);
    if (take().text == "generation") {
        out->body = inner([&] { return bodyToEnd("endgeneration"); });
        m_loops = loops;
        return out;
    }
    const Token name = expect(TokenKind::Name, "name");
    out->name = name.text;
    for (const auto &[other, block] : m_out.blocks) {
        if (other == out->name)
            failAt(name.line, "the block '" + describe(name) + "' is defined twice");
    }
    m_budget.steps(m_out.blocks.size());
    m_out.blocks.emplace_back(out->name, out.get());
    // A scoped block sees the variables around it; others see those of the template only.
    out->isolated = !skipName("scoped");
    skipName("required");
    out->body = inner([&] { return bodyToEnd("endblock"); });
    skipName(name.text);
    m_loops = loops;
    return out;
}

std::unique_ptr<Statement> Parser::autoescapeTag()
{
    auto out = statement(StatementKind::Autoescape, take().line);
    out->expr = expression();
    out->body = inner([&] { return bodyToEnd("endautoescape"); });
    return out;
}

std::unique_ptr<Statement> Parser::loopControl()
{
    const Token word = take();
    if (m_loops == 0)
        failAt(word.line, "'" + std::string(word.text) + "' outside of a loop");
    return statement(word.text == "break" ? StatementKind::Break : StatementKind::Continue, word.line);
}

void Parser::importContext()
{
    if ((atName("with") || atName("without")) && peek().isName("context")) {
        take();
        take();
    }
}

void Parser::importNames()
{
    do {
        if (m_current.kind != TokenKind::Name)
            break;
        importContext();
        expect(TokenKind::Name, "name");
        if (skipName("as"))
            expect(TokenKind::Name, "name");
        importContext();
    } while (skip(","));
}

std::unique_ptr<Statement> Parser::refusedTag()
{
    auto out = statement(StatementKind::Refused, m_current.line);
    out->text = take().text;
    out->expr = expression();
    if (out->text == "include" && atName("ignore") && peek().isName("missing")) {
        take();
        take();
    } else if (out->text == "import") {
        expectName("as");
        expect(TokenKind::Name, "name");
    } else if (out->text == "from") {
        expectName("import");
        importNames();
    }
    importContext();
    return out;
}

} // namespace engine::jinja
