// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/result_json.h"

namespace cli {
namespace {

Json logprobJson(const engine::TokenLogprob &token)
{
    return Json{{"id", token.id}, {"token", token.piece}, {"logprob", token.logprob}};
}

} // namespace

Json resultJson(const RequestResult &result)
{
    const engine::Usage &usage = result.finished.usage;
    const engine::Timings &t = result.finished.timings;
    Json json{{"text", result.text},
              {"ids", result.ids},
              {"finish_reason", engine::toString(result.finished.reason)},
              {"usage",
               {{"prompt_tokens", usage.promptTokens},
                {"completion_tokens", usage.completionTokens},
                {"cached_tokens", usage.cachedTokens}}},
              {"timings",
               {{"queue_ms", t.queueMs},
                {"ttft_ms", t.ttftMs},
                {"tpot_ms", t.tpotMs},
                {"e2e_ms", t.e2eMs},
                {"prompt_tokens_per_second", t.promptTokensPerSecond},
                {"tokens_per_second", t.tokensPerSecond}}},
              {"logprobs", Json::array()}};
    for (const engine::SampledToken &sampled : result.logprobs) {
        Json entry = logprobJson(sampled.token);
        entry["top"] = Json::array();
        for (const engine::TokenLogprob &token : sampled.top)
            entry["top"].push_back(logprobJson(token));
        json["logprobs"].push_back(std::move(entry));
    }
    return json;
}

Json toolCallsJson(const std::vector<engine::ToolCall> &calls)
{
    Json json = Json::array();
    for (const engine::ToolCall &call : calls)
        json.push_back({{"name", call.name}, {"arguments", call.arguments}});
    return json;
}

Json answerJson(const RequestResult &result)
{
    Json json = resultJson(result);
    json["reasoning"] = result.reasoning;
    json["tool_calls"] = toolCallsJson(result.toolCalls);
    return json;
}

void throwIfFailed(const RequestResult &result)
{
    if (result.finished.reason == engine::FinishReason::Failed)
        throw engine::Error(result.finished.code, result.finished.error);
}

} // namespace cli
