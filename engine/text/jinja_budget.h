// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/text/chat_template.h"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace engine::jinja {

/// A fault of a template or of what it was given. ChatTemplate turns it into an Error and adds the line.
class Fault : public std::runtime_error {
public:
    explicit Fault(const std::string &message, bool verbatim = false)
        : std::runtime_error(message)
        , m_verbatim(verbatim)
    {
    }
    /// The text is the template's own (raise_exception) and is shown as it stands.
    [[nodiscard]] bool verbatim() const { return m_verbatim; }

private:
    bool m_verbatim;
};

[[noreturn]] void fail(const std::string &message);

/// Steps of one statement or expression. With 50 million steps a render evaluates about three million nodes, which
/// takes well under a second even under sanitizers.
inline constexpr std::size_t kNodeSteps = 16;
/// A copied byte costs far less than an evaluated node, but it must cost something.
inline constexpr std::size_t kBytesPerStep = 16;

/// What one render may still use. Steps count work of any kind: nodes evaluated, bytes copied, elements visited.
///
/// Three quarters of TemplateLimits::memoryBytes are for values and text; the rest stays for the parse tree and for
/// what the allocator adds. Everything whose size comes from a template is charged here before it is made.
class Budget {
public:
    explicit Budget(const TemplateLimits &limits);

    void steps(std::size_t count)
    {
        if (count > m_steps)
            failSteps();
        m_steps -= count;
    }
    void take(std::size_t bytes)
    {
        if (bytes > m_memory)
            failMemory(bytes);
        m_memory -= bytes;
    }
    void giveBack(std::size_t bytes) noexcept { m_memory += bytes; }
    void output(std::size_t bytes)
    {
        if (bytes > m_output)
            failOutput();
        m_output -= bytes;
    }

    /// One level of evaluation or of a value's nesting, for as long as it lives.
    class Level {
    public:
        explicit Level(Budget &budget)
            : m_budget(budget)
        {
            if (++m_budget.m_levels > m_budget.m_maxLevels)
                m_budget.failLevels();
        }
        ~Level() { --m_budget.m_levels; }
        Level(const Level &) = delete;
        Level &operator=(const Level &) = delete;

    private:
        Budget &m_budget;
    };

    /// One call of a macro or a recursive loop.
    class Call {
    public:
        explicit Call(Budget &budget)
            : m_budget(budget)
        {
            if (++m_budget.m_calls > m_budget.m_maxCalls)
                m_budget.failCalls();
        }
        ~Call() { --m_budget.m_calls; }
        Call(const Call &) = delete;
        Call &operator=(const Call &) = delete;

    private:
        Budget &m_budget;
    };

private:
    [[noreturn]] void failSteps() const;
    [[noreturn]] void failMemory(std::size_t bytes) const;
    [[noreturn]] void failOutput() const;
    [[noreturn]] void failLevels();
    [[noreturn]] void failCalls();

    TemplateLimits m_limits;
    std::size_t m_steps;
    std::size_t m_memory;
    std::size_t m_output;
    int m_levels = 0;
    int m_maxLevels;
    int m_calls = 0;
    int m_maxCalls;
};

/// Text that is being built; every byte is charged before it is allocated, and returned at the end.
class Text {
public:
    explicit Text(Budget &budget)
        : m_budget(&budget)
    {
    }
    ~Text() { m_budget->giveBack(m_charged); }
    Text(const Text &) = delete;
    Text &operator=(const Text &) = delete;

    void append(std::string_view piece)
    {
        room(piece.size());
        m_text.append(piece);
    }
    void append(char byte)
    {
        room(1);
        m_text.push_back(byte);
    }
    /// `count` times `piece`. The product may be of any size: it is charged first.
    void repeat(std::string_view piece, std::size_t count);
    [[nodiscard]] const std::string &text() const { return m_text; }
    [[nodiscard]] std::size_t size() const { return m_text.size(); }
    /// Hands the text over; from then on the new owner accounts for it.
    [[nodiscard]] std::string release();
    [[nodiscard]] Budget &budget() const { return *m_budget; }

private:
    void room(std::size_t more);

    Budget *m_budget;
    std::string m_text;
    std::size_t m_charged = 0;
};

} // namespace engine::jinja
