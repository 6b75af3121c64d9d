// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/token_decoder.h"

#include "engine/api/error.h"
#include "engine/text/bpe.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <utility>

namespace engine {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

std::string withReplaced(std::string_view piece, std::string_view wanted, std::string_view content)
{
    std::string out;
    std::size_t done = 0;
    for (std::size_t found = piece.find(wanted); found != std::string_view::npos; found = piece.find(wanted, done)) {
        out.append(piece.substr(done, found - done)).append(content);
        done = found + wanted.size();
    }
    return out.append(piece.substr(done));
}

} // namespace

void TokenDecoder::addByteLevel()
{
    m_steps.emplace_back(ByteLevel{});
    m_fuseStep = m_fused ? m_fuseStep : m_steps.size() - 1;
    m_fused = true;
}

void TokenDecoder::addReplace(std::string text, std::string content)
{
    CHECK(!m_fused && !text.empty());
    m_steps.emplace_back(Replace{std::move(text), nullptr, std::move(content)});
}

void TokenDecoder::addReplace(Regex pattern, std::string content)
{
    CHECK(!m_fused);
    m_steps.emplace_back(Replace{{}, std::make_shared<const Regex>(std::move(pattern)), std::move(content)});
}

void TokenDecoder::addBytes()
{
    m_steps.emplace_back(Bytes{});
}

void TokenDecoder::addByteFallback()
{
    CHECK(!m_fused);
    m_steps.emplace_back(ByteFallback{});
}

void TokenDecoder::addFuse()
{
    m_steps.emplace_back(Fuse{});
    m_fuseStep = m_fused ? m_fuseStep : m_steps.size() - 1;
    m_fused = true;
}

void TokenDecoder::addStrip(char32_t content, std::size_t start, std::size_t stop)
{
    Strip step{{}, start, stop, m_fused};
    utf8::append(step.content, content);
    m_steps.emplace_back(std::move(step));
}

void TokenDecoder::addMetaspace(std::string mark, bool dropsFirst)
{
    m_steps.emplace_back(Metaspace{std::move(mark), dropsFirst, m_fused});
}

std::string TokenDecoder::replaced(const Replace &step, std::string piece)
{
    if (!step.pattern)
        return withReplaced(piece, step.text, step.content);
    RegexScratch scratch;
    scratch.prepare(piece);
    std::string out;
    std::size_t done = 0;
    forEachMatch(*step.pattern, piece, scratch, [&](const Regex::Match &match) {
        out.append(piece, done, match.begin - done).append(step.content);
        done = match.end;
    });
    return out.append(piece, done);
}

std::string TokenDecoder::stripped(const Strip &step, std::string piece)
{
    std::string_view rest = piece;
    for (std::size_t i = 0; i < step.start && rest.starts_with(step.content); ++i)
        rest.remove_prefix(step.content.size());
    for (std::size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i)
        rest.remove_suffix(step.content.size());
    return std::string(rest);
}

bool TokenDecoder::isPlaceless() const
{
    return std::none_of(m_steps.begin(), m_steps.end(), [](const Step &step) {
        const auto *strip = std::get_if<Strip>(&step);
        return std::holds_alternative<ByteFallback>(step) || std::holds_alternative<Metaspace>(step)
            || (strip != nullptr && strip->whole);
    });
}

std::string TokenDecoder::bytes(std::string_view spelling) const
{
    std::string piece(spelling);
    for (const Step &step : m_steps) {
        if (std::holds_alternative<ByteLevel>(step))
            return byte_level::unspell(piece);
        if (std::holds_alternative<Bytes>(step) || std::holds_alternative<ByteFallback>(step)) {
            if (const std::optional<char> byte = byte_fallback::byteOf(piece))
                return {*byte};
        } else if (const auto *replace = std::get_if<Replace>(&step)) {
            piece = replaced(*replace, std::move(piece));
        } else if (const auto *metaspace = std::get_if<Metaspace>(&step)) {
            piece = withReplaced(piece, metaspace->mark, " ");
        } else if (const auto *strip = std::get_if<Strip>(&step); strip != nullptr && !strip->whole) {
            piece = stripped(*strip, std::move(piece));
        }
    }
    return piece;
}

TokenDecoder::Stream::Stream(const TokenDecoder &decoder)
    : m_decoder(decoder)
    , m_states(decoder.m_steps.size())
{
}

void TokenDecoder::Stream::append(std::string_view spelling, std::string &out)
{
    push(0, std::string(spelling), out);
}

void TokenDecoder::Stream::appendVerbatim(std::string_view text, std::string &out)
{
    const std::size_t behind = m_decoder.m_fused ? m_decoder.m_fuseStep + 1 : m_states.size();
    for (std::size_t step = 0; step < behind; ++step)
        endRun(step, out);
    push(behind, std::string(text), out);
}

void TokenDecoder::Stream::finish(std::string &out)
{
    for (std::size_t step = 0; step < m_states.size(); ++step) {
        const Step &what = m_decoder.m_steps[step];
        if (std::holds_alternative<ByteFallback>(what)) {
            endRun(step, out);
        } else if (const auto *strip = std::get_if<Strip>(&what)) {
            std::string &held = m_states[step].held;
            const std::size_t count = held.size() / strip->content.size();
            held.resize(count > strip->stop ? (count - strip->stop) * strip->content.size() : 0);
            push(step + 1, std::move(held), out);
        }
        m_states[step] = {};
    }
}

void TokenDecoder::Stream::push(std::size_t step, std::string piece, std::string &out)
{
    for (; step < m_states.size(); ++step) {
        State &state = m_states[step];
        const Step &what = m_decoder.m_steps[step];
        if (std::holds_alternative<ByteLevel>(what)) {
            piece = byte_level::unspell(piece);
        } else if (std::holds_alternative<Bytes>(what)) {
            if (const std::optional<char> byte = byte_fallback::byteOf(piece))
                piece.assign(1, *byte);
        } else if (std::holds_alternative<ByteFallback>(what)) {
            if (const std::optional<char> byte = byte_fallback::byteOf(piece)) {
                state.held.push_back(*byte);
                return;
            }
            endRun(step, out);
        } else if (const auto *replace = std::get_if<Replace>(&what)) {
            piece = replaced(*replace, std::move(piece));
        } else if (const auto *strip = std::get_if<Strip>(&what)) {
            piece = strip->whole ? this->strip(*strip, state, std::move(piece)) : stripped(*strip, std::move(piece));
        } else if (const auto *metaspace = std::get_if<Metaspace>(&what)) {
            const bool first = metaspace->dropsFirst && (metaspace->whole || state.taken == 0);
            piece = withReplaced(piece, metaspace->mark, first ? "" : " ");
            ++state.taken;
        }
    }
    out += piece;
}

/// Ends a run of bytes: one piece when they are UTF-8, else a replacement character for each.
void TokenDecoder::Stream::endRun(std::size_t step, std::string &out)
{
    const std::string run = std::exchange(m_states[step].held, {});
    if (run.empty())
        return;
    if (utf8::isValid(run)) {
        push(step + 1, run, out);
        return;
    }
    for (std::size_t i = 0; i < run.size(); ++i)
        push(step + 1, std::string(replacement), out);
}

/// A part of the one piece that a Fuse made: characters that may turn out to be its end are held back.
std::string TokenDecoder::Stream::strip(const Strip &step, State &state, std::string piece) const
{
    std::string_view rest = piece;
    while (!state.inside && state.taken < step.start && rest.starts_with(step.content)) {
        rest.remove_prefix(step.content.size());
        ++state.taken;
    }
    if (rest.empty())
        return {};
    state.inside = true;
    std::string all = std::exchange(state.held, {});
    all += rest;
    std::size_t end = all.size();
    if (step.stop > 0) {
        while (std::string_view(all).substr(0, end).ends_with(step.content))
            end -= step.content.size();
    }
    state.held = all.substr(end);
    all.resize(end);
    return all;
}

} // namespace engine
