// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_interpreter.h"

#include "engine/text/jinja_arguments.h"
#include "engine/text/jinja_builtins.h"
#include "engine/text/jinja_text.h"

#include <algorithm>

namespace engine::jinja {
const Value *ScopeObject::find(int symbol) const
{
    for (const auto &[key, value] : m_variables) {
        if (key == symbol)
            return &value;
    }
    return nullptr;
}

void ScopeObject::set(int symbol, Value value)
{
    for (auto &[key, present] : m_variables) {
        if (key == symbol) {
            present = std::move(value);
            return;
        }
    }
    heap().grow(*this, sizeof(m_variables[0]));
    m_variables.emplace_back(symbol, std::move(value));
}

Interpreter::Capture::Capture(Interpreter &owner)
    : m_owner(owner)
    , m_outer(owner.m_out)
    , m_text(owner.budget())
{
    owner.m_out = &m_text;
}

Value Interpreter::Capture::take()
{
    return m_owner.m_heap.string(m_text.release(), m_owner.m_escape);
}

Interpreter::Interpreter(const Template &program, Heap &heap, std::string date)
    : m_program(program)
    , m_heap(heap)
    , m_date(std::move(date))
    , m_base(program.symbols.size())
    , m_constants(program.constants.size())
    , m_root(newScope(Ref<ScopeObject>(), program.unset))
    , m_scope(m_root)
{
    heap.budget().take((m_base.size() + m_constants.size()) * sizeof(Value));
    defineBuiltins();
}

int Interpreter::symbolOf(std::string_view name) const
{
    const auto &symbols = m_program.symbols;
    const auto found = std::find(symbols.begin(), symbols.end(), name);
    return found == symbols.end() ? -1 : static_cast<int>(found - symbols.begin());
}

void Interpreter::define(std::string_view name, Value value)
{
    if (const int symbol = symbolOf(name); symbol >= 0)
        m_base[static_cast<std::size_t>(symbol)] = std::move(value);
}

void Interpreter::defineBuiltins()
{
    for (const Builtin &builtin : builtins()) {
        if (uses(builtin.name))
            define(builtin.name, Value(m_heap.make<BuiltinObject>(0, builtin.name, builtin.function).get()));
    }
    if (uses("self"))
        define("self", Value(m_heap.make<SelfObject>(0).get()));
}

Ref<ScopeObject> Interpreter::newScope(const Ref<ScopeObject> &parent, const std::vector<int> &unset)
{
    const Ref<ScopeObject> out = m_heap.make<ScopeObject>(0, parent);
    budget().steps(unset.size());
    for (const int symbol : unset)
        out->set(symbol, undefinedName(symbol));
    return out;
}

Value Interpreter::undefinedName(int symbol)
{
    return m_heap.undefined("'" + m_program.symbols[static_cast<std::size_t>(symbol)] + "' is undefined");
}

std::string Interpreter::run()
{
    Text out(budget());
    m_out = &out;
    m_final = &out;
    run(m_program.body);
    return out.release();
}

void Interpreter::write(std::string_view text)
{
    if (m_out == m_final)
        budget().output(text.size());
    m_out->append(text);
}

void Interpreter::print(const Value &value)
{
    if (value.isUndefined())
        return;
    if (value.isString() && (!m_escape || value.as<StringObject>().safe))
        write(value.text());
    else if (m_escape)
        write(escapeHtml(m_heap, value).text());
    else
        write(textOf(m_heap, value));
}

Interpreter::Flow Interpreter::run(const Body &body)
{
    const Budget::Level level(budget());
    for (const auto &statement : body) {
        if (const Flow flow = run(*statement); flow != Flow::Normal)
            return flow;
    }
    return Flow::Normal;
}

Interpreter::Flow Interpreter::run(const Statement &statement)
{
    m_line = statement.line;
    budget().steps(kNodeSteps);
    switch (statement.kind) {
    case StatementKind::Data:
        write(statement.text);
        break;
    case StatementKind::Output:
        print(evaluate(*statement.expr));
        break;
    case StatementKind::If:
        return runIf(statement);
    case StatementKind::For:
        return runFor(statement);
    case StatementKind::Set:
        runSet(statement);
        break;
    case StatementKind::SetBlock:
        runSetBlock(statement);
        break;
    case StatementKind::Macro:
        m_scope->set(statement.macro->symbol, Value(m_heap.make<MacroObject>(0, statement.macro.get(), m_scope).get()));
        break;
    case StatementKind::CallBlock:
        runCallBlock(statement);
        break;
    case StatementKind::FilterBlock:
        runFilterBlock(statement);
        break;
    case StatementKind::With:
        runWith(statement);
        break;
    case StatementKind::Scope:
        runScope(statement);
        break;
    case StatementKind::Autoescape:
        return runAutoescape(statement);
    case StatementKind::Break:
        return Flow::Break;
    case StatementKind::Continue:
        return Flow::Continue;
    case StatementKind::Refused:
        fail("the tag '" + std::string(statement.text) + "' is not supported: a chat template reaches no other file");
    }
    return Flow::Normal;
}

Interpreter::Flow Interpreter::runIf(const Statement &statement)
{
    for (const Branch &branch : statement.branches) {
        if (!branch.condition || truth(m_heap, evaluate(*branch.condition)))
            return run(branch.body);
    }
    return Flow::Normal;
}

Interpreter::Flow Interpreter::runFor(const Statement &statement)
{
    const Value source = evaluate(*statement.expr);
    const Ref<ScopeObject> outer = m_scope;
    if (!runLoop(statement, outer, source, 0) && !statement.otherwise.empty()) {
        const Enter enter(*this, newScope(outer, statement.unsetOtherwise));
        return run(statement.otherwise);
    }
    return Flow::Normal;
}

/// Returns whether the body ran to its end at least once: as in Jinja, passes that were left by break or continue do
/// not keep the else branch from running.
bool Interpreter::runLoop(const Statement &statement, const Ref<ScopeObject> &outer, const Value &source, int depth)
{
    Items items = loopItems(statement, outer, source);
    if (items.size() == 0)
        return false;
    const Ref<LoopObject> loop = m_heap.make<LoopObject>(0, &statement, outer, std::move(items), depth);
    bool completed = false;
    for (; loop->index < loop->items.size(); ++loop->index) {
        budget().steps(kNodeSteps);
        const Enter enter(*this, newScope(outer, statement.unset));
        m_scope->set(statement.loopSymbol, Value(loop.get()));
        assign(*statement.target, loop->items.at(loop->index));
        const Flow flow = run(statement.body);
        if (flow == Flow::Break)
            break;
        completed = completed || flow == Flow::Normal;
    }
    return completed;
}

Items Interpreter::loopItems(const Statement &statement, const Ref<ScopeObject> &outer, const Value &source)
{
    Items items(m_heap, source);
    if (!statement.condition)
        return items;
    std::vector<Value> kept;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const Enter enter(*this, newScope(outer, {}));
        assign(*statement.target, items.at(i));
        if (truth(m_heap, evaluate(*statement.condition)))
            kept.push_back(items.at(i));
    }
    return Items(m_heap, m_heap.list(std::move(kept)));
}

void Interpreter::runSet(const Statement &statement)
{
    assign(*statement.target, evaluate(*statement.expr));
}

Value Interpreter::capture(const Body &body, const std::vector<int> &unset)
{
    const Enter enter(*this, newScope(m_scope, unset));
    Capture text(*this);
    run(body);
    return text.take();
}

void Interpreter::runSetBlock(const Statement &statement)
{
    Value value = capture(statement.body, statement.unset);
    if (statement.expr)
        value = filtered(*statement.expr, &value);
    assign(*statement.target, std::move(value));
}

void Interpreter::runFilterBlock(const Statement &statement)
{
    const Value text = capture(statement.body, statement.unset);
    printText(filtered(*statement.expr, &text));
}

void Interpreter::runCallBlock(const Statement &statement)
{
    const Value caller(m_heap.make<MacroObject>(0, statement.macro.get(), m_scope).get());
    const Value callee = evaluate(*statement.expr->a);
    Arguments arguments = evaluate(*statement.expr->call);
    arguments.named.emplace_back("caller", caller);
    printText(call(callee, arguments));
}

/// What filter and call blocks give goes into the output as it is, so that it must be text.
void Interpreter::printText(const Value &value)
{
    if (!value.isString())
        fail(std::string("the block gives ") + typeName(value) + " where text is wanted");
    write(value.text());
}

void Interpreter::runWith(const Statement &statement)
{
    // All values are evaluated before any name changes.
    std::vector<Value> values = evaluate(statement.values);
    const Enter enter(*this, newScope(m_scope, statement.unset));
    for (std::size_t i = 0; i < values.size(); ++i)
        assign(*statement.targets[i], std::move(values[i]));
    run(statement.body);
}

/// A named block reads the context where the template has a name of its own that it has not set yet.
Ref<ScopeObject> Interpreter::blockScope(const Statement &block)
{
    const Ref<ScopeObject> out = newScope(block.isolated ? m_root : m_scope, {});
    for (const int symbol : m_program.unset) {
        const Value *value = m_root->find(symbol);
        const Value &given = m_base[static_cast<std::size_t>(symbol)];
        if (value != nullptr && value->isUndefined() && !given.isUndefined())
            out->set(symbol, given);
    }
    budget().steps(m_program.unset.size() + block.unset.size());
    for (const int symbol : block.unset)
        out->set(symbol, undefinedName(symbol));
    return out;
}

void Interpreter::runScope(const Statement &statement)
{
    const Enter enter(*this, statement.name.empty() ? newScope(m_scope, statement.unset) : blockScope(statement));
    run(statement.body);
}

Interpreter::Flow Interpreter::runAutoescape(const Statement &statement)
{
    const Enter enter(*this, newScope(m_scope, statement.unset));
    const bool outer = std::exchange(m_escape, truth(m_heap, evaluate(*statement.expr)));
    const Flow flow = run(statement.body);
    m_escape = outer;
    return flow;
}

bool Interpreter::hasBlock(std::string_view name) const
{
    return std::any_of(m_program.blocks.begin(), m_program.blocks.end(),
                       [name](const auto &block) { return block.first == name; });
}

Value Interpreter::block(std::string_view name)
{
    const auto found = std::find_if(m_program.blocks.begin(), m_program.blocks.end(),
                                    [name](const auto &block) { return block.first == name; });
    const Budget::Call depth(budget());
    const Enter enter(*this, blockScope(*found->second));
    Capture text(*this);
    run(found->second->body);
    return text.take();
}

void Interpreter::assign(const Expr &target, Value value)
{
    if (target.kind == ExprKind::Name)
        m_scope->set(target.symbol, std::move(value));
    else if (target.kind == ExprKind::NamespaceRef)
        assignMember(target, std::move(value));
    else
        unpack(target, value);
}

void Interpreter::assignMember(const Expr &target, Value value)
{
    const Value holder = variable(target);
    if (!holder.is(Kind::Namespace))
        fail("cannot assign attribute on non-namespace object");
    checkMemberName(target.text);
    holder.as<NamespaceObject>().set(target.text, std::move(value));
}

void Interpreter::unpack(const Expr &target, const Value &value)
{
    if (!isIterable(value))
        fail(std::string("cannot unpack non-iterable ") + typeName(value) + " object");
    const Items items(m_heap, value);
    const std::size_t wanted = target.items.size();
    if (items.size() < wanted)
        fail("not enough values to unpack (expected " + std::to_string(wanted) + ", got " + std::to_string(items.size())
             + ")");
    if (items.size() > wanted)
        fail("too many values to unpack (expected " + std::to_string(wanted) + ")");
    for (std::size_t i = 0; i < wanted; ++i)
        assign(*target.items[i], items.at(i));
}

} // namespace engine::jinja
