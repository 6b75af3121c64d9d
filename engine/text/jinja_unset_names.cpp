// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_unset_names.h"

#include <algorithm>
#include <unordered_set>

namespace engine::jinja {
namespace {

/// The names of one frame. Filled in whole before the frames inside are looked at.
class Frame {
public:
    explicit Frame(const Frame *outer)
        : m_outer(outer)
    {
    }

    void note(int symbol) { m_known.insert(symbol); }

    void reads(const Expr *expr)
    {
        if (expr == nullptr)
            return;
        if (expr->symbol >= 0)
            note(expr->symbol);
        reads(expr->a.get());
        reads(expr->b.get());
        reads(expr->c.get());
        reads(expr->items);
        if (!expr->call)
            return;
        reads(expr->call->positional);
        for (const auto &argument : expr->call->named)
            reads(argument.second.get());
        reads(expr->call->rest.get());
        reads(expr->call->restNamed.get());
    }
    void reads(const std::vector<ExprPtr> &items)
    {
        for (const ExprPtr &item : items)
            reads(item.get());
    }

    /// The names that a pass binds before its body runs.
    void binds(const Expr &target)
    {
        if (target.kind == ExprKind::Name)
            note(target.symbol);
        for (const ExprPtr &item : target.items)
            binds(*item);
    }

    void body(const Body &statements)
    {
        for (const auto &statement : statements)
            visit(*statement);
    }

    [[nodiscard]] std::vector<int> unset() const
    {
        std::vector<int> out;
        std::copy_if(m_setFirst.begin(), m_setFirst.end(), std::back_inserter(out),
                     [this](int symbol) { return m_outer == nullptr || !m_outer->knows(symbol); });
        return out;
    }

private:
    [[nodiscard]] bool knows(int symbol) const
    {
        return m_known.count(symbol) != 0 || (m_outer != nullptr && m_outer->knows(symbol));
    }

    void sets(int symbol)
    {
        if (m_known.insert(symbol).second && m_branches == 0)
            m_setFirst.push_back(symbol);
    }
    void sets(const Expr &target)
    {
        if (target.kind == ExprKind::Name)
            sets(target.symbol);
        else if (target.kind == ExprKind::NamespaceRef)
            note(target.symbol);
        for (const ExprPtr &item : target.items)
            sets(*item);
    }

    void visit(const Statement &statement)
    {
        switch (statement.kind) {
        case StatementKind::If:
            return branches(statement);
        case StatementKind::Set:
            reads(statement.expr.get());
            return sets(*statement.target);
        case StatementKind::SetBlock:
            sets(*statement.target);
            return reads(statement.expr.get());
        case StatementKind::Macro:
            return sets(statement.macro->symbol);
        case StatementKind::With:
            return reads(statement.values);
        case StatementKind::Output:
        case StatementKind::For:
        case StatementKind::CallBlock:
        case StatementKind::FilterBlock:
            return reads(statement.expr.get());
        default:
            return; // no names of this frame
        }
    }
    void branches(const Statement &statement)
    {
        for (const Branch &branch : statement.branches) {
            // The condition of an elif stands in the branch that the conditions before it leave.
            reads(branch.condition.get());
            ++m_branches;
            body(branch.body);
            --m_branches;
        }
    }

    const Frame *m_outer;
    std::unordered_set<int> m_known;
    std::vector<int> m_setFirst;
    int m_branches = 0; ///< conditions around this place
};

void framesIn(const Body &body, const Frame &outer);

std::vector<int> bodyFrame(const Body &body, Frame frame)
{
    frame.body(body);
    framesIn(body, frame);
    return frame.unset();
}

void loopFrames(Statement &statement, const Frame &outer)
{
    Frame pass(&outer);
    pass.note(statement.loopSymbol);
    pass.binds(*statement.target);
    statement.unset = bodyFrame(statement.body, std::move(pass));
    statement.unsetOtherwise = bodyFrame(statement.otherwise, Frame(&outer));
}

void macroFrame(MacroNode &macro, const Frame &outer)
{
    Frame frame(&outer);
    for (const auto &parameter : macro.parameters)
        frame.note(parameter.first);
    const auto noteIf = [&frame](bool used, int symbol) {
        if (used)
            frame.note(symbol);
    };
    noteIf(macro.usesCaller, macro.callerSymbol);
    noteIf(macro.usesKwargs, macro.kwargsSymbol);
    noteIf(macro.usesVarargs, macro.varargsSymbol);
    frame.reads(macro.defaults);
    macro.unset = bodyFrame(macro.body, std::move(frame));
}

void withFrame(Statement &statement, const Frame &outer)
{
    Frame frame(&outer);
    for (const ExprPtr &target : statement.targets)
        frame.binds(*target);
    statement.unset = bodyFrame(statement.body, std::move(frame));
}

void framesOf(Statement &statement, const Frame &outer)
{
    switch (statement.kind) {
    case StatementKind::If:
        for (const Branch &branch : statement.branches)
            framesIn(branch.body, outer);
        return;
    case StatementKind::For:
        return loopFrames(statement, outer);
    case StatementKind::Macro:
    case StatementKind::CallBlock:
        return macroFrame(*statement.macro, outer);
    case StatementKind::With:
        return withFrame(statement, outer);
    case StatementKind::Scope:
        // A named block is a function of its own: it knows no frame around it.
        statement.unset = bodyFrame(statement.body, Frame(statement.name.empty() ? &outer : nullptr));
        return;
    case StatementKind::SetBlock:
    case StatementKind::FilterBlock:
    case StatementKind::Autoescape: {
        Frame frame(&outer);
        if (statement.kind == StatementKind::Autoescape)
            frame.reads(statement.expr.get());
        statement.unset = bodyFrame(statement.body, std::move(frame));
        return;
    }
    default:
        return;
    }
}

void framesIn(const Body &body, const Frame &outer)
{
    for (const auto &statement : body)
        framesOf(*statement, outer);
}

} // namespace

void findUnsetNames(Template &tree)
{
    tree.unset = bodyFrame(tree.body, Frame(nullptr));
}

} // namespace engine::jinja
