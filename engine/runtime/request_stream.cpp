// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/request_stream.h"

#include <algorithm>
#include <utility>

namespace engine {

RequestStream::RequestStream(const Tokenizer &tokenizer, SamplingParams sampling, std::uint64_t seed)
    : m_tokenizer(tokenizer)
    , m_detokenizer(tokenizer, true)
    , m_sampling(std::move(sampling))
    , m_seed(seed)
    , m_matcher(m_sampling.stop)
{
}

void RequestStream::setSampling(SamplingParams sampling)
{
    m_unending.clear();
    if (!sampling.seed)
        sampling.seed = m_sampling.seed;
    if (sampling.stop != m_sampling.stop) {
        const std::string held = m_matcher.flush();
        m_matcher = StopMatcher(sampling.stop);
        m_replayed += m_matcher.append(held);
    }
    m_sampling = std::move(sampling);
}

bool RequestStream::isKnown(int token) const
{
    return token >= 0 && token < m_tokenizer.vocabSize();
}

bool RequestStream::isEnd(int token) const
{
    if (std::ranges::find(m_sampling.stopIds, token) != m_sampling.stopIds.end())
        return true;
    return !m_sampling.ignoreEos && isKnown(token) && m_tokenizer.isEndOfGeneration(token);
}

std::span<const std::uint64_t> RequestStream::unending(std::size_t vocab)
{
    constexpr std::size_t wordBits = 64;
    if (m_unending.size() * wordBits < vocab) {
        m_unending.assign((vocab + wordBits - 1) / wordBits, 0);
        for (std::size_t token = 0; token < vocab; ++token)
            if (!isEnd(static_cast<int>(token)))
                m_unending[token / wordBits] |= std::uint64_t{1} << token % wordBits;
    }
    return m_unending;
}

void RequestStream::add(std::string_view text, OutputDelta &out)
{
    if (m_parser && !text.empty())
        m_parser->text(text, out);
    else
        out.content += text;
}

void RequestStream::setChoices(std::shared_ptr<ChoiceGroup> choices)
{
    ++choices->asked;
    ++choices->open;
    m_choices = std::move(choices);
}

void RequestStream::setCallGrammar(int marker, std::shared_ptr<GrammarStates> calls)
{
    m_callMarker = marker;
    m_calls = std::move(calls);
}

void RequestStream::followGrammar(int token)
{
    if (m_grammar)
        m_grammar->accept(token);
    if (m_grammar && m_calls && m_grammar->isComplete())
        m_grammar.reset(); // the call is whole; its closing marker and what follows are free
    else if (!m_grammar && m_calls && token == m_callMarker)
        m_grammar = std::make_unique<GrammarMatcher>(m_calls);
}

OutputDelta RequestStream::append(int token, bool isEnd)
{
    OutputDelta out;
    if (!isEnd)
        followGrammar(token);
    if (!isEnd && m_parser && m_parser->isMarker(token)) {
        // Characters and stop strings do not go on across a marker.
        add(heldText(), out);
        if (!stopped())
            m_parser->marker(token, out);
        return out;
    }
    std::string text = std::exchange(m_replayed, {});
    if (!isEnd && isKnown(token))
        text += m_matcher.append(m_detokenizer.append(token));
    add(text, out);
    return out;
}

std::string RequestStream::heldText()
{
    std::string text = std::exchange(m_replayed, {});
    text += m_matcher.append(m_detokenizer.flush());
    text += m_matcher.flush();
    return text;
}

OutputDelta RequestStream::flush()
{
    OutputDelta out;
    add(heldText(), out);
    if (m_parser)
        m_parser->finish(out);
    return out;
}

} // namespace engine
