// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/answer.h"

#include "app/serve/answer_parts.h"

#include <optional>
#include <utility>
#include <vector>

namespace serve {
namespace {

/// The parts that both forms of an answer share.
class AnswerBase : public Answer {
public:
    AnswerBase(const CompletionRequest &request, AnswerInfo info)
        : m_chat(request.chat)
        , m_choices(request.choices())
        , m_logprobs(request.prompts.front().sampling.logprobs >= 0)
        , m_info(std::move(info))
        , m_usage(request.prompts.size(), request.n)
        , m_forcedTool(request.forcedTool)
        , m_calls(request.forcedTool ? request.choices() : 0)
    {
    }

protected:
    /// What an answer begins with, by choice; empty unless the prompt was asked for.
    [[nodiscard]] static std::vector<std::string> echoes(const CompletionRequest &request,
                                                         const engine::TextModel *text)
    {
        std::vector<std::string> echoes;
        if (!request.echo)
            return echoes;
        for (const engine::Request &prompt : request.prompts) {
            const bool isText = prompt.prompt.has_value();
            const std::string said = isText ? *prompt.prompt : text ? text->decode(*prompt.ids, false) : std::string();
            echoes.insert(echoes.end(), static_cast<std::size_t>(request.n), said);
        }
        return echoes;
    }

    [[nodiscard]] Json envelope(const char *object) const
    {
        return {{"id", m_info.id}, {"object", object}, {"created", m_info.created}, {"model", m_info.model}};
    }

    /// A forced call is written as plain JSON; to the client it is a call.
    engine::TokenEvent shaped(std::size_t choice, const engine::TokenEvent &token)
    {
        if (!m_forcedTool || token.text.empty())
            return token;
        engine::TokenEvent event = token;
        Call &call = m_calls[choice];
        if (m_forcedTool->empty())
            call.text += token.text;
        else
            event.toolCalls.push_back({0, call.named ? std::string() : *m_forcedTool, token.text});
        call.named = true;
        event.text.clear();
        return event;
    }
    /// What is left when the choice has ended: a call whose name stands in its text. One that was cut stays text.
    engine::TokenEvent rest(std::size_t choice)
    {
        engine::TokenEvent event;
        if (!m_forcedTool || m_calls[choice].text.empty())
            return event;
        const Json call = Json::parse(m_calls[choice].text, nullptr, false);
        if (call.is_object() && call.contains("name") && call.contains("arguments") && call["name"].is_string())
            event.toolCalls.push_back({0, call["name"].get<std::string>(), dump(call["arguments"])});
        else
            event.text = m_calls[choice].text;
        m_calls[choice].text.clear();
        return event;
    }

    bool m_chat;
    std::size_t m_choices;
    bool m_logprobs;
    AnswerInfo m_info;
    UsageSum m_usage;

private:
    struct Call {
        std::string text;
        bool named = false;
    };

    std::optional<std::string> m_forcedTool;
    std::vector<Call> m_calls; ///< by choice, when forced
};

/// Server-sent events, one for each piece of output.
class StreamedAnswer final : public AnswerBase {
public:
    StreamedAnswer(const CompletionRequest &request, AnswerInfo info)
        : AnswerBase(request, std::move(info))
        , m_includeUsage(request.includeUsage)
        , m_continuousUsage(request.continuousUsage)
        , m_echoes(echoes(request, m_info.text))
        , m_states(request.choices())
    {
    }

    void accepted(std::size_t choice, int promptTokens) override { m_states[choice].promptTokens = promptTokens; }

    std::string begin() override
    {
        std::string out;
        for (std::size_t choice = 0; m_chat && choice < m_choices; ++choice)
            out += event(choice, {{"role", "assistant"}, {"content", ""}}, nullptr, nullptr);
        for (std::size_t choice = 0; choice < m_echoes.size(); ++choice)
            out += event(choice, m_echoes[choice], nullptr, nullptr);
        return out;
    }

    std::string tokens(std::size_t choice, const engine::TokenEvent &event) override
    {
        m_states[choice].completionTokens += static_cast<int>(event.ids.size());
        return write(choice, shaped(choice, event));
    }

    std::string finished(std::size_t choice, const engine::RequestFinished &finished) override
    {
        m_usage.add(choice, finished.usage);
        m_states[choice].completionTokens = finished.usage.completionTokens;
        const std::string last = write(choice, rest(choice));
        return last
            + event(choice, m_chat ? Json::object() : Json(""), nullptr,
                    finishWord(finished.reason, m_states[choice].calledTools));
    }

    std::string end() override
    {
        std::string out;
        if (m_includeUsage) {
            Json json = envelope(m_chat ? "chat.completion.chunk" : "text_completion");
            json["choices"] = Json::array();
            json["usage"] = m_usage.json();
            out = "data: " + dump(json) + "\n\n";
        }
        return out + "data: [DONE]\n\n";
    }

private:
    struct State {
        bool calledTools = false;
        std::size_t textOffset = 0;
        int promptTokens = 0;
        int completionTokens = 0; ///< so far

        [[nodiscard]] Json usage() const
        {
            return {{"prompt_tokens", promptTokens},
                    {"completion_tokens", completionTokens},
                    {"total_tokens", promptTokens + completionTokens}};
        }
    };

    [[nodiscard]] std::string write(std::size_t choice, const engine::TokenEvent &token)
    {
        const bool silent = token.text.empty() && token.reasoning.empty() && token.toolCalls.empty();
        if (silent && token.logprobs.empty())
            return {};
        State &state = m_states[choice];
        state.calledTools = state.calledTools || !token.toolCalls.empty();
        Json logprobs = nullptr;
        if (m_logprobs)
            logprobs = m_chat ? chatLogprobs(token.logprobs, m_info.text)
                              : completionLogprobs(token.logprobs, m_info.text, state.textOffset);
        return event(choice, m_chat ? delta(choice, token) : Json(token.text), std::move(logprobs), nullptr);
    }

    [[nodiscard]] Json delta(std::size_t choice, const engine::TokenEvent &token) const
    {
        Json delta = Json::object();
        if (!token.text.empty() || (token.reasoning.empty() && token.toolCalls.empty()))
            delta["content"] = token.text;
        if (!token.reasoning.empty())
            delta["reasoning_content"] = token.reasoning;
        for (const engine::ToolCallDelta &call : token.toolCalls) {
            Json part{{"index", call.index}};
            if (!call.name.empty()) {
                part["id"] = callId(m_info.id, choice, call.index);
                part["type"] = "function";
                part["function"] = {{"name", call.name}};
            }
            part["function"]["arguments"] = call.arguments;
            delta["tool_calls"].push_back(std::move(part));
        }
        return delta;
    }

    [[nodiscard]] std::string event(std::size_t choice, Json content, Json logprobs, Json reason) const
    {
        Json json = envelope(m_chat ? "chat.completion.chunk" : "text_completion");
        json["choices"] = Json::array({Json{{"index", choice},
                                            {m_chat ? "delta" : "text", std::move(content)},
                                            {"logprobs", std::move(logprobs)},
                                            {"finish_reason", std::move(reason)}}});
        if (m_continuousUsage)
            json["usage"] = m_states[choice].usage();
        else if (m_includeUsage)
            json["usage"] = nullptr;
        return "data: " + dump(json) + "\n\n";
    }

    bool m_includeUsage;
    bool m_continuousUsage;
    std::vector<std::string> m_echoes;
    std::vector<State> m_states;
};

/// One JSON object when everything has ended.
class WholeAnswer final : public AnswerBase {
public:
    WholeAnswer(const CompletionRequest &request, AnswerInfo info)
        : AnswerBase(request, std::move(info))
        , m_parts(request.choices())
    {
        const std::vector<std::string> said = echoes(request, m_info.text);
        for (std::size_t choice = 0; choice < said.size(); ++choice)
            m_parts[choice].text = said[choice];
    }

    std::string begin() override { return {}; }

    std::string tokens(std::size_t choice, const engine::TokenEvent &event) override
    {
        add(choice, shaped(choice, event));
        return {};
    }

    std::string finished(std::size_t choice, const engine::RequestFinished &finished) override
    {
        m_usage.add(choice, finished.usage);
        add(choice, rest(choice));
        m_parts[choice].reason = finished.reason;
        return {};
    }

    std::string end() override
    {
        Json json = envelope(m_chat ? "chat.completion" : "text_completion");
        json["choices"] = Json::array();
        for (std::size_t choice = 0; choice < m_choices; ++choice)
            json["choices"].push_back(choiceJson(choice));
        json["usage"] = m_usage.json();
        return dump(json);
    }

    std::size_t heldBytes() const override { return m_held; }

private:
    struct Part {
        std::string text;
        std::string reasoning;
        std::vector<engine::ToolCall> calls;
        std::vector<engine::SampledToken> logprobs;
        engine::FinishReason reason = engine::FinishReason::Stop;
    };

    void add(std::size_t choice, const engine::TokenEvent &token)
    {
        constexpr std::size_t entryBytes = 256; // about what a token with its bytes takes
        Part &part = m_parts[choice];
        part.text += token.text;
        part.reasoning += token.reasoning;
        engine::appendToolCalls(part.calls, token.toolCalls);
        part.logprobs.insert(part.logprobs.end(), token.logprobs.begin(), token.logprobs.end());
        m_held += token.text.size() + token.reasoning.size();
        for (const engine::SampledToken &sampled : token.logprobs)
            m_held += (1 + sampled.top.size()) * entryBytes;
    }

    [[nodiscard]] Json choiceJson(std::size_t choice) const
    {
        const Part &part = m_parts[choice];
        Json json{{"index", choice}};
        std::size_t offset = 0;
        Json logprobs = nullptr;
        if (m_logprobs)
            logprobs = m_chat ? chatLogprobs(part.logprobs, m_info.text)
                              : completionLogprobs(part.logprobs, m_info.text, offset);
        if (m_chat)
            json["message"] = messageJson(choice);
        else
            json["text"] = part.text;
        json["logprobs"] = std::move(logprobs);
        json["finish_reason"] = finishWord(part.reason, !part.calls.empty());
        return json;
    }

    [[nodiscard]] Json messageJson(std::size_t choice) const
    {
        const Part &part = m_parts[choice];
        Json message{{"role", "assistant"}, {"content", part.text}};
        if (part.text.empty() && !part.calls.empty())
            message["content"] = nullptr;
        if (!part.reasoning.empty())
            message["reasoning_content"] = part.reasoning;
        for (std::size_t i = 0; i < part.calls.size(); ++i)
            message["tool_calls"].push_back(
                {{"id", callId(m_info.id, choice, static_cast<int>(i))},
                 {"type", "function"},
                 {"function", {{"name", part.calls[i].name}, {"arguments", part.calls[i].arguments}}}});
        return message;
    }

    std::vector<Part> m_parts;
    std::size_t m_held = 0;
};

} // namespace

std::unique_ptr<Answer> makeAnswer(const CompletionRequest &request, AnswerInfo info)
{
    if (request.stream)
        return std::make_unique<StreamedAnswer>(request, std::move(info));
    return std::make_unique<WholeAnswer>(request, std::move(info));
}

} // namespace serve
