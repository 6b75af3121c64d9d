// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/prompt_encoder.h"

#include "engine/api/parameters.h"
#include "engine/core/json.h"
#include "engine/runtime/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace engine {
namespace {

/// A message as chat templates know it.
Json messageJson(const ChatMessage &message)
{
    Json json{{"role", message.role}, {"content", message.content}};
    if (!message.reasoning.empty())
        json["reasoning_content"] = message.reasoning;
    if (!message.name.empty())
        json["name"] = message.name;
    if (!message.toolCallId.empty())
        json["tool_call_id"] = message.toolCallId;
    if (message.toolCalls.empty())
        return json;
    json["tool_calls"] = Json::array();
    for (const ToolCall &call : message.toolCalls) {
        Json arguments = call.arguments; // what is no JSON stays a text
        try {
            arguments = parseJson(call.arguments, "arguments");
        } catch (const Error &) {
        }
        json["tool_calls"].push_back(
            {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
        if (!call.id.empty())
            json["tool_calls"].back()["id"] = call.id;
    }
    return json;
}

} // namespace

PromptEncoder::PromptEncoder(const Tokenizer &tokenizer, const ChatTemplate *chatTemplate, int vocabSize,
                             int maxModelLen)
    : m_tokenizer(tokenizer)
    , m_template(chatTemplate)
    , m_vocabSize(vocabSize)
    , m_maxModelLen(maxModelLen)
{
    for (int id = 0; id < tokenizer.vocabSize(); ++id)
        m_longestToken = std::max(m_longestToken, tokenizer.bytes(id, false).size());
}

std::vector<int> PromptEncoder::encode(const Request &request) const
{
    std::vector<int> ids;
    if (request.prompt)
        ids = encodeText(*request.prompt, {true, request.parseSpecial});
    else if (request.ids)
        ids = *request.ids;
    else if (!request.messages.empty())
        ids = encodeText(render(request), {false, true});
    else
        throw Error(ErrorCode::Refused, "the request has neither prompt, ids nor messages, one of them is wanted");
    if (ids.empty())
        throw Error(ErrorCode::Refused, "the prompt is empty, wanted is at least 1 token");
    checkIds(ids);
    return ids;
}

std::vector<int> PromptEncoder::encodeText(const std::string &text, const EncodeOptions &options) const
{
    // A text that is too long by far is refused before the work of reading it. Normal forms can make a text
    // shorter, but never four times.
    constexpr std::size_t slack = 4;
    const std::size_t leastTokens = text.size() / (m_longestToken * slack);
    if (leastTokens >= static_cast<std::size_t>(m_maxModelLen))
        throw Error(ErrorCode::Refused,
                    "the prompt has " + std::to_string(text.size()) + " bytes, so at least "
                        + std::to_string(leastTokens) + " tokens, but the context holds "
                        + std::to_string(m_maxModelLen) + " (max-model-len) for prompt and output together");
    return m_tokenizer.encode(text, options);
}

void PromptEncoder::checkIds(const std::vector<int> &ids) const
{
    const auto bad = std::ranges::find_if(ids, [this](int id) { return id < 0 || id >= m_vocabSize; });
    if (bad != ids.end())
        throw Error(ErrorCode::Refused,
                    "the prompt's token " + std::to_string(bad - ids.begin()) + " is " + std::to_string(*bad)
                        + ", but the vocabulary has ids 0 to " + std::to_string(m_vocabSize - 1));
}

std::string PromptEncoder::render(const Request &request) const
{
    if (!m_template)
        throw Error(ErrorCode::Refused,
                    "the model has no chat template, so messages cannot be rendered; a plain prompt is wanted");
    TemplateInput input;
    input.messages = Json::array();
    for (const ChatMessage &message : request.messages)
        input.messages.push_back(messageJson(message));
    if (request.toolsJson)
        input.tools = parseJson(*request.toolsJson, "tools");
    if (request.templateKwargsJson)
        input.kwargs = parseJson(*request.templateKwargsJson, "chat_template_kwargs");
    input.specialTokens = Json::object();
    if (const auto bos = m_tokenizer.bos())
        input.specialTokens["bos_token"] = m_tokenizer.piece(*bos);
    if (const auto eos = m_tokenizer.eos())
        input.specialTokens["eos_token"] = m_tokenizer.piece(*eos);
    return m_template->renderChat(input);
}

std::string checkSampling(const SamplingParams &sampling)
{
    const std::pair<const char *, double> values[] = {
        {"temperature", sampling.temperature},
        {"top-k", sampling.topK},
        {"top-p", sampling.topP},
        {"min-p", sampling.minP},
        {"repetition-penalty", sampling.repetitionPenalty},
        {"presence-penalty", sampling.presencePenalty},
        {"frequency-penalty", sampling.frequencyPenalty},
        {"max-tokens", sampling.maxTokens},
    };
    for (const auto &[key, value] : values)
        if (std::string fault = checkParameter(*findParameter(key), value); !fault.empty())
            return fault;
    constexpr int maxLogprobs = 1000;
    if (sampling.logprobs < -1 || sampling.logprobs > maxLogprobs)
        return "logprobs: found " + std::to_string(sampling.logprobs) + ", wanted -1 to " + std::to_string(maxLogprobs);
    if (sampling.minTokens < 0 || (sampling.maxTokens > 0 && sampling.minTokens > sampling.maxTokens))
        return "min-tokens: found " + std::to_string(sampling.minTokens) + ", wanted 0 to max-tokens";
    if (sampling.minTokens > 0 && !sampling.stop.empty())
        return "min-tokens: found stop strings too, but those end an answer wherever they come";
    for (const int id : sampling.stopIds)
        if (id < 0)
            return "stop ids: found " + std::to_string(id) + ", wanted ids of tokens, from 0";
    return StopMatcher::check(sampling.stop);
}

} // namespace engine
