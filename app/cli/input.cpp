// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/cli/input.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <sys/stat.h>

namespace cli {
namespace {

using engine::Error;
using engine::ErrorCode;

constexpr int MaxDepth = 64;

[[noreturn]] void wrongMember(const char *key, const Json &found, const char *wanted)
{
    throw Error(ErrorCode::Refused, std::string(key) + ": found " + found.type_name() + ", wanted " + wanted);
}

const Json &wantedMember(const Json &object, const char *key, const char *wanted)
{
    const Json *value = member(object, key);
    if (value == nullptr)
        throw Error(ErrorCode::Refused, std::string(key) + ": not in the request, wanted " + wanted);
    return *value;
}

} // namespace

const Json *member(const Json &object, const char *key)
{
    const auto it = object.find(key);
    return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string readFile(const std::string &path)
{
    if (path == "-")
        return {std::istreambuf_iterator<char>(std::cin), {}};
    struct stat status{};
    if (stat(path.c_str(), &status) != 0)
        throw Error(ErrorCode::Refused, path + ": " + std::strerror(errno));
    if (S_ISDIR(status.st_mode))
        throw Error(ErrorCode::Refused, path + ": found a folder, wanted a file");
    std::ifstream file(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    if (!file)
        throw Error(ErrorCode::Refused, path + ": could not be read: " + std::strerror(errno));
    return text;
}

Json parseJson(const std::string &text, const std::string &what)
{
    const auto limitDepth = [&what](int depth, Json::parse_event_t, Json &) {
        if (depth > MaxDepth)
            throw Error(ErrorCode::Refused, what + ": JSON nested deeper than " + std::to_string(MaxDepth) + " levels");
        return true;
    };
    try {
        return Json::parse(text, limitDepth);
    } catch (const Json::exception &error) {
        std::string reason = error.what();
        if (const auto bracket = reason.find("] "); bracket != std::string::npos)
            reason = reason.substr(bracket + 2);
        throw Error(ErrorCode::Refused, what + ": no valid JSON: " + reason);
    }
}

std::optional<std::string> readLine()
{
    std::string line;
    if (!std::getline(std::cin, line))
        return std::nullopt;
    return line;
}

void forEachLine(const std::function<bool()> &stopped, const std::function<Json(const Json &)> &work)
{
    forEachLine(stopped, [&work](const Json &request, const std::string &) { return work(request); });
}

void forEachLine(const std::function<bool()> &stopped,
                 const std::function<Json(const Json &, const std::string &)> &work)
{
    for (int number = 1; !stopped(); ++number) {
        const std::optional<std::string> line = readLine();
        if (!line)
            return;
        Json result;
        try {
            const std::string what = "line " + std::to_string(number);
            const Json request = parseJson(*line, what);
            if (!request.is_object())
                throw Error(ErrorCode::Refused, what + ": found " + request.type_name() + ", wanted an object");
            result = work(request, *line);
        } catch (const Error &error) {
            if (error.code() == ErrorCode::IoError || error.code() == ErrorCode::Cancelled)
                throw;
            result = Json{{"error", error.what()}};
        }
        printJson(result);
    }
}

bool boolMember(const Json &object, const char *key, bool fallback)
{
    const Json *value = member(object, key);
    if (value && !value->is_boolean())
        wrongMember(key, *value, "true or false");
    return value ? value->get<bool>() : fallback;
}

std::int64_t integerMember(const Json &object, const char *key, std::int64_t fallback)
{
    const Json *value = member(object, key);
    if (!value)
        return fallback;
    if (!value->is_number_integer())
        wrongMember(key, *value, "a whole number");
    if (value->is_number_unsigned()
        && value->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        throw Error(ErrorCode::Refused, std::string(key) + ": found " + value->dump() + ", wanted at most 2^63 - 1");
    return value->get<std::int64_t>();
}

std::optional<std::uint64_t> seedMember(const Json &object, const char *key)
{
    const Json *value = member(object, key);
    if (value && !value->is_number_unsigned())
        throw Error(ErrorCode::Refused,
                    std::string(key) + ": found " + value->dump(-1, ' ', false, Json::error_handler_t::replace)
                        + ", wanted a whole number from 0 to 2^64 - 1");
    return value ? std::optional(value->get<std::uint64_t>()) : std::nullopt;
}

double numberMember(const Json &object, const char *key, double fallback)
{
    const Json *value = member(object, key);
    if (value && !value->is_number())
        wrongMember(key, *value, "a number");
    return value ? value->get<double>() : fallback;
}

std::string textMember(const Json &object, const char *key)
{
    const Json &value = wantedMember(object, key, "a text");
    if (!value.is_string())
        wrongMember(key, value, "a text");
    return value.get<std::string>();
}

std::vector<int> idList(const Json &list, const std::string &what)
{
    if (!list.is_array())
        throw Error(ErrorCode::Refused, what + ": found " + list.type_name() + ", wanted a list of token ids");
    std::vector<int> ids;
    ids.reserve(list.size());
    for (const Json &id : list) {
        if (!id.is_number_integer() || id < 0 || id > std::numeric_limits<int>::max())
            throw Error(ErrorCode::Refused,
                        what + ": found " + id.dump(-1, ' ', false, Json::error_handler_t::replace) + " at place "
                            + std::to_string(ids.size()) + ", wanted a token id");
        ids.push_back(id.get<int>());
    }
    return ids;
}

std::vector<int> idsMember(const Json &object, const char *key)
{
    return idList(wantedMember(object, key, "a list of token ids"), key);
}

std::vector<std::string> textsMember(const Json &object, const char *key)
{
    const Json *value = member(object, key);
    if (!value)
        return {};
    if (value->is_string())
        return {value->get<std::string>()};
    if (!value->is_array())
        wrongMember(key, *value, "a text or a list of texts");
    std::vector<std::string> texts;
    for (const Json &text : *value) {
        if (!text.is_string())
            wrongMember(key, text, "a list of texts");
        texts.push_back(text.get<std::string>());
    }
    return texts;
}

} // namespace cli
