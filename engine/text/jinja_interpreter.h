// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/jinja_ast.h"
#include "engine/text/jinja_operators.h"
#include "engine/text/jinja_value.h"

#include <string>
#include <string_view>
#include <vector>

namespace engine::jinja {

/// Variables of the template, of one pass of a loop, of a macro's call or of a block; looked up outwards.
class ScopeObject final : public Object {
public:
    explicit ScopeObject(Ref<ScopeObject> parent)
        : Object(Kind::Scope)
        , parent(std::move(parent))
    {
    }
    [[nodiscard]] const Value *find(int symbol) const;
    void set(int symbol, Value value);
    Ref<ScopeObject> parent;

private:
    void drop() override
    {
        parent = Ref<ScopeObject>();
        m_variables.clear();
    }
    std::vector<std::pair<int, Value>> m_variables;
};

/// A macro, or the body of a call block, together with the variables around it.
class MacroObject final : public Object {
public:
    MacroObject(const MacroNode *node, Ref<ScopeObject> scope)
        : Object(Kind::Macro)
        , node(node)
        , scope(std::move(scope))
    {
    }
    const MacroNode *node;
    Ref<ScopeObject> scope;

private:
    void drop() override { scope = Ref<ScopeObject>(); }
};

/// The `loop` of a for loop.
class LoopObject final : public Object {
public:
    LoopObject(const Statement *node, Ref<ScopeObject> scope, Items items, int depth)
        : Object(Kind::Loop)
        , node(node)
        , scope(std::move(scope))
        , items(std::move(items))
        , depth(depth)
    {
    }
    const Statement *node;
    Ref<ScopeObject> scope; ///< around the loop
    Items items;
    int depth; ///< from 0; counts loops that call themselves
    std::size_t index = 0;
    Value lastChanged; ///< a tuple, once loop.changed was called

private:
    void drop() override
    {
        scope = Ref<ScopeObject>();
        items = Items();
        lastChanged = Value();
    }
};

/// Runs one parsed template once.
class Interpreter {
public:
    Interpreter(const Template &program, Heap &heap, std::string date);
    Interpreter(const Interpreter &) = delete;
    Interpreter &operator=(const Interpreter &) = delete;

    /// Whether the template speaks of a variable of that name, so that others need not be made.
    [[nodiscard]] bool uses(std::string_view name) const { return symbolOf(name) >= 0; }
    void define(std::string_view name, Value value);
    /// \throws Fault; line() then tells where
    [[nodiscard]] std::string run();
    [[nodiscard]] int line() const { return m_line; }

    [[nodiscard]] Heap &heap() { return m_heap; }
    [[nodiscard]] Budget &budget() { return m_heap.budget(); }
    [[nodiscard]] const std::string &date() const { return m_date; }

    /// value.name and value[key] as Jinja's sandbox resolves them; undefined when there is neither.
    [[nodiscard]] Value attribute(const Value &value, std::string_view name);
    [[nodiscard]] Value subscript(const Value &value, const Value &key);
    [[nodiscard]] Value call(const Value &callee, Arguments &arguments);
    [[nodiscard]] Value filter(std::string_view name, const Value &input, Arguments &arguments);
    [[nodiscard]] bool test(std::string_view name, const Value &input, Arguments &arguments);
    [[nodiscard]] bool hasBlock(std::string_view name) const;
    /// A block of the template rendered for self.name(). \pre hasBlock(name)
    [[nodiscard]] Value block(std::string_view name);

private:
    enum class Flow { Normal, Break, Continue };
    /// Collects what is printed while it lives.
    class Capture {
    public:
        explicit Capture(Interpreter &owner);
        ~Capture() { m_owner.m_out = m_outer; }
        Capture(const Capture &) = delete;
        Capture &operator=(const Capture &) = delete;
        [[nodiscard]] Value take();

    private:
        Interpreter &m_owner;
        Text *m_outer;
        Text m_text;
    };
    /// Puts a scope in front for as long as it lives.
    class Enter {
    public:
        Enter(Interpreter &owner, Ref<ScopeObject> scope)
            : m_owner(owner)
            , m_outer(std::move(owner.m_scope))
        {
            owner.m_scope = std::move(scope);
        }
        ~Enter() { m_owner.m_scope = std::move(m_outer); }
        Enter(const Enter &) = delete;
        Enter &operator=(const Enter &) = delete;

    private:
        Interpreter &m_owner;
        Ref<ScopeObject> m_outer;
    };

    [[nodiscard]] int symbolOf(std::string_view name) const;
    void defineBuiltins();
    /// A scope in which the symbols `unset` are undefined, whatever stands further out.
    [[nodiscard]] Ref<ScopeObject> newScope(const Ref<ScopeObject> &parent, const std::vector<int> &unset);
    [[nodiscard]] Value undefinedName(int symbol);

    // Statements
    Flow run(const Body &body);
    Flow run(const Statement &statement);
    void write(std::string_view text);
    void print(const Value &value);
    Flow runIf(const Statement &statement);
    Flow runFor(const Statement &statement);
    [[nodiscard]] bool runLoop(const Statement &statement, const Ref<ScopeObject> &outer, const Value &source,
                               int depth);
    [[nodiscard]] Items loopItems(const Statement &statement, const Ref<ScopeObject> &outer, const Value &source);
    void runSet(const Statement &statement);
    void runSetBlock(const Statement &statement);
    void runCallBlock(const Statement &statement);
    void runFilterBlock(const Statement &statement);
    void runWith(const Statement &statement);
    void runScope(const Statement &statement);
    Flow runAutoescape(const Statement &statement);
    [[nodiscard]] Value capture(const Body &body, const std::vector<int> &unset);
    [[nodiscard]] Ref<ScopeObject> blockScope(const Statement &block);
    void printText(const Value &value);
    void assign(const Expr &target, Value value);
    void assignMember(const Expr &target, Value value);
    void unpack(const Expr &target, const Value &value);

    // Calls
    [[nodiscard]] Value callMacro(const MacroObject &macro, Arguments &arguments);
    void bindParameters(const MacroNode &node, ScopeObject &scope, Arguments &arguments);
    void bindExtras(const MacroNode &node, ScopeObject &scope, Arguments &arguments, bool callerBound);
    [[nodiscard]] Value callLoop(const Ref<LoopObject> &loop, Arguments &arguments);
    [[nodiscard]] Arguments evaluate(const CallArguments &call);

    // Expressions
    [[nodiscard]] Value evaluate(const Expr &expr);
    [[nodiscard]] Value evaluateCompound(const Expr &expr);
    [[nodiscard]] Value constant(int number);
    [[nodiscard]] Value variable(const Expr &name);
    [[nodiscard]] std::vector<Value> evaluate(const std::vector<ExprPtr> &items);
    [[nodiscard]] Value dictionary(const Expr &expr);
    [[nodiscard]] Value sliced(const Expr &expr);
    [[nodiscard]] Value chain(const Expr &expr);
    [[nodiscard]] Value logical(const Expr &expr);
    [[nodiscard]] bool compare(const Expr &expr);
    [[nodiscard]] bool compare(Comparison sign, const Value &a, const Value &b);
    [[nodiscard]] Value concatenated(const Expr &expr);
    [[nodiscard]] Value conditional(const Expr &expr);
    [[nodiscard]] Value filtered(const Expr &expr, const Value *input);

    const Template &m_program;
    Heap &m_heap;
    std::string m_date;
    std::vector<Value> m_base;      ///< by symbol: the context, then the global functions
    std::vector<Value> m_constants; ///< made when first used; parallel to the program's
    Ref<ScopeObject> m_root;
    Ref<ScopeObject> m_scope;
    Text *m_out = nullptr;
    Text *m_final = nullptr; ///< the render's own output, which has a limit of its own
    bool m_escape = false;
    int m_line = 1;
};

} // namespace engine::jinja
