// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/api_error.h"
#include "app/serve/completion_request.h"
#include "app/serve/fields.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace serve {
namespace {

constexpr std::size_t maxMessages = 4096;

std::string partText(const Json &part, const std::string &where)
{
    if (!part.is_object())
        throw ApiError(400, where + ": a content part is of type " + part.type_name() + ", wanted an object", where);
    const Fields fields(part, where + '.');
    const std::string type = fields.text("type").value_or("");
    if (type != "text")
        fields.wrong("type", '"' + type.substr(0, 64) + '"', "\"text\", the only kind of part that models here read");
    const auto text = fields.text("text");
    if (!text)
        fields.wrong("text", "nothing", "a string");
    return *text;
}

std::string contentText(const Json &content, const std::string &where)
{
    if (content.is_string())
        return content.get<std::string>();
    if (!content.is_array())
        throw ApiError(400,
                       "'" + where + "': found a value of type " + content.type_name()
                           + ", wanted a string or a list of parts",
                       where);
    std::string text;
    for (const Json &part : content)
        text += partText(part, where);
    return text;
}

engine::ToolCall readCall(const Json &entry, const std::string &where)
{
    if (!entry.is_object())
        throw ApiError(400, where + ": found a value of type " + entry.type_name() + ", wanted an object", where);
    const Json *function = Fields(entry, where + '.').object("function");
    if (!function)
        throw ApiError(400, where + ".function: found nothing, wanted an object", where);
    const Fields fields(*function, where + ".function.");
    engine::ToolCall call{fields.text("name").value_or(""), fields.text("arguments").value_or("{}"),
                          Fields(entry, where + '.').text("id").value_or("")};
    if (call.name.empty())
        fields.wrong("name", "nothing", "the name of a tool");
    return call;
}

engine::ChatMessage readMessage(const Json &entry, const std::string &where)
{
    static constexpr std::array<std::string_view, 5> roles{"system", "developer", "user", "assistant", "tool"};
    if (!entry.is_object())
        throw ApiError(400, "'" + where + "': found a value of type " + entry.type_name() + ", wanted an object",
                       where);
    const Fields fields(entry, where + '.');
    engine::ChatMessage message;
    message.role = fields.text("role").value_or("");
    if (std::ranges::find(roles, message.role) == roles.end())
        fields.wrong("role", '"' + message.role.substr(0, 64) + '"', "system, developer, user, assistant or tool");
    if (message.role == "developer") // OpenAI's newer name of the same thing; templates know the old one
        message.role = "system";
    message.name = fields.text("name").value_or("");
    message.toolCallId = fields.text("tool_call_id").value_or("");
    const bool assistant = message.role == "assistant";
    if (const Json *calls = assistant ? fields.list("tool_calls") : nullptr)
        for (std::size_t i = 0; i < calls->size(); ++i)
            message.toolCalls.push_back(readCall((*calls)[i], where + ".tool_calls[" + std::to_string(i) + ']'));
    if (assistant)
        message.reasoning = fields.text("reasoning_content").value_or(fields.text("reasoning").value_or(std::string()));
    if (const Json *content = fields.find("content"))
        message.content = contentText(*content, where + ".content");
    else if (!assistant || message.toolCalls.empty())
        fields.wrong("content", "nothing", "a string or a list of parts");
    return message;
}

} // namespace

std::vector<engine::ChatMessage> readMessages(const Json &body)
{
    const Fields fields(body);
    const Json *list = fields.list("messages");
    if (!list || list->empty())
        fields.wrong("messages", "nothing", "a list of at least one message");
    if (list->size() > maxMessages)
        fields.wrong("messages", std::to_string(list->size()) + " messages",
                     "at most " + std::to_string(maxMessages) + " messages");
    std::vector<engine::ChatMessage> messages;
    messages.reserve(list->size());
    for (std::size_t i = 0; i < list->size(); ++i)
        messages.push_back(readMessage((*list)[i], "messages[" + std::to_string(i) + ']'));
    return messages;
}

} // namespace serve
