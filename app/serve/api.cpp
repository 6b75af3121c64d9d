// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/api.h"

#include "app/serve/api_error.h"
#include "app/serve/fields.h"
#include "app/serve/metrics.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <ctime>
#include <new>
#include <random>

namespace serve {
namespace {

std::string randomHex()
{
    std::random_device device;
    std::array<char, 24> text{};
    (void)std::snprintf(text.data(), text.size(), "%08x%08x", device(), device());
    return text.data();
}

/// "application/json", with parameters or without.
bool isJsonType(std::string type)
{
    type.resize(std::min(type.find(';'), type.size()));
    while (!type.empty() && type.back() == ' ')
        type.pop_back();
    std::ranges::transform(type, type.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return type == "application/json";
}

/// A message as chat templates know it.
Json templateMessage(const engine::ChatMessage &message)
{
    Json json{{"role", message.role}, {"content", message.content}};
    if (!message.reasoning.empty())
        json["reasoning_content"] = message.reasoning;
    if (!message.name.empty())
        json["name"] = message.name;
    if (!message.toolCallId.empty())
        json["tool_call_id"] = message.toolCallId;
    for (const engine::ToolCall &call : message.toolCalls) {
        Json arguments = call.arguments; // what is no JSON object within the limits stays a text
        try {
            arguments = parseBody(call.arguments);
        } catch (const ApiError &) {
        }
        json["tool_calls"].push_back(
            {{"type", "function"}, {"function", {{"name", call.name}, {"arguments", std::move(arguments)}}}});
        if (!call.id.empty())
            json["tool_calls"].back()["id"] = call.id;
    }
    return json;
}

template<typename Text> const Text &present(const std::shared_ptr<const Text> &text, const char *what)
{
    if (!text)
        throw ApiError(503, std::string("the model has no ") + what);
    return *text;
}

} // namespace

Api::Api(ServedModel model, EngineHub &hub, bool vllmNames)
    : m_model(std::move(model))
    , m_hub(hub)
    , m_vllmNames(vllmNames)
    , m_started(std::time(nullptr))
    , m_salt(randomHex())
{
}

AnswerInfo Api::newAnswer(bool chat)
{
    const std::string number = std::to_string(m_nextAnswer.fetch_add(1));
    return {(chat ? "chatcmpl-" : "cmpl-") + m_salt + number, std::time(nullptr), m_model.name, m_model.text.get()};
}

Api::Outcome Api::handle(const HttpRequest &request) const
{
    try {
        const std::string_view path = pathOf(request.head.target);
        const Route route = findRoute(request.head.method, path);
        if (request.head.method == "GET")
            return get(route, path);
        return post(route, request);
    } catch (const ApiError &error) {
        return errorResponse(error);
    } catch (const engine::Error &error) {
        return errorResponse(fromEngine(error.code(), error.what()));
    } catch (const std::bad_alloc &) {
        return errorResponse(ApiError(503, "not enough memory for this request"));
    } catch (const std::exception &error) {
        return errorResponse(ApiError(500, error.what()));
    }
}

Api::Outcome Api::post(Route route, const HttpRequest &request) const
{
    if (!isJsonType(request.head.contentType))
        throw ApiError(
            415, "Content-Type: found \"" + request.head.contentType.substr(0, 64) + "\", wanted application/json");
    if (const std::string &encoding = request.head.contentEncoding; !encoding.empty() && encoding != "identity")
        throw ApiError(415, "Content-Encoding: found \"" + encoding.substr(0, 64) + "\", wanted none");
    const Json body = parseBody(request.body);
    if (route == Route::ChatCompletions)
        return readChat(body, m_model.info);
    if (route == Route::Completions)
        return readCompletion(body, m_model.info);
    HttpResponse response;
    if (route == Route::Tokenize)
        response.body = tokenize(body);
    else if (route == Route::Detokenize)
        response.body = detokenize(body);
    else
        response.body = applyTemplate(body);
    return response;
}

HttpResponse Api::get(Route route, std::string_view path) const
{
    constexpr std::string_view modelPrefix = "/v1/models/";
    HttpResponse response;
    switch (route) {
    case Route::Health:
        response.body = R"({"status":"ok"})";
        break;
    case Route::Metrics:
        response.contentType = "text/plain; version=0.0.4; charset=utf-8";
        response.body = metricsText(m_hub.totals(), m_model.name, m_model.info.effective, m_vllmNames);
        break;
    case Route::Slots:
        response.body = slotsJson();
        break;
    case Route::Model:
        if (path.substr(modelPrefix.size()) != m_model.name)
            throw ApiError(404, "no model of this name is served; there is " + m_model.name, "model");
        response.body = dump(modelJson());
        break;
    default:
        response.body = modelsJson();
    }
    return response;
}

Json Api::modelJson() const
{
    return {{"id", m_model.name},
            {"object", "model"},
            {"created", m_started},
            {"owned_by", "lathe"},
            {"root", m_model.name},
            {"parent", nullptr},
            {"max_model_len", m_model.info.effective.maxModelLen}};
}

std::string Api::modelsJson() const
{
    return dump({{"object", "list"}, {"data", Json::array({modelJson()})}});
}

std::string Api::slotsJson() const
{
    Json slots = Json::array();
    for (const OpenRequest &request : m_hub.open())
        slots.push_back({{"id", request.id},
                         {"id_task", request.id},
                         {"n_ctx", m_model.info.effective.maxModelLen},
                         {"speculative", false},
                         {"is_processing", request.decodedTokens > 0},
                         {"accepted", request.accepted},
                         {"prompt_tokens", request.promptTokens},
                         {"cached_tokens", request.cachedTokens},
                         {"next_token",
                          {{"has_next_token", true},
                           {"n_decoded", request.decodedTokens},
                           {"n_remain", request.maxTokens > 0 ? request.maxTokens - request.decodedTokens : -1}}}});
    return dump(slots);
}

std::string Api::tokenize(const Json &body) const
{
    const engine::TextModel &text = present(m_model.text, "tokenizer");
    const Fields fields(body);
    std::vector<int> ids;
    if (fields.find("messages")) {
        ids = text.encode(render(body), {false, true});
    } else {
        const char *key = fields.find("prompt") ? "prompt" : "content"; // vLLM's and llama-server's names
        const auto prompt = fields.text(key);
        if (!prompt)
            fields.wrong("prompt", "nothing", "a string, or messages");
        const bool special = fields.boolean("add_special_tokens")
                                 .value_or(fields.boolean("add_special").value_or(fields.find("prompt") != nullptr));
        ids = text.encode(*prompt, {special, fields.boolean("parse_special").value_or(false)});
    }
    return dump({{"tokens", ids}, {"count", ids.size()}, {"max_model_len", m_model.info.effective.maxModelLen}});
}

std::string Api::detokenize(const Json &body) const
{
    const engine::TextModel &text = present(m_model.text, "tokenizer");
    const Fields fields(body);
    const Json *list = fields.list("tokens");
    if (!list)
        fields.wrong("tokens", "nothing", "a list of token ids");
    std::vector<int> ids;
    for (const Json &id : *list) {
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= text.vocabSize())
            fields.wrong("tokens", dump(id).substr(0, 32),
                         "token ids from 0 to " + std::to_string(text.vocabSize() - 1));
        ids.push_back(id.get<int>());
    }
    const std::string decoded = text.decode(ids, fields.boolean("skip_special_tokens").value_or(false));
    return dump({{"prompt", decoded}, {"content", decoded}});
}

std::string Api::render(const Json &body) const
{
    const engine::TemplateModel &templates = present(m_model.templates, "chat template");
    Json messages = Json::array();
    for (const engine::ChatMessage &message : readMessages(body))
        messages.push_back(templateMessage(message));
    const Fields fields(body);
    engine::RenderRequest request;
    request.messagesJson = dump(messages);
    if (const Json *tools = fields.list("tools"); tools && !tools->empty())
        request.toolsJson = dump(*tools);
    if (const Json *kwargs = fields.object("chat_template_kwargs"))
        request.kwargsJson = dump(*kwargs);
    request.addGenerationPrompt = fields.boolean("add_generation_prompt").value_or(true);
    return templates.render(request);
}

std::string Api::applyTemplate(const Json &body) const
{
    return dump({{"prompt", render(body)}});
}

} // namespace serve
