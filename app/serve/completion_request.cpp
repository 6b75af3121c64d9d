// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/completion_request.h"

#include "app/serve/api_error.h"
#include "app/serve/fields.h"
#include "app/serve/tools.h"
#include "engine/api/parameters.h"

#include <algorithm>
#include <charconv>
#include <limits>

namespace serve {
namespace {

constexpr int maxChoices = 128; // of all prompts together
constexpr int maxTopLogprobs = 20;
constexpr std::size_t maxStops = 16;
constexpr std::size_t maxStopBytes = 1024;
constexpr std::size_t maxBiases = 1024;
constexpr int completionTokens = 16; // OpenAI's default for plain completions

/// A knob within the range that its declaration gives it.
double knob(const Fields &fields, const char *field, const char *key, double fallback)
{
    const engine::ParameterSpec &spec = *engine::findParameter(key);
    return fields.number(field, spec.minimum, spec.maximum).value_or(fallback);
}

std::vector<std::string> readStops(const Fields &fields)
{
    const Json *value = fields.find("stop");
    if (!value)
        return {};
    const Json list = value->is_array() ? *value : Json::array({*value});
    if (list.size() > maxStops)
        fields.wrong("stop", std::to_string(list.size()) + " strings", "at most " + std::to_string(maxStops));
    std::vector<std::string> stops;
    for (const Json &one : list) {
        if (!one.is_string())
            fields.wrong("stop", std::string("a value of type ") + one.type_name(), "a string or a list of strings");
        stops.push_back(one.get<std::string>());
        if (stops.back().empty() || stops.back().size() > maxStopBytes)
            fields.wrong("stop", "a string of " + std::to_string(stops.back().size()) + " bytes",
                         "1 to " + std::to_string(maxStopBytes) + " bytes");
    }
    return stops;
}

int readMaxTokens(const Fields &fields, bool chat)
{
    const auto most = static_cast<std::int64_t>(engine::findParameter("max-tokens")->maximum);
    const auto newer = chat ? fields.integer("max_completion_tokens", 1, most) : std::nullopt;
    const auto older = fields.integer("max_tokens", 1, most);
    return static_cast<int>(newer.value_or(older.value_or(chat ? 0 : completionTokens)));
}

/// {"token id": -100 to 100}
std::vector<engine::LogitBias> readBiases(const Fields &fields, int vocabSize)
{
    constexpr double mostBias = 100;
    const Json *value = fields.object("logit_bias");
    if (!value)
        return {};
    if (value->size() > maxBiases)
        fields.wrong("logit_bias", std::to_string(value->size()) + " tokens", "at most " + std::to_string(maxBiases));
    const Fields inner(*value, "logit_bias.");
    std::vector<engine::LogitBias> biases;
    for (const auto &[key, bias] : value->items()) {
        int token = -1;
        const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (fault != std::errc() || end != key.data() + key.size() || token < 0 || token >= vocabSize)
            fields.wrong("logit_bias", "the key \"" + key.substr(0, 32) + '"',
                         "token ids from 0 to " + std::to_string(vocabSize - 1));
        biases.push_back({token, inner.number(key.c_str(), -mostBias, mostBias).value_or(0)});
    }
    return biases;
}

std::vector<int> readStopIds(const Fields &fields, int vocabSize)
{
    const Json *value = fields.list("stop_token_ids");
    if (!value)
        return {};
    if (value->size() > maxStops)
        fields.wrong("stop_token_ids", std::to_string(value->size()) + " ids", "at most " + std::to_string(maxStops));
    std::vector<int> ids;
    for (const Json &id : *value) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= vocabSize)
            fields.wrong("stop_token_ids", dump(id).substr(0, 32),
                         "token ids from 0 to " + std::to_string(vocabSize - 1));
        ids.push_back(id.get<int>());
    }
    return ids;
}

void readMinTokens(const Fields &fields, engine::SamplingParams &p)
{
    const int most = p.maxTokens > 0 ? p.maxTokens : std::numeric_limits<int>::max();
    p.minTokens = static_cast<int>(fields.integer("min_tokens", 0, most).value_or(0));
    if (p.minTokens > 0 && !p.stop.empty())
        fields.wrong("min_tokens", std::to_string(p.minTokens), "0 with stop strings, which end an answer anywhere");
}

/// What the request does not say comes from the model's own files, else it is off: OpenAI's defaults.
engine::SamplingParams readSampling(const Fields &fields, const engine::ModelInfo &model, bool chat)
{
    const engine::SuggestedSampling &suggested = model.sampling;
    engine::SamplingParams p;
    p.temperature = knob(fields, "temperature", "temperature", suggested.temperature.value_or(1.0));
    p.topP = knob(fields, "top_p", "top-p", suggested.topP.value_or(1.0));
    p.minP = knob(fields, "min_p", "min-p", suggested.minP.value_or(0.0));
    const auto mostTopK = static_cast<std::int64_t>(engine::findParameter("top-k")->maximum);
    // -1 is vLLM's way to say off.
    p.topK = std::max(0, static_cast<int>(fields.integer("top_k", -1, mostTopK).value_or(suggested.topK.value_or(0))));
    p.presencePenalty = knob(fields, "presence_penalty", "presence-penalty", 0.0);
    p.frequencyPenalty = knob(fields, "frequency_penalty", "frequency-penalty", 0.0);
    const char *repetition = fields.find("repetition_penalty") ? "repetition_penalty" : "repeat_penalty";
    p.repetitionPenalty = knob(fields, repetition, "repetition-penalty", suggested.repetitionPenalty.value_or(1.0));
    if (const auto seed =
            fields.integer("seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()))
        p.seed = static_cast<std::uint64_t>(*seed);
    p.maxTokens = readMaxTokens(fields, chat);
    p.stop = readStops(fields);
    p.ignoreEos = fields.boolean("ignore_eos").value_or(false);
    p.logitBias = readBiases(fields, model.vocabSize);
    p.stopIds = readStopIds(fields, model.vocabSize);
    readMinTokens(fields, p);
    return p;
}

/// Members that other servers know and that cannot be honoured here: an answer without them would be a wrong one.
void refuseUnsupported(const Fields &fields)
{
    fields.refuse("chat_template", "templates come from the model");
    fields.refuse("grammar", "use response_format");
    fields.refuse("guided_json", "use response_format");
    fields.refuse("guided_regex", "use response_format");
    fields.refuse("guided_choice", "use response_format");
    fields.refuse("guided_grammar", "use response_format");
    fields.refuse("structured_outputs", "use response_format");
    fields.refuse("use_beam_search", "answers are sampled");
    fields.refuse("prompt_logprobs", "logprobs are given for the answer only");
    fields.refuse("suffix", "text is only continued");
    fields.refuse("functions", "use tools");
    fields.refuse("audio", "answers are text");
    fields.refuse("images", "prompts are text");
    fields.refuse("prompt_embeds", "prompts are text or ids");
    fields.refuse("truncate_prompt_tokens", "a prompt is taken whole or refused");
    fields.refuse("include_stop_str_in_output", "an answer ends before a stop string");
    fields.refuse("return_token_ids", "logprobs show the tokens");
    fields.refuse("return_tokens_as_token_ids", "logprobs show their text");
    fields.refuse("allowed_token_ids", "use response_format or logit_bias");
    fields.refuse("bad_words", "use logit_bias");
    fields.refuse("logits_processors", "use logit_bias");
    fields.refuse("documents", "put them into a message, or into chat_template_kwargs");
    fields.refuse("continue_final_message", "an answer begins a message of its own");
    fields.refuse("web_search_options", "nothing but this machine is asked");
    for (const char *key : {"add_generation_prompt", "skip_special_tokens"})
        if (fields.boolean(key) == false)
            fields.wrong(key, "false", "true, as no other way is supported");
    if (const Json *modalities = fields.list("modalities"); modalities && *modalities != Json::array({"text"}))
        fields.wrong("modalities", dump(*modalities).substr(0, 64), "[\"text\"]");
}

void readCommon(const Fields &fields, CompletionRequest &request)
{
    (void)fields.text("model"); // one model is served, under whatever name it is asked for
    refuseUnsupported(fields);
    request.n = static_cast<int>(fields.integer("n", 1, maxChoices).value_or(1));
    if (const auto best = fields.integer("best_of", 1, maxChoices); best && *best != request.n)
        fields.wrong("best_of", std::to_string(*best), "n, as no answer is thrown away");
    request.stream = fields.boolean("stream").value_or(false);
    if (const Json *options = fields.object("stream_options")) {
        if (!request.stream)
            fields.wrong("stream_options", "an object", "nothing unless stream is true");
        const Fields stream(*options, "stream_options.");
        request.includeUsage = stream.boolean("include_usage").value_or(false);
        request.continuousUsage = stream.boolean("continuous_usage_stats").value_or(false);
        if (request.continuousUsage && !request.includeUsage)
            fields.wrong("stream_options.continuous_usage_stats", "true", "false unless include_usage is true");
    }
}

/// Who asks behind the program, as it says; whatever is no text says nothing.
std::string readUser(const Fields &fields)
{
    const Json *user = fields.find("user");
    return user && user->is_string() ? user->get<std::string>() : std::string();
}

/// The form of the answer. The engine itself judges a schema.
void readResponseFormat(const Fields &fields, engine::Request &request)
{
    const Json *format = fields.object("response_format");
    if (!format)
        return;
    const Fields inner(*format, "response_format.");
    const std::string type = inner.text("type").value_or("");
    if (type == "json_object") {
        request.jsonSchema = R"({"type":"object"})";
    } else if (type == "json_schema") {
        const Json *outer = inner.object("json_schema");
        const Json *schema = outer ? Fields(*outer, "response_format.json_schema.").object("schema") : nullptr;
        if (!schema)
            inner.wrong("json_schema", "no schema in it", "{\"name\": ..., \"schema\": {...}}");
        request.jsonSchema = dump(*schema);
    } else if (type != "text") {
        inner.wrong("type", '"' + type.substr(0, 64) + '"', "text, json_object or json_schema");
    }
    if (request.jsonSchema && request.sampling.minTokens > 0)
        fields.wrong("min_tokens", std::to_string(request.sampling.minTokens),
                     "0 with a response_format, as an answer ends where its form does");
    if (request.jsonSchema && request.sampling.ignoreEos)
        fields.wrong("ignore_eos", "true", "false with a response_format, as an answer ends where its form does");
}

std::vector<int> readIds(const Fields &fields, const Json &list)
{
    std::vector<int> ids;
    ids.reserve(list.size());
    for (const Json &id : list) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > INT32_MAX)
            fields.wrong("prompt", dump(id).substr(0, 32) + " in a list of ids", "token ids");
        ids.push_back(id.get<int>());
    }
    return ids;
}

/// A text, a list of texts, a list of ids or a list of such lists.
void readPrompts(const Fields &fields, const engine::Request &common, std::vector<engine::Request> &prompts)
{
    const Json *prompt = fields.find("prompt");
    if (!prompt || !(prompt->is_string() || prompt->is_array()) || prompt->empty())
        fields.wrong("prompt", prompt ? std::string("an empty one or one of type ") + prompt->type_name() : "nothing",
                     "a string, a list of strings, or token ids");
    const bool single = prompt->is_string() || prompt->front().is_number();
    const Json list = single ? Json::array({*prompt}) : *prompt;
    if (list.size() > static_cast<std::size_t>(maxChoices))
        fields.wrong("prompt", std::to_string(list.size()) + " prompts", "at most " + std::to_string(maxChoices));
    for (const Json &one : list) {
        engine::Request request = common;
        if (one.is_string())
            request.prompt = one.get<std::string>();
        else if (one.is_array())
            request.ids = readIds(fields, one);
        else
            fields.wrong("prompt", std::string("a value of type ") + one.type_name(), "strings or lists of ids");
        prompts.push_back(std::move(request));
    }
}

void checkChoices(const Fields &fields, const CompletionRequest &request)
{
    if (request.choices() > static_cast<std::size_t>(maxChoices))
        fields.wrong("n", std::to_string(request.n) + " for each of " + std::to_string(request.prompts.size()),
                     "at most " + std::to_string(maxChoices) + " choices in all");
}

} // namespace

CompletionRequest readChat(const Json &body, const engine::ModelInfo &model)
{
    const Fields fields(body);
    CompletionRequest request;
    request.chat = true;
    readCommon(fields, request);
    engine::Request prompt;
    prompt.messages = readMessages(body);
    prompt.client = readUser(fields);
    if (const Json *kwargs = fields.object("chat_template_kwargs"))
        prompt.templateKwargsJson = dump(*kwargs);
    fields.refuse("echo", "the answer alone is returned; plain completions can give the prompt too");
    prompt.sampling = readSampling(fields, model, true);
    prompt.priority = static_cast<int>(fields.integer("priority", -1'000'000, 1'000'000).value_or(0));
    const auto top = fields.integer("top_logprobs", 0, maxTopLogprobs);
    if (fields.boolean("logprobs").value_or(false))
        prompt.sampling.logprobs = static_cast<int>(top.value_or(0));
    else if (top.value_or(0) > 0)
        fields.wrong("top_logprobs", std::to_string(*top), "nothing unless logprobs is true");
    readResponseFormat(fields, prompt);
    readTools(fields, prompt, request.forcedTool);
    request.prompts.push_back(std::move(prompt));
    return request;
}

CompletionRequest readCompletion(const Json &body, const engine::ModelInfo &model)
{
    const Fields fields(body);
    CompletionRequest request;
    readCommon(fields, request);
    engine::Request common;
    common.client = readUser(fields);
    common.sampling = readSampling(fields, model, false);
    common.priority = static_cast<int>(fields.integer("priority", -1'000'000, 1'000'000).value_or(0));
    common.sampling.logprobs = static_cast<int>(fields.integer("logprobs", 0, maxTopLogprobs).value_or(-1));
    if (fields.boolean("add_special_tokens") == false)
        fields.wrong("add_special_tokens", "false", "true for a text; give token ids to say every token");
    request.echo = fields.boolean("echo").value_or(false);
    if (request.echo && common.sampling.logprobs >= 0)
        fields.wrong("echo", "true", "false with logprobs, which are given for the answer only");
    readResponseFormat(fields, common);
    readPrompts(fields, common, request.prompts);
    checkChoices(fields, request);
    return request;
}

} // namespace serve
