// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_parser.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace engine::jinja {
namespace {

// A tree may be higher than brackets can nest: every link of a.b.c or a|b|c adds a level.
constexpr int kHeightPerDepth = 10;

int heightOf(const ExprPtr &child)
{
    return child ? child->height : 0;
}

std::string withoutUnderscores(std::string_view text)
{
    std::string out(text);
    out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
    return out;
}

} // namespace

ExprPtr Parser::finished(ExprPtr node)
{
    int height = std::max({heightOf(node->a), heightOf(node->b), heightOf(node->c)});
    for (const ExprPtr &item : node->items)
        height = std::max(height, heightOf(item));
    if (node->call) {
        for (const ExprPtr &item : node->call->positional)
            height = std::max(height, heightOf(item));
        for (const auto &[name, item] : node->call->named)
            height = std::max(height, heightOf(item));
        height = std::max({height, heightOf(node->call->rest), heightOf(node->call->restNamed)});
    }
    node->height = height + 1;
    if (node->height > m_maxDepth * kHeightPerDepth)
        failAt(node->line,
               "the expression nests deeper than the limit of " + std::to_string(m_maxDepth * kHeightPerDepth)
                   + " levels");
    return node;
}

ExprPtr Parser::expression(bool withConditional)
{
    const Depth depth(*this);
    return withConditional ? conditional() : either();
}

ExprPtr Parser::conditional()
{
    const std::size_t unknown = m_unknown.size();
    ExprPtr value = either();
    while (atName("if")) {
        const Depth depth(*this);
        ExprPtr out = node(ExprKind::Conditional, take().line);
        out->a = std::move(value);
        out->b = either();
        if (skipName("else"))
            out->c = conditional();
        m_unknown.resize(std::min(m_unknown.size(), unknown));
        value = finished(std::move(out));
    }
    return value;
}

ExprPtr Parser::either()
{
    ExprPtr first = both();
    if (!atName("or"))
        return first;
    ExprPtr out = node(ExprKind::Or, m_current.line);
    out->items.push_back(std::move(first));
    while (skipName("or"))
        out->items.push_back(both());
    return finished(std::move(out));
}

ExprPtr Parser::both()
{
    ExprPtr first = negation();
    if (!atName("and"))
        return first;
    ExprPtr out = node(ExprKind::And, m_current.line);
    out->items.push_back(std::move(first));
    while (skipName("and"))
        out->items.push_back(negation());
    return finished(std::move(out));
}

ExprPtr Parser::negation()
{
    if (!atName("not"))
        return comparison();
    const Depth depth(*this);
    ExprPtr out = node(ExprKind::Not, take().line);
    out->a = negation();
    return finished(std::move(out));
}

bool Parser::comparisonSign(Comparison &out)
{
    static constexpr std::pair<std::string_view, Comparison> signs[] = {
        {"==", Comparison::Equal},     {"!=", Comparison::NotEqual}, {"<", Comparison::Less},
        {"<=", Comparison::LessEqual}, {">", Comparison::Greater},   {">=", Comparison::GreaterEqual},
    };
    for (const auto &[sign, comparison] : signs) {
        if (skip(sign)) {
            out = comparison;
            return true;
        }
    }
    out = Comparison::In;
    if (skipName("in"))
        return true;
    if (!atName("not") || !peek().isName("in"))
        return false;
    take();
    take();
    out = Comparison::NotIn;
    return true;
}

ExprPtr Parser::comparison()
{
    ExprPtr first = sum();
    ExprPtr out;
    for (Comparison sign{}; comparisonSign(sign);) {
        if (!out) {
            out = node(ExprKind::Compare, first->line);
            out->items.push_back(std::move(first));
        }
        out->comparisons.push_back(sign);
        out->items.push_back(sum());
    }
    return out ? finished(std::move(out)) : std::move(first);
}

ExprPtr Parser::sum()
{
    ExprPtr first = concatenation();
    if (!at("+") && !at("-"))
        return first;
    ExprPtr out = node(ExprKind::Chain, m_current.line);
    out->items.push_back(std::move(first));
    while (at("+") || at("-")) {
        out->operators.push_back(take().text == "+" ? Operator::Add : Operator::Subtract);
        out->items.push_back(concatenation());
    }
    return finished(std::move(out));
}

ExprPtr Parser::concatenation()
{
    ExprPtr first = product();
    if (!at("~"))
        return first;
    ExprPtr out = node(ExprKind::Concat, m_current.line);
    out->items.push_back(std::move(first));
    while (skip("~"))
        out->items.push_back(product());
    return finished(std::move(out));
}

ExprPtr Parser::product()
{
    static constexpr std::pair<std::string_view, Operator> signs[] = {
        {"*", Operator::Multiply}, {"/", Operator::Divide}, {"//", Operator::FloorDivide}, {"%", Operator::Modulo}};
    ExprPtr first = powers();
    ExprPtr out;
    for (bool found = true; found;) {
        found = false;
        for (const auto &[sign, op] : signs) {
            if (!at(sign))
                continue;
            if (!out) {
                out = node(ExprKind::Chain, m_current.line);
                out->items.push_back(std::move(first));
            }
            take();
            out->operators.push_back(op);
            out->items.push_back(powers());
            found = true;
        }
    }
    return out ? finished(std::move(out)) : std::move(first);
}

// Jinja reads a ** b ** c from left to right, and -a ** b as (-a) ** b, unlike Python.
ExprPtr Parser::powers()
{
    ExprPtr first = unary();
    if (!at("**"))
        return first;
    ExprPtr out = node(ExprKind::Chain, m_current.line);
    out->items.push_back(std::move(first));
    while (skip("**")) {
        out->operators.push_back(Operator::Power);
        out->items.push_back(unary());
    }
    return finished(std::move(out));
}

ExprPtr Parser::unary(bool withFilter)
{
    ExprPtr out;
    if (at("-") || at("+")) {
        const Depth depth(*this);
        const Token sign = take();
        out = node(sign.text == "-" ? ExprKind::Negative : ExprKind::Positive, sign.line);
        out->a = unary(false);
        out = finished(std::move(out));
    } else {
        out = primary();
    }
    out = postfix(std::move(out));
    return withFilter ? filters(std::move(out)) : std::move(out);
}

ExprPtr Parser::primary(bool withNamespace)
{
    switch (m_current.kind) {
    case TokenKind::Name:
        return nameOrConstant(withNamespace);
    case TokenKind::String:
        return stringLiteral();
    case TokenKind::Integer:
    case TokenKind::Float:
        return numberLiteral();
    default:
        break;
    }
    if (skip("(")) {
        TupleRules rules;
        rules.parentheses = true;
        ExprPtr out = tuple(rules);
        expectSign(")");
        return out;
    }
    if (at("["))
        return listLiteral();
    if (at("{"))
        return dictLiteral();
    failUnexpected();
}

ExprPtr Parser::nameOrConstant(bool withNamespace)
{
    const Token name = take();
    if (name.text == "true" || name.text == "True")
        return boolean(true, name.line);
    if (name.text == "false" || name.text == "False")
        return boolean(false, name.line);
    if (name.text == "none" || name.text == "None")
        return constant(Constant(), name.line);
    m_use.caller |= name.text == "caller";
    m_use.kwargs |= name.text == "kwargs";
    m_use.varargs |= name.text == "varargs";
    const bool isReference = withNamespace && skip(".");
    ExprPtr out = node(isReference ? ExprKind::NamespaceRef : ExprKind::Name, name.line);
    out->symbol = symbol(name.text);
    if (isReference)
        out->text = expect(TokenKind::Name, "name").text;
    return out;
}

ExprPtr Parser::stringLiteral()
{
    const int line = m_current.line;
    Constant out;
    out.type = Constant::Type::Text;
    while (m_current.kind == TokenKind::String)
        out.text += unescape(take().text);
    return constant(std::move(out), line);
}

ExprPtr Parser::numberLiteral()
{
    const Token token = take();
    const std::string digits = withoutUnderscores(token.text);
    Constant out;
    if (token.kind == TokenKind::Float) {
        out.type = Constant::Type::Float;
        const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), out.real);
        // Too large is infinite and too small is zero; from_chars leaves both to its caller.
        if (read.ec == std::errc::result_out_of_range)
            out.real = digits.find("e-") != std::string::npos || digits.find("E-") != std::string::npos
                ? 0
                : std::numeric_limits<double>::infinity();
        return constant(std::move(out), token.line);
    }
    out.type = Constant::Type::Int;
    const char kind = digits.size() > 2 ? static_cast<char>(digits[1] | 0x20) : '\0';
    const unsigned base = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 10));
    if (base == 10 && digits.size() > 4300)
        failAt(token.line, "an integer has more than the limit of 4300 digits");
    m_budget.steps(digits.size() * digits.size() / 64);
    out.integer = BigInt::fromDigits(std::string_view(digits).substr(base == 10 ? 0 : 2), base);
    return constant(std::move(out), token.line);
}

ExprPtr Parser::listLiteral()
{
    const Depth depth(*this);
    ExprPtr out = node(ExprKind::List, take().line);
    while (!at("]")) {
        if (!out->items.empty())
            expectSign(",");
        if (at("]"))
            break;
        out->items.push_back(expression());
    }
    expectSign("]");
    return finished(std::move(out));
}

ExprPtr Parser::dictLiteral()
{
    const Depth depth(*this);
    ExprPtr out = node(ExprKind::Dict, take().line);
    while (!at("}")) {
        if (!out->items.empty())
            expectSign(",");
        if (at("}"))
            break;
        out->items.push_back(expression());
        expectSign(":");
        out->items.push_back(expression());
    }
    expectSign("}");
    return finished(std::move(out));
}

bool Parser::tupleEnds(const TupleRules &rules) const
{
    return m_current.kind == TokenKind::VariableEnd || m_current.kind == TokenKind::BlockEnd || at(")")
        || (!rules.endName.empty() && atName(rules.endName));
}

ExprPtr Parser::tuple(const TupleRules &rules)
{
    const int line = m_current.line;
    std::vector<ExprPtr> items;
    bool isTuple = false;
    while (!tupleEnds(rules)) {
        items.push_back(rules.simplified ? primary(rules.withNamespace) : expression(rules.withConditional));
        if (!at(","))
            break;
        take();
        isTuple = true;
    }
    if (!isTuple && !items.empty())
        return std::move(items.front());
    if (!isTuple && !rules.parentheses)
        failAt(line, "expected an expression, got '" + describe(m_current) + "'");
    ExprPtr out = node(ExprKind::Tuple, line);
    out->items = std::move(items);
    return finished(std::move(out));
}

ExprPtr Parser::postfix(ExprPtr value)
{
    while (true) {
        if (at("."))
            value = attribute(std::move(value));
        else if (at("["))
            value = subscript(std::move(value));
        else if (at("("))
            value = call(std::move(value));
        else
            return value;
    }
}

ExprPtr Parser::filters(ExprPtr value)
{
    while (true) {
        if (skip("|"))
            value = filter(std::move(value));
        else if (atName("is"))
            value = test(std::move(value));
        else if (at("("))
            value = call(std::move(value));
        else
            return value;
    }
}

std::string Parser::dottedName()
{
    std::string out(expect(TokenKind::Name, "name").text);
    while (skip("."))
        out.append(".").append(expect(TokenKind::Name, "name").text);
    return out;
}

void Parser::noteUnknown(const char *sort, const std::string &name, int line)
{
    if (m_soft == 0)
        m_unknown.push_back({std::string("no ") + sort + " named '" + name.substr(0, 60) + "': it is unknown", line});
}

ExprPtr Parser::filter(ExprPtr value)
{
    ExprPtr out = node(ExprKind::Filter, m_current.line);
    out->a = std::move(value);
    out->text = dottedName();
    if (!hasFilter(out->text))
        noteUnknown("filter", out->text, out->line);
    out->call = at("(") ? arguments() : std::make_unique<CallArguments>();
    return finished(std::move(out));
}

ExprPtr Parser::filterChain(ExprPtr value)
{
    value = filter(std::move(value));
    while (skip("|"))
        value = filter(std::move(value));
    return value;
}

ExprPtr Parser::test(ExprPtr value)
{
    const int line = take().line;
    const bool negated = skipName("not");
    ExprPtr out = node(ExprKind::Test, line);
    out->a = std::move(value);
    out->text = dottedName();
    if (!hasTest(out->text))
        noteUnknown("test", out->text, line);
    out->call = std::make_unique<CallArguments>();
    const bool isWord = m_current.kind == TokenKind::Name && !atName("else") && !atName("or") && !atName("and");
    const bool isLiteral = m_current.kind == TokenKind::String || m_current.kind == TokenKind::Integer
        || m_current.kind == TokenKind::Float;
    if (at("(")) {
        out->call = arguments();
    } else if (isWord || isLiteral || at("[") || at("{")) {
        if (atName("is"))
            failAt(m_current.line, "tests cannot be chained with 'is'");
        out->call->positional.push_back(postfix(primary()));
    }
    out = finished(std::move(out));
    if (!negated)
        return out;
    ExprPtr inverse = node(ExprKind::Not, line);
    inverse->a = std::move(out);
    return finished(std::move(inverse));
}

ExprPtr Parser::attribute(ExprPtr value)
{
    const int line = take().line;
    if (m_current.kind == TokenKind::Integer) {
        ExprPtr out = node(ExprKind::Item, line);
        out->a = std::move(value);
        out->b = numberLiteral();
        return finished(std::move(out));
    }
    if (m_current.kind != TokenKind::Name)
        failAt(m_current.line, "expected a name or a number after '.', got '" + describe(m_current) + "'");
    ExprPtr out = node(ExprKind::Attribute, line);
    out->a = std::move(value);
    out->text = take().text;
    return finished(std::move(out));
}

ExprPtr Parser::subscript(ExprPtr value)
{
    const Depth depth(*this);
    const int line = take().line;
    if (skip("]")) {
        ExprPtr out = node(ExprKind::Item, line);
        out->a = std::move(value);
        out->b = finished(node(ExprKind::Tuple, line));
        return finished(std::move(out));
    }
    ExprPtr out = subscripted(std::move(value), line);
    if (at(",")) {
        // A tuple of subscripts is a key like any other; slices have no place in one here.
        if (out->kind == ExprKind::Slice)
            failAt(line, "a slice cannot be part of a tuple of subscripts");
        ExprPtr keys = node(ExprKind::Tuple, line);
        keys->items.push_back(std::move(out->b));
        while (skip(",") && !at("]"))
            keys->items.push_back(expression());
        out->b = finished(std::move(keys));
        out = finished(std::move(out));
    }
    expectSign("]");
    return out;
}

ExprPtr Parser::subscripted(ExprPtr value, int line)
{
    ExprPtr first;
    if (!at(":"))
        first = expression();
    if (!at(":")) {
        ExprPtr out = node(ExprKind::Item, line);
        out->a = std::move(value);
        out->b = std::move(first);
        return finished(std::move(out));
    }
    ExprPtr out = node(ExprKind::Slice, line);
    out->a = std::move(value);
    out->items.resize(3);
    out->items[0] = std::move(first);
    for (std::size_t i = 1; i < 3 && skip(":"); ++i) {
        if (!at(":") && !at("]") && !at(","))
            out->items[i] = expression();
    }
    return finished(std::move(out));
}

ExprPtr Parser::call(ExprPtr callee)
{
    ExprPtr out = node(ExprKind::Call, m_current.line);
    out->a = std::move(callee);
    out->call = arguments();
    return finished(std::move(out));
}

std::unique_ptr<CallArguments> Parser::arguments()
{
    const Depth depth(*this);
    const int line = m_current.line;
    expectSign("(");
    auto out = std::make_unique<CallArguments>();
    for (bool first = true; !at(")"); first = false) {
        if (!first)
            expectSign(",");
        if (at(")"))
            break;
        argument(*out, line);
    }
    expectSign(")");
    return out;
}

void Parser::argument(CallArguments &out, int line)
{
    const auto require = [&](bool allowed) {
        if (!allowed)
            failAt(line, "the arguments of the call stand in an order that is not allowed");
    };
    if (skip("*")) {
        require(!out.rest && !out.restNamed);
        out.rest = expression();
    } else if (skip("**")) {
        require(!out.restNamed);
        out.restNamed = expression();
    } else if (m_current.kind == TokenKind::Name && peek().isOperator("=")) {
        require(!out.restNamed);
        std::string name(take().text);
        take();
        for (const auto &[other, value] : out.named) {
            if (other == name)
                failAt(line, "the keyword argument '" + name + "' is repeated");
        }
        m_budget.steps(out.named.size());
        out.named.emplace_back(std::move(name), expression());
    } else {
        require(!out.rest && !out.restNamed && out.named.empty());
        out.positional.push_back(expression());
    }
}

} // namespace engine::jinja
