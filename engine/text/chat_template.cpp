// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/chat_template.h"

#include "engine/text/jinja_from_json.h"
#include "engine/text/jinja_interpreter.h"
#include "engine/text/jinja_parser.h"
#include "engine/text/jinja_unicode.h"

#include <initializer_list>
#include <new>

namespace engine {
namespace {

/// The fields under which a message may carry its reasoning, most preferred first.
constexpr std::initializer_list<const char *> kReasoningFields = {"reasoning_content", "thinking", "reasoning"};

[[noreturn]] void refuse(const char *what, int line, const std::string &message)
{
    throw Error(ErrorCode::Refused, std::string(what) + " at line " + std::to_string(line) + ": " + message);
}

/// Without null fields, and with the reasoning under each of its names.
Json preparedMessage(const Json &message)
{
    if (!message.is_object())
        throw Error(ErrorCode::Refused,
                    std::string("a message must be an object, but one is of the type ") + message.type_name());
    Json out = Json::object();
    for (const auto &[key, value] : message.items()) {
        if (!value.is_null())
            out[key] = value;
    }
    for (const char *field : kReasoningFields) {
        const auto found = out.find(field);
        if (found == out.end())
            continue;
        const Json reasoning = *found;
        for (const char *other : kReasoningFields) {
            if (!out.contains(other))
                out[other] = reasoning;
        }
        break;
    }
    return out;
}

Json preparedMessages(const Json &messages)
{
    if (!messages.is_array())
        throw Error(ErrorCode::Refused,
                    std::string("the messages must be a list, but are of the type ") + messages.type_name());
    if (messages.empty())
        throw Error(ErrorCode::Refused, "the conversation is empty: a chat template needs at least one message");
    Json out = Json::array();
    for (const Json &message : messages)
        out.push_back(preparedMessage(message));
    return out;
}

/// A template would write the keys of an object, or anything else it is given, into the prompt as if they were tools.
const Json &checkedTools(const Json &tools)
{
    if (tools.is_null())
        return tools;
    if (!tools.is_array())
        throw Error(ErrorCode::Refused,
                    std::string("the tools must be a list of objects, but are of the type ") + tools.type_name());
    for (const Json &tool : tools) {
        if (!tool.is_object())
            throw Error(ErrorCode::Refused,
                        std::string("a tool must be an object, but one is of the type ") + tool.type_name());
    }
    return tools;
}

void addMembers(Json &context, const Json &members, const char *what)
{
    if (members.is_null())
        return;
    if (!members.is_object())
        throw Error(ErrorCode::Refused,
                    std::string(what) + " must be an object, but are of the type " + members.type_name());
    for (const auto &[key, value] : members.items())
        context[key] = value;
}

} // namespace

struct ChatTemplate::Program {
    jinja::Template tree;
    TemplateLimits limits;
};

ChatTemplate::ChatTemplate(std::string source, TemplateLimits limits)
    : m_program(std::make_unique<Program>())
{
    if (const std::size_t fault = jinja::invalidUtf8(source); fault != std::string::npos)
        throw Error(ErrorCode::Refused,
                    "the chat template is not UTF-8: invalid byte at offset " + std::to_string(fault));
    m_program->limits = limits;
    m_program->tree.source = jinja::normalSource(source);
    jinja::Parser parser(m_program->tree, limits);
    try {
        parser.parse();
    } catch (const jinja::Fault &fault) {
        refuse("syntax error in the chat template", parser.line(), fault.what());
    }
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate &&) noexcept = default;
ChatTemplate &ChatTemplate::operator=(ChatTemplate &&) noexcept = default;

std::string ChatTemplate::render(const Json &context, const std::string &date) const
{
    if (!context.is_object())
        throw Error(ErrorCode::Refused,
                    std::string("the context of a chat template must be an object, but is of the type ")
                        + context.type_name());
    jinja::Heap heap(m_program->limits);
    int line = 1;
    try {
        jinja::Interpreter interpreter(m_program->tree, heap, date);
        try {
            for (const auto &[key, value] : context.items()) {
                if (interpreter.uses(key))
                    interpreter.define(key, jinja::fromJson(heap, value));
            }
            return interpreter.run();
        } catch (const jinja::Fault &) {
            line = interpreter.line();
            throw;
        }
    } catch (const jinja::Fault &fault) {
        if (fault.verbatim())
            throw Error(ErrorCode::Refused, fault.what());
        refuse("the chat template failed", line, fault.what());
    } catch (const std::bad_alloc &) {
        refuse("the chat template failed", line, "out of memory");
    }
}

std::string ChatTemplate::renderChat(const TemplateInput &input) const
{
    Json context = Json::object();
    addMembers(context, input.specialTokens, "the special tokens");
    context["messages"] = preparedMessages(input.messages);
    context["tools"] = checkedTools(input.tools);
    context["documents"] = input.documents;
    context["add_generation_prompt"] = input.addGenerationPrompt;
    addMembers(context, input.kwargs, "the template's keyword arguments");
    return render(context, input.date);
}

} // namespace engine
