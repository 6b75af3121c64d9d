// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/jinja_budget.h"

#include <algorithm>
#include <limits>

namespace engine::jinja {
namespace {

// Levels of evaluation per level of calls: a macro's body nests blocks and expressions.
constexpr int kLevelsPerCall = 10;

} // namespace

void fail(const std::string &message)
{
    throw Fault(message);
}

Budget::Budget(const TemplateLimits &limits)
    : m_limits(limits)
    , m_steps(static_cast<std::size_t>(std::max(0L, limits.steps)))
    , m_memory(limits.memoryBytes - limits.memoryBytes / 4)
    , m_output(limits.outputBytes)
    , m_maxLevels(limits.depth * kLevelsPerCall)
    , m_maxCalls(limits.depth)
{
}

void Budget::failSteps() const
{
    fail("the limit of " + std::to_string(m_limits.steps) + " steps is exceeded");
}

void Budget::failMemory(std::size_t bytes) const
{
    fail("the memory limit of " + std::to_string(m_limits.memoryBytes) + " bytes is exceeded by "
         + std::to_string(bytes) + " more");
}

void Budget::failOutput() const
{
    fail("the output is longer than the limit of " + std::to_string(m_limits.outputBytes) + " bytes");
}

// The counter is put back first: a Level whose constructor throws has no destructor call.
void Budget::failLevels()
{
    --m_levels;
    fail("nested deeper than the limit of " + std::to_string(m_maxLevels) + " levels");
}

void Budget::failCalls()
{
    --m_calls;
    fail("calls nested deeper than the limit of " + std::to_string(m_maxCalls) + " levels");
}

void Text::room(std::size_t more)
{
    m_budget->steps(1 + more / kBytesPerStep);
    const std::size_t wanted = m_text.size() + more;
    if (wanted <= m_charged)
        return;
    // Old and new buffer live together while the text moves, and are charged together.
    const std::size_t capacity = std::max(wanted, m_charged * 2);
    m_budget->take(capacity);
    m_text.reserve(capacity);
    m_budget->giveBack(m_charged);
    m_charged = capacity;
}

void Text::repeat(std::string_view piece, std::size_t count)
{
    if (piece.empty() || count == 0)
        return;
    if (count > std::numeric_limits<std::size_t>::max() / 2 / piece.size())
        m_budget->take(std::numeric_limits<std::size_t>::max());
    room(piece.size() * count);
    for (std::size_t i = 0; i < count; ++i)
        m_text.append(piece);
}

std::string Text::release()
{
    m_budget->giveBack(m_charged);
    m_charged = 0;
    return std::move(m_text);
}

} // namespace engine::jinja
