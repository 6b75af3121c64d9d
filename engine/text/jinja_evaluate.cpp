// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_text.h"

#include <algorithm>

namespace engine::jinja {
Value Interpreter::evaluate(const Expr &expr)
{
    budget().steps(kNodeSteps);
    switch (expr.kind) {
    case ExprKind::Constant:
        return constant(expr.constant);
    case ExprKind::Name:
        return variable(expr);
    default:
        break;
    }
    const Budget::Level level(budget());
    m_line = expr.line;
    return evaluateCompound(expr);
}

Value Interpreter::evaluateCompound(const Expr &expr)
{
    switch (expr.kind) {
    case ExprKind::List:
        return m_heap.list(evaluate(expr.items));
    case ExprKind::Tuple:
        return m_heap.tuple(evaluate(expr.items));
    case ExprKind::Dict:
        return dictionary(expr);
    case ExprKind::Attribute:
        return attribute(evaluate(*expr.a), expr.text);
    case ExprKind::Item: {
        const Value value = evaluate(*expr.a);
        return subscript(value, evaluate(*expr.b));
    }
    case ExprKind::Slice:
        return sliced(expr);
    case ExprKind::Call: {
        const Value callee = evaluate(*expr.a);
        Arguments arguments = evaluate(*expr.call);
        m_line = expr.line;
        return call(callee, arguments);
    }
    case ExprKind::Filter:
        return filtered(expr, nullptr);
    case ExprKind::Test: {
        const Value input = evaluate(*expr.a);
        Arguments arguments = evaluate(*expr.call);
        return Value::boolean(test(expr.text, input, arguments));
    }
    case ExprKind::Not:
        return Value::boolean(!truth(m_heap, evaluate(*expr.a)));
    case ExprKind::Negative:
        return negate(m_heap, evaluate(*expr.a));
    case ExprKind::Positive: {
        const Value value = evaluate(*expr.a);
        requireDefined(value);
        if (!value.isNumber())
            fail(std::string("bad operand type for unary +: '") + typeName(value) + "'");
        return value.is(Kind::Bool) ? Value::integer(value.asInt()) : value;
    }
    case ExprKind::And:
    case ExprKind::Or:
        return logical(expr);
    case ExprKind::Chain:
        return chain(expr);
    case ExprKind::Compare:
        return Value::boolean(compare(expr));
    case ExprKind::Concat:
        return concatenated(expr);
    case ExprKind::Conditional:
        return conditional(expr);
    default:
        fail("an assignment target is used as a value");
    }
}

Value Interpreter::constant(int number)
{
    const auto index = static_cast<std::size_t>(number);
    Value &made = m_constants[index];
    if (!made.isUndefined())
        return made;
    const Constant &literal = m_program.constants[index];
    switch (literal.type) {
    case Constant::Type::None:
        made = Value::none();
        break;
    case Constant::Type::Bool:
        made = Value::boolean(literal.boolean);
        break;
    case Constant::Type::Text:
        made = m_heap.string(literal.text);
        break;
    case Constant::Type::Int:
        made = m_heap.integer(literal.integer);
        break;
    case Constant::Type::Float:
        made = Value::real(literal.real);
        break;
    }
    return made;
}

Value Interpreter::variable(const Expr &name)
{
    std::size_t visited = 0;
    for (const ScopeObject *scope = m_scope.get(); scope != nullptr; scope = scope->parent.get(), ++visited) {
        if (const Value *value = scope->find(name.symbol))
            return *value;
    }
    budget().steps(visited);
    const Value &value = m_base[static_cast<std::size_t>(name.symbol)];
    if (!value.isUndefined())
        return value;
    return undefinedName(name.symbol);
}

std::vector<Value> Interpreter::evaluate(const std::vector<ExprPtr> &items)
{
    std::vector<Value> out;
    out.reserve(items.size());
    for (const ExprPtr &item : items)
        out.push_back(item ? evaluate(*item) : Value::none());
    return out;
}

Value Interpreter::dictionary(const Expr &expr)
{
    const Ref<DictObject> out = m_heap.make<DictObject>(0);
    for (std::size_t i = 0; i < expr.items.size(); i += 2) {
        Value key = evaluate(*expr.items[i]);
        out->insert(std::move(key), evaluate(*expr.items[i + 1]));
    }
    return Value(out.get());
}

Value Interpreter::sliced(const Expr &expr)
{
    const Value value = evaluate(*expr.a);
    const std::vector<Value> bounds = evaluate(expr.items);
    return slice(m_heap, value, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::chain(const Expr &expr)
{
    Value out = evaluate(*expr.items[0]);
    for (std::size_t i = 0; i < expr.operators.size(); ++i) {
        const Value next = evaluate(*expr.items[i + 1]);
        m_line = expr.line;
        out = arithmetic(m_heap, expr.operators[i], out, next);
    }
    return out;
}

Value Interpreter::logical(const Expr &expr)
{
    Value out;
    for (const ExprPtr &item : expr.items) {
        out = evaluate(*item);
        if (truth(m_heap, out) == (expr.kind == ExprKind::Or))
            break;
    }
    return out;
}

bool Interpreter::compare(const Expr &expr)
{
    Value left = evaluate(*expr.items[0]);
    for (std::size_t i = 0; i < expr.comparisons.size(); ++i) {
        Value right = evaluate(*expr.items[i + 1]);
        m_line = expr.line;
        if (!compare(expr.comparisons[i], left, right))
            return false;
        left = std::move(right);
    }
    return true;
}

bool Interpreter::compare(Comparison sign, const Value &a, const Value &b)
{
    switch (sign) {
    case Comparison::Equal:
        return equals(m_heap, a, b);
    case Comparison::NotEqual:
        return !equals(m_heap, a, b);
    case Comparison::Less:
        return less(m_heap, a, b, "<");
    case Comparison::Greater:
        return less(m_heap, b, a, ">");
    case Comparison::LessEqual:
        return less(m_heap, a, b, "<=") || equals(m_heap, a, b);
    case Comparison::GreaterEqual:
        return less(m_heap, b, a, ">=") || equals(m_heap, a, b);
    case Comparison::In:
        return contains(m_heap, b, a);
    case Comparison::NotIn:
        return !contains(m_heap, b, a);
    }
    return false;
}

Value Interpreter::concatenated(const Expr &expr)
{
    Text out(budget());
    for (const ExprPtr &item : expr.items) {
        const Value value = evaluate(*item);
        if (m_escape)
            out.append(escapeHtml(m_heap, value).text());
        else
            appendText(out, m_heap, value);
    }
    return m_heap.string(out.release(), m_escape);
}

Value Interpreter::conditional(const Expr &expr)
{
    if (truth(m_heap, evaluate(*expr.b)))
        return evaluate(*expr.a);
    if (expr.c)
        return evaluate(*expr.c);
    return m_heap.undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::filtered(const Expr &expr, const Value *input)
{
    const Value value = expr.a == nullptr                      ? *input
        : expr.a->kind == ExprKind::Filter && input != nullptr ? filtered(*expr.a, input)
                                                               : evaluate(*expr.a);
    Arguments arguments = evaluate(*expr.call);
    m_line = expr.line;
    return filter(expr.text, value, arguments);
}

Arguments Interpreter::evaluate(const CallArguments &call)
{
    Arguments out;
    out.positional = evaluate(call.positional);
    for (const auto &[name, value] : call.named)
        out.named.emplace_back(name, evaluate(*value));
    if (call.rest) {
        const Items items(m_heap, evaluate(*call.rest));
        for (std::size_t i = 0; i < items.size(); ++i)
            out.positional.push_back(items.at(i));
    }
    if (!call.restNamed)
        return out;
    const Value extra = evaluate(*call.restNamed);
    if (!extra.is(Kind::Dict))
        fail(std::string("the argument after ** must be a mapping, not ") + typeName(extra));
    for (const auto &[key, value] : extra.as<DictObject>().entries()) {
        if (!key.isString())
            fail("keywords must be strings");
        budget().steps(1 + out.named.size());
        for (const auto &[name, present] : out.named) {
            if (name == key.text())
                fail("got multiple values for keyword argument " + reprText(name));
        }
        out.named.emplace_back(key.text(), value);
    }
    return out;
}

Value Interpreter::call(const Value &callee, Arguments &arguments)
{
    requireDefined(callee);
    budget().steps(kNodeSteps);
    switch (callee.kind()) {
    case Kind::Macro:
        return callMacro(callee.as<MacroObject>(), arguments);
    case Kind::Loop:
        return callLoop(Ref<LoopObject>(&callee.as<LoopObject>()), arguments);
    case Kind::Builtin:
        return callee.as<BuiltinObject>().function(*this, arguments);
    case Kind::Method: {
        const MethodObject &method = callee.as<MethodObject>();
        return method.function(*this, method.self, arguments);
    }
    case Kind::Joiner:
        return callJoiner(*this, callee.as<JoinerObject>(), arguments);
    default:
        fail(std::string("'") + typeName(callee) + "' object is not callable");
    }
}

Value Interpreter::callLoop(const Ref<LoopObject> &loop, Arguments &arguments)
{
    if (!loop->node->recursive)
        fail("the loop must have the 'recursive' marker to be called recursively");
    if (arguments.positional.size() != 1 || !arguments.named.empty())
        fail("loop() takes exactly one argument, what to loop over");
    const Budget::Call depth(budget());
    Capture text(*this);
    const Enter enter(*this, loop->scope);
    if (!runLoop(*loop->node, loop->scope, arguments.positional[0], loop->depth + 1)
        && !loop->node->otherwise.empty()) {
        const Enter inner(*this, newScope(loop->scope, loop->node->unsetOtherwise));
        run(loop->node->otherwise);
    }
    return text.take();
}

Value Interpreter::callMacro(const MacroObject &macro, Arguments &arguments)
{
    const Budget::Call depth(budget());
    const int line = m_line;
    // The node outlives the call; the object may not, when the call sets the variable that holds it.
    const MacroNode &node = *macro.node;
    const Ref<ScopeObject> scope = newScope(macro.scope, node.unset);
    const Enter enter(*this, scope);
    bindParameters(node, *scope, arguments);
    Capture text(*this);
    run(node.body);
    m_line = line;
    return text.take();
}

void Interpreter::bindParameters(const MacroNode &node, ScopeObject &scope, Arguments &arguments)
{
    const std::size_t count = node.parameters.size();
    const std::size_t required = count - node.defaults.size();
    std::vector<const Expr *> missing(count);
    for (std::size_t i = 0; i < count; ++i) {
        const auto &[symbol, name] = node.parameters[i];
        if (i < arguments.positional.size()) {
            scope.set(symbol, arguments.positional[i]);
            continue;
        }
        const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                        [&name = name](const auto &argument) { return argument.first == name; });
        budget().steps(1 + arguments.named.size());
        if (named != arguments.named.end()) {
            scope.set(symbol, named->second);
            arguments.named.erase(named);
        } else if (i >= required) {
            missing[i] = node.defaults[i - required].get();
        } else {
            scope.set(symbol, m_heap.undefined("parameter " + reprText(name) + " was not provided"));
        }
    }
    const bool callerBound = std::any_of(node.parameters.begin(), node.parameters.end(),
                                         [](const auto &parameter) { return parameter.second == "caller"; });
    bindExtras(node, scope, arguments, callerBound);
    // Defaults may speak of the parameters before them.
    for (std::size_t i = 0; i < count; ++i) {
        if (missing[i] != nullptr)
            scope.set(node.parameters[i].first, evaluate(*missing[i]));
    }
}

void Interpreter::bindExtras(const MacroNode &node, ScopeObject &scope, Arguments &arguments, bool callerBound)
{
    const std::string name = node.name.empty() ? "None" : reprText(node.name);
    if (node.usesCaller && !callerBound) {
        Value caller = m_heap.undefined("no caller defined");
        const auto given = std::find_if(arguments.named.begin(), arguments.named.end(),
                                        [](const auto &argument) { return argument.first == "caller"; });
        if (given != arguments.named.end()) {
            caller = given->second;
            arguments.named.erase(given);
        }
        scope.set(node.callerSymbol, std::move(caller));
    }
    if (node.usesKwargs) {
        const Ref<DictObject> rest = m_heap.make<DictObject>(0);
        for (auto &[key, value] : arguments.named)
            rest->insert(m_heap.string(key), value);
        scope.set(node.kwargsSymbol, Value(rest.get()));
    } else if (!arguments.named.empty()) {
        fail("macro " + name + " takes no keyword argument " + reprText(arguments.named.front().first));
    }
    const std::size_t count = node.parameters.size();
    std::vector<Value> rest;
    for (std::size_t i = count; i < arguments.positional.size(); ++i)
        rest.push_back(arguments.positional[i]);
    if (node.usesVarargs)
        scope.set(node.varargsSymbol, m_heap.tuple(std::move(rest)));
    else if (!rest.empty())
        fail("macro " + name + " takes not more than " + std::to_string(count) + " argument(s)");
}

} // namespace engine::jinja
