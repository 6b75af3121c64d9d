// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/token_decoder.h"

#include "engine/api/error.h"
#include "engine/text/bpe.h"
#include "engine/text/byte_fallback.h"
#include "engine/text/utf8.h"

#include <algorithm>
#include <array>
#include <utility>

namespace engine {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

std::string withReplaced(std::string_view piece, std::string_view wanted, std::string_view content)
{
    std::string out;
    std::size_t done = 0;
    if (wanted.empty()) { // stands between all characters
        for (; done < piece.size(); done += static_cast<std::size_t>(utf8::decode(piece, done).bytes))
            out.append(content).append(piece.substr(done, static_cast<std::size_t>(utf8::decode(piece, done).bytes)));
        return out.append(content);
    }
    for (std::size_t found = piece.find(wanted); found != std::string_view::npos; found = piece.find(wanted, done)) {
        out.append(piece.substr(done, found - done)).append(content);
        done = found + wanted.size();
    }
    return out.append(piece.substr(done));
}

/// Without the spaces that words set apart have before punctuation. Source: huggingface/tokenizers,
/// decoders/wordpiece.
std::string cleanedUp(std::string piece)
{
    constexpr std::array<std::pair<std::string_view, std::string_view>, 11> rules{{{" .", "."},
                                                                                   {" ?", "?"},
                                                                                   {" !", "!"},
                                                                                   {" ,", ","},
                                                                                   {" ' ", "'"},
                                                                                   {" n't", "n't"},
                                                                                   {" 'm", "'m"},
                                                                                   {" do not", " don't"},
                                                                                   {" 's", "'s"},
                                                                                   {" 've", "'ve"},
                                                                                   {" 're", "'re"}}};
    for (const auto &[wanted, content] : rules)
        piece = withReplaced(piece, wanted, content);
    return piece;
}

} // namespace

/// Steps that need all of a joined text make the text wait for its end.
template<typename Added> void TokenDecoder::addStep(Added step)
{
    if (m_fused)
        waitForAll();
    m_steps.emplace_back(std::move(step));
}

void TokenDecoder::join()
{
    m_fuseStep = m_fused ? m_fuseStep : m_steps.size() - 1;
    m_fused = true;
}

void TokenDecoder::waitForAll()
{
    m_waitsForAll = true;
    for (Step &step : m_steps) {
        if (auto *strip = std::get_if<Strip>(&step))
            strip->whole = false;
        else if (auto *metaspace = std::get_if<Metaspace>(&step))
            metaspace->whole = false;
    }
}

void TokenDecoder::addByteLevel()
{
    addStep(ByteLevel{});
    join();
}

void TokenDecoder::addReplace(std::string text, std::string content)
{
    CHECK(!text.empty());
    addStep(Replace{std::move(text), nullptr, std::move(content)});
}

void TokenDecoder::addReplace(Regex pattern, std::string content)
{
    addStep(Replace{{}, std::make_shared<const Regex>(std::move(pattern)), std::move(content)});
}

void TokenDecoder::addBytes()
{
    m_steps.emplace_back(Bytes{});
}

void TokenDecoder::addByteFallback()
{
    addStep(ByteFallback{});
}

void TokenDecoder::addFuse()
{
    m_steps.emplace_back(Fuse{});
    join();
}

void TokenDecoder::addStrip(char32_t content, std::size_t start, std::size_t stop)
{
    Strip step{{}, start, stop, m_fused && !m_waitsForAll};
    utf8::append(step.content, content);
    m_steps.emplace_back(std::move(step));
}

void TokenDecoder::addMetaspace(std::string mark, bool dropsFirst)
{
    m_steps.emplace_back(Metaspace{std::move(mark), dropsFirst, m_fused && !m_waitsForAll});
}

void TokenDecoder::addWordPiece(std::string continuation, bool cleansUp)
{
    addStep(WordPiece{std::move(continuation), cleansUp});
}

void TokenDecoder::addWordEnd(std::string mark)
{
    addStep(WordEnd{std::move(mark)});
}

void TokenDecoder::addCtc(std::string pad, std::string wordEnd, bool cleansUp)
{
    addStep(Ctc{std::move(pad), std::move(wordEnd), cleansUp});
}

void TokenDecoder::addSpaces()
{
    addStep(Spaces{});
}

std::string TokenDecoder::changed(const Replace &step, std::string piece)
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

std::string TokenDecoder::changed(const Strip &step, std::string piece)
{
    std::string_view rest = piece;
    for (std::size_t i = 0; i < step.start && rest.starts_with(step.content); ++i)
        rest.remove_prefix(step.content.size());
    for (std::size_t i = 0; i < step.stop && rest.ends_with(step.content); ++i)
        rest.remove_suffix(step.content.size());
    return std::string(rest);
}

std::string TokenDecoder::changed(const WordPiece &step, std::string piece, bool first)
{
    if (!first && piece.starts_with(step.continuation))
        piece.erase(0, step.continuation.size());
    else if (!first)
        piece.insert(0, 1, ' ');
    return step.cleansUp ? cleanedUp(std::move(piece)) : piece;
}

std::string TokenDecoder::changed(const Ctc &step, std::string piece)
{
    piece = withReplaced(piece, step.pad, "");
    return step.cleansUp ? withReplaced(cleanedUp(std::move(piece)), step.wordEnd, " ") : piece;
}

bool TokenDecoder::isPlaceless() const
{
    return std::all_of(m_steps.begin(), m_steps.end(),
                       [&](const Step &step) {
                           const auto *strip = std::get_if<Strip>(&step);
                           return std::holds_alternative<ByteLevel>(step) || std::holds_alternative<Bytes>(step)
                               || std::holds_alternative<Fuse>(step) || std::holds_alternative<Replace>(step)
                               || (strip != nullptr && !strip->whole);
                       })
        && !m_waitsForAll;
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
            piece = changed(*replace, std::move(piece));
        } else if (const auto *metaspace = std::get_if<Metaspace>(&step)) {
            piece = withReplaced(piece, metaspace->mark, " ");
        } else if (const auto *strip = std::get_if<Strip>(&step); strip != nullptr && !strip->whole) {
            piece = changed(*strip, std::move(piece));
        } else if (const auto *wordPiece = std::get_if<WordPiece>(&step)) {
            piece = changed(*wordPiece, std::move(piece), false);
        } else if (const auto *wordEnd = std::get_if<WordEnd>(&step)) {
            piece = withReplaced(piece, wordEnd->mark, " ");
        } else if (const auto *ctc = std::get_if<Ctc>(&step)) {
            piece = changed(*ctc, std::move(piece));
        } else if (std::holds_alternative<Spaces>(step)) {
            piece.insert(0, 1, ' ');
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
        std::string &held = m_states[step].held;
        if (std::holds_alternative<ByteFallback>(what)) {
            endRun(step, out);
        } else if (m_decoder.m_waitsForAll && step == m_decoder.m_fuseStep) {
            push(step + 1, std::holds_alternative<ByteLevel>(what) ? utf8::repaired(held) : std::move(held), out);
        } else if (const auto *wordEnd = std::get_if<WordEnd>(&what); wordEnd != nullptr && m_states[step].pieces > 0) {
            push(step + 1, withReplaced(held, wordEnd->mark, ""), out);
        } else if (const auto *strip = std::get_if<Strip>(&what); strip != nullptr && strip->whole) {
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
        std::optional<std::string> next = through(step, std::move(piece), out);
        if (!next)
            return;
        piece = std::move(*next);
    }
    out += piece;
}

std::optional<std::string> TokenDecoder::Stream::through(std::size_t step, std::string piece, std::string &out)
{
    State &state = m_states[step];
    const Step &what = m_decoder.m_steps[step];
    const bool first = state.pieces++ == 0;
    if (std::holds_alternative<ByteLevel>(what))
        piece = byte_level::unspell(piece);
    if (m_decoder.m_waitsForAll && step == m_decoder.m_fuseStep) {
        state.held += piece;
        return std::nullopt;
    }
    if (const auto *replace = std::get_if<Replace>(&what))
        return changed(*replace, std::move(piece));
    if (const auto *wordPiece = std::get_if<WordPiece>(&what))
        return changed(*wordPiece, std::move(piece), first);
    if (const auto *metaspace = std::get_if<Metaspace>(&what))
        return withReplaced(piece, metaspace->mark, metaspace->dropsFirst && (metaspace->whole || first) ? "" : " ");
    if (const auto *ctc = std::get_if<Ctc>(&what))
        return behind(*ctc, state, std::move(piece));
    if (std::holds_alternative<Spaces>(what))
        return first ? piece : ' ' + piece;
    if (const auto *wordEnd = std::get_if<WordEnd>(&what)) {
        const std::string before = std::exchange(state.held, std::move(piece));
        return first ? std::nullopt : std::optional(withReplaced(before, wordEnd->mark, " "));
    }
    if (const auto *strip = std::get_if<Strip>(&what))
        return strip->whole ? this->strip(*strip, state, std::move(piece)) : changed(*strip, std::move(piece));
    const std::optional<char> byte = byte_fallback::byteOf(piece);
    if (std::holds_alternative<Bytes>(what) && byte)
        return std::string(1, *byte);
    if (std::holds_alternative<ByteFallback>(what)) {
        if (byte) {
            state.held.push_back(*byte);
            return std::nullopt;
        }
        endRun(step, out);
    }
    return piece;
}

/// A piece like the one before it vanishes, as one of which nothing is left does.
std::optional<std::string> TokenDecoder::Stream::behind(const Ctc &step, State &state, std::string piece) const
{
    if (std::exchange(state.inside, true) && state.held == piece)
        return std::nullopt;
    state.held = piece;
    std::string text = changed(step, std::move(piece));
    return text.empty() ? std::nullopt : std::optional(std::move(text));
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
