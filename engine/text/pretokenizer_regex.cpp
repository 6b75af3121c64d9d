// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/pretokenizer_regex.h"

#include "engine/api/error.h"
#include "engine/text/pattern_translator.h"
#include "engine/text/unicode_newer.h"
#include "engine/text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <ctime>

namespace engine {
namespace {

constexpr std::size_t longestPattern = 16384; // bytes; the longest pattern in use has 2 KB
constexpr std::size_t longestTranslated = 1U << 20U;
constexpr std::uint32_t deepestNesting = 100; // of parentheses
constexpr std::uint32_t matchSteps = 1'000'000;
constexpr std::uint32_t heapKiB = 32 * 1024;
constexpr std::size_t jitStackBytes = 1U << 20U;
// A limit per search does not bound a text's many searches. Sound patterns run at 50 MB/s and more.
constexpr double baseSeconds = 0.5;
constexpr double slowestBytesPerSecond = 250e3;

struct Freed {
    void operator()(pcre2_code *p) const { pcre2_code_free(p); }
    void operator()(pcre2_compile_context *p) const { pcre2_compile_context_free(p); }
    void operator()(pcre2_match_context *p) const { pcre2_match_context_free(p); }
    void operator()(pcre2_match_data *p) const { pcre2_match_data_free(p); }
    void operator()(pcre2_jit_stack *p) const { pcre2_jit_stack_free(p); }
};
template<typename T> using Owned = std::unique_ptr<T, Freed>;

std::string errorText(int code)
{
    std::array<PCRE2_UCHAR, 160> text{};
    pcre2_get_error_message(code, text.data(), text.size());
    return reinterpret_cast<const char *>(text.data());
}

/// Processor time, so that a busy or sleeping machine cannot change what is found.
double threadSeconds()
{
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Owned<pcre2_code> compile(std::string_view pattern, bool literal, bool newer)
{
    const Owned<pcre2_compile_context> context(pcre2_compile_context_create(nullptr));
    pcre2_set_parens_nest_limit(context.get(), deepestNesting);
    pcre2_set_max_pattern_length(context.get(), longestTranslated);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    const std::string text = literal ? std::string(pattern) : pcrePattern(pattern, newer);
    const std::uint32_t options = PCRE2_UTF | (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE);
    int fault = 0;
    PCRE2_SIZE offset = 0;
    Owned<pcre2_code> code(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), options, &fault, &offset, context.get()));
    if (!code)
        throw Error(ErrorCode::Refused,
                    "pre-tokenizer: pattern " + utf8::quoted(pattern) + " was refused at offset "
                        + std::to_string(offset) + ": " + errorText(fault));
    return code;
}

} // namespace

struct RegexScratch::State {
    Owned<pcre2_match_data> data{pcre2_match_data_create(1, nullptr)};
    Owned<pcre2_match_context> limits{pcre2_match_context_create(nullptr)};
    bool newer = false;
    std::uint64_t searches = 0;
    double allowed = 0;           ///< seconds of this thread's processor time at which searching stops
    Owned<pcre2_jit_stack> stack; ///< made when the machine stack's 32 KiB did not do
};

RegexScratch::RegexScratch()
    : m_state(std::make_unique<State>())
{
    if (!m_state->data || !m_state->limits)
        throw Error(ErrorCode::OutOfMemory, "pre-tokenizer: no memory for matching");
    pcre2_set_match_limit(m_state->limits.get(), matchSteps);
    pcre2_set_heap_limit(m_state->limits.get(), heapKiB);
}

RegexScratch::~RegexScratch() = default;

void RegexScratch::prepare(std::string_view text)
{
    if (m_state->allowed == 0)
        m_state->allowed = threadSeconds() + baseSeconds;
    m_state->allowed += static_cast<double>(text.size()) / slowestBytesPerSecond;
    m_state->newer = unicode_newer::occursIn(text);
}

struct Regex::Code {
    struct Program {
        Owned<pcre2_code> code;
        bool jit = false;
    };
    Program usual;
    Program newer; ///< for texts with characters that PCRE2 may not know; slower, and without code where equal
};

namespace {

/// Adds machine code where that can be made.
bool compileJit(const Owned<pcre2_code> &code)
{
    return pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) == 0;
}

} // namespace

Regex::Regex(std::string_view pattern, bool literal)
    : m_code(std::make_unique<Code>())
{
    if (pattern.size() > longestPattern)
        throw Error(ErrorCode::Refused,
                    "pre-tokenizer: a pattern of " + std::to_string(pattern.size()) + " bytes is too long, at most "
                        + std::to_string(longestPattern) + " are read: " + utf8::quoted(pattern));
    m_code->usual.code = compile(pattern, literal, false);
    m_code->usual.jit = compileJit(m_code->usual.code);
    if (literal || pcrePattern(pattern, true) == pcrePattern(pattern, false))
        return;
    m_code->newer.code = compile(pattern, literal, true);
    m_code->newer.jit = compileJit(m_code->newer.code);
}

Regex::~Regex() = default;
Regex::Regex(Regex &&) noexcept = default;
Regex &Regex::operator=(Regex &&) noexcept = default;

std::optional<Regex::Match> Regex::find(std::string_view text, std::size_t from, RegexScratch &scratch) const
{
    RegexScratch::State &state = *scratch.m_state;
    const auto *subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const Code::Program &program = state.newer && m_code->newer.code ? m_code->newer : m_code->usual;
    const auto run = [&] {
        const auto match = program.jit ? pcre2_jit_match : pcre2_match;
        return match(program.code.get(), subject, text.size(), from, program.jit ? 0 : PCRE2_NO_UTF_CHECK,
                     state.data.get(), state.limits.get());
    };
    if (++state.searches % 16 == 0 && threadSeconds() > state.allowed)
        return std::nullopt;
    int result = run();
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !state.stack) {
        state.stack.reset(pcre2_jit_stack_create(32U << 10U, jitStackBytes, nullptr));
        pcre2_jit_stack_assign(state.limits.get(), nullptr, state.stack.get());
        result = run();
    }
    if (result < 0)
        return std::nullopt;
    const PCRE2_SIZE *range = pcre2_get_ovector_pointer(state.data.get());
    return Match{range[0], range[1]};
}

} // namespace engine
