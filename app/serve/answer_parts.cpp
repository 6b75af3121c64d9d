// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/answer_parts.h"

#include <algorithm>

namespace serve {
namespace {

/// The text of one token; bytes that end inside a character become U+FFFD.
std::string tokenText(const engine::TokenLogprob &token, const engine::TextModel *text)
{
    if (!text || token.id < 0 || token.id >= text->vocabSize())
        return token.piece;
    return text->decode({token.id}, false);
}

Json bytesOf(const engine::TokenLogprob &token, const engine::TextModel *text)
{
    if (!text || token.id < 0 || token.id >= text->vocabSize())
        return nullptr;
    Json bytes = Json::array();
    for (const unsigned char byte : text->bytesOf(token.id))
        bytes.push_back(byte);
    return bytes;
}

/// -infinity has no spelling in JSON; OpenAI uses this number for a token that is out of the question.
double finite(double logprob)
{
    constexpr double lowest = -9999.0;
    return logprob >= lowest ? logprob : lowest;
}

Json entryOf(const engine::TokenLogprob &token, const engine::TextModel *text)
{
    return {{"token", tokenText(token, text)}, {"logprob", finite(token.logprob)}, {"bytes", bytesOf(token, text)}};
}

} // namespace

const char *finishWord(engine::FinishReason reason, bool calledTools)
{
    if (reason == engine::FinishReason::Length || reason == engine::FinishReason::ContextFull)
        return "length";
    return calledTools ? "tool_calls" : "stop";
}

UsageSum::UsageSum(std::size_t prompts, int n)
    : m_n(n)
    , m_prompts(prompts)
{
}

void UsageSum::add(std::size_t choice, const engine::Usage &usage)
{
    m_completionTokens += usage.completionTokens;
    engine::Usage &prompt = m_prompts[choice / static_cast<std::size_t>(m_n)];
    prompt.promptTokens = usage.promptTokens;
    if (choice % static_cast<std::size_t>(m_n) == 0)
        prompt.cachedTokens = usage.cachedTokens;
}

Json UsageSum::json() const
{
    int promptTokens = 0;
    int cachedTokens = 0;
    for (const engine::Usage &prompt : m_prompts) {
        promptTokens += prompt.promptTokens;
        cachedTokens += prompt.cachedTokens;
    }
    return {{"prompt_tokens", promptTokens},
            {"completion_tokens", m_completionTokens},
            {"total_tokens", promptTokens + m_completionTokens},
            {"prompt_tokens_details", {{"cached_tokens", cachedTokens}}}};
}

Json chatLogprobs(const std::vector<engine::SampledToken> &tokens, const engine::TextModel *text)
{
    Json content = Json::array();
    for (const engine::SampledToken &sampled : tokens) {
        Json entry = entryOf(sampled.token, text);
        entry["top_logprobs"] = Json::array();
        for (const engine::TokenLogprob &token : sampled.top)
            entry["top_logprobs"].push_back(entryOf(token, text));
        content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json completionLogprobs(const std::vector<engine::SampledToken> &tokens, const engine::TextModel *text,
                        std::size_t &offset)
{
    Json json{{"tokens", Json::array()},
              {"token_logprobs", Json::array()},
              {"top_logprobs", Json::array()},
              {"text_offset", Json::array()}};
    for (const engine::SampledToken &sampled : tokens) {
        const std::string spelling = tokenText(sampled.token, text);
        Json top = Json::object();
        for (const engine::TokenLogprob &token : sampled.top)
            top[tokenText(token, text)] = finite(token.logprob);
        json["tokens"].push_back(spelling);
        json["token_logprobs"].push_back(finite(sampled.token.logprob));
        json["top_logprobs"].push_back(std::move(top));
        json["text_offset"].push_back(offset);
        offset += spelling.size();
    }
    return json;
}

std::string callId(const std::string &answerId, std::size_t choice, int index)
{
    return "call_" + answerId.substr(answerId.find('-') + 1) + '_' + std::to_string(choice) + '_'
        + std::to_string(index);
}

} // namespace serve
