// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/access.h"

#include "app/serve/api_error.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace serve {
namespace {

struct Path {
    std::string_view path;
    const char *method;
    Route route;
};

constexpr std::string_view modelsPath = "/v1/models";
constexpr std::array paths{
    Path{modelsPath, "GET", Route::Models},
    Path{"/v1/chat/completions", "POST", Route::ChatCompletions},
    Path{"/v1/completions", "POST", Route::Completions},
    Path{"/tokenize", "POST", Route::Tokenize},
    Path{"/detokenize", "POST", Route::Detokenize},
    Path{"/apply-template", "POST", Route::ApplyTemplate},
    Path{"/health", "GET", Route::Health},
    Path{"/metrics", "GET", Route::Metrics},
    Path{"/slots", "GET", Route::Slots},
};

/// `/v1/models/NAME`, where NAME may hold more slashes but no percent sign or dot segment.
bool isModelPath(std::string_view path)
{
    return path.starts_with(modelsPath) && path.size() > modelsPath.size() + 1 && path[modelsPath.size()] == '/'
        && path.find('%') == std::string_view::npos && path.find("/..") == std::string_view::npos;
}

bool isPort(std::string_view text)
{
    return text.size() <= 5 && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool isNumericAddress(const std::string &name)
{
    if (name.starts_with('['))
        return true;
    return !name.empty() && std::ranges::count(name, '.') == 3
        && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

/// Takes as long for every key of one length.
bool sameText(std::string_view a, std::string_view b)
{
    if (a.size() != b.size())
        return false;
    unsigned difference = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

/// The name in `scheme://name:port`; empty for "null" and what is no origin.
std::string originName(std::string_view origin)
{
    const auto start = origin.find("://");
    return start == std::string_view::npos ? std::string() : hostName(origin.substr(start + 3));
}

} // namespace

std::string_view pathOf(std::string_view target)
{
    return target.substr(0, target.find('?'));
}

const char *methodOf(std::string_view path)
{
    const auto known = std::ranges::find(paths, path, &Path::path);
    if (known != paths.end())
        return known->method;
    return isModelPath(path) ? "GET" : nullptr;
}

Route findRoute(std::string_view method, std::string_view path)
{
    const char *wanted = methodOf(path);
    if (!wanted)
        throw ApiError(404, "no such path: " + std::string(path.substr(0, 128)));
    if (method != wanted)
        throw ApiError(405,
                       std::string(path.substr(0, 128)) + ": found method " + std::string(method.substr(0, 16))
                           + ", wanted " + wanted);
    const auto known = std::ranges::find(paths, path, &Path::path);
    return known != paths.end() ? known->route : Route::Model;
}

std::string hostName(std::string_view authority)
{
    std::string_view name = authority;
    if (name.starts_with('[')) {
        const auto end = name.find(']');
        if (end == std::string_view::npos)
            return {};
        const std::string_view rest = name.substr(end + 1);
        if (!rest.empty() && !(rest.front() == ':' && isPort(rest.substr(1))))
            return {};
        name = name.substr(0, end + 1);
    } else if (const auto colon = name.find(':'); colon != std::string_view::npos) {
        if (!isPort(name.substr(colon + 1)))
            return {};
        name = name.substr(0, colon);
    }
    if (name.ends_with('.'))
        name.remove_suffix(1);
    std::string lower(name);
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return lower;
}

AccessRules::AccessRules(std::string host, std::string key, std::vector<std::string> otherNames)
    : m_host(std::move(host))
    , m_key(std::move(key))
    , m_names(std::move(otherNames))
    , m_everyAddress(m_host == "0.0.0.0" || m_host == "::")
{
    m_names.push_back(m_host.find(':') == std::string::npos ? m_host : '[' + m_host + ']');
    for (std::string &name : m_names)
        name = hostName(name);
}

bool AccessRules::isOurName(const std::string &name) const
{
    if (name == "localhost" || name == "127.0.0.1" || name == "[::1]")
        return true;
    return std::ranges::find(m_names, name) != m_names.end() || (m_everyAddress && isNumericAddress(name));
}

void AccessRules::checkNames(const RequestHead &head) const
{
    if (head.hosts.size() != 1 || head.hosts.front().empty())
        throw ApiError(400, "found " + std::to_string(head.hosts.size()) + " Host lines, wanted one with a name");
    if (!isOurName(hostName(head.hosts.front())))
        throw ApiError(403, "Host is no name of this server; the loopback or the host asked for is wanted");
    for (const std::string &origin : head.origins)
        if (!isOurName(originName(origin)))
            throw ApiError(403, "Origin is a foreign site; pages of other sites may not use this server");
}

void AccessRules::checkKey(const RequestHead &head) const
{
    constexpr std::string_view scheme = "bearer ";
    std::string_view given = head.authorization;
    const bool hasScheme = given.size() >= scheme.size()
        && std::equal(scheme.begin(), scheme.end(), given.begin(),
                      [](char a, unsigned char b) { return a == static_cast<char>(std::tolower(b)); });
    if (hasScheme)
        given.remove_prefix(scheme.size());
    if (!hasScheme || !sameText(given, m_key))
        throw ApiError(401,
                       given.empty() ? "no API key was given; wanted the header \"Authorization: Bearer KEY\""
                                     : "the API key is wrong");
}

std::optional<HttpResponse> AccessRules::check(const RequestHead &head) const
{
    const std::string_view path = pathOf(head.target);
    try {
        checkNames(head);
        const Route route = findRoute(head.method, path);
        if (!m_key.empty() && route != Route::Health)
            checkKey(head);
        return std::nullopt;
    } catch (const ApiError &error) {
        HttpResponse response = errorResponse(error);
        if (error.status() == 405)
            response.headers.emplace_back("Allow", methodOf(path));
        return response;
    }
}

} // namespace serve
