// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/request_stream.h"

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
    return isKnown(token) && m_tokenizer.isEndOfGeneration(token);
}

std::string RequestStream::append(int token, bool isEnd)
{
    std::string text = std::exchange(m_replayed, {});
    if (!isEnd && isKnown(token))
        text += m_matcher.append(m_detokenizer.append(token));
    return text;
}

std::string RequestStream::flush()
{
    std::string text = std::exchange(m_replayed, {});
    text += m_matcher.append(m_detokenizer.flush());
    text += m_matcher.flush();
    return text;
}

} // namespace engine
