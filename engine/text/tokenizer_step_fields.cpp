// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/text/tokenizer_step_fields.h"

#include "engine/text/utf8.h"

namespace engine::tokenizer_steps {

[[noreturn]] void refuse(const std::string &text)
{
    throw Error(ErrorCode::Refused, "tokenizer: " + text);
}

const Json *member(const Json &object, const char *key)
{
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const Json &step, const char *key, bool otherwise)
{
    const Json *value = member(step, key);
    if (value != nullptr && !value->is_boolean())
        refuse(std::string(key) + " must be true or false, found " + utf8::quoted(value->dump()));
    return value != nullptr ? value->get<bool>() : otherwise;
}

std::string textOf(const Json &step, const char *key, const std::string &place)
{
    const Json *value = member(step, key);
    if (value == nullptr || !value->is_string())
        refuse(place + "." + key + (value == nullptr ? " is missing" : " must be a string"));
    return value->get<std::string>();
}

std::string characterOf(const Json &step, const char *key, const std::string &place)
{
    std::string text = textOf(step, key, place);
    if (text.empty() || static_cast<std::size_t>(utf8::decode(text, 0).bytes) != text.size())
        refuse(place + "." + key + " " + utf8::quoted(text) + " must be one character");
    return text;
}

namespace {

const Json &patternText(const Json &step, const std::string &place, bool &literal)
{
    const Json *pattern = member(step, "pattern");
    if (pattern == nullptr || !pattern->is_object())
        refuse(place + ".pattern must be an object with Regex or String");
    for (const char *key : {"Regex", "String"}) {
        literal = key == std::string_view("String");
        if (const Json *text = member(*pattern, key); text != nullptr && text->is_string())
            return *text;
    }
    refuse(place + ".pattern must hold a string as Regex or String");
}

} // namespace

Regex patternOf(const Json &step, const std::string &place)
{
    bool literal = false;
    const Json &text = patternText(step, place, literal);
    return Regex(text.get<std::string>(), literal);
}

std::optional<std::string> literalOf(const Json &step, const std::string &place)
{
    bool literal = false;
    const Json &text = patternText(step, place, literal);
    return literal ? std::optional(text.get<std::string>()) : std::nullopt;
}

/// Older files say add_prefix_space in place of prepend_scheme.
Metaspace metaspaceOf(const Json &step, const std::string &place)
{
    Metaspace rule;
    if (member(step, "replacement") != nullptr)
        rule.mark = characterOf(step, "replacement", place);
    rule.split = flag(step, "split", true);
    const std::string scheme =
        member(step, "prepend_scheme") != nullptr ? textOf(step, "prepend_scheme", place) : "always";
    if (scheme == "never" || !flag(step, "add_prefix_space", true))
        rule.prepend = Metaspace::Prepend::Never;
    else if (scheme == "first")
        rule.prepend = Metaspace::Prepend::First;
    else if (scheme != "always")
        refuse(place + ".prepend_scheme " + utf8::quoted(scheme) + " is unknown");
    return rule;
}

} // namespace engine::tokenizer_steps
