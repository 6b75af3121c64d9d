// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/http.h"

#include <array>
#include <cstdio>

namespace serve {
namespace {

const char *phraseOf(int status)
{
    static constexpr std::array<std::pair<int, const char *>, 15> phrases{{{200, "OK"},
                                                                           {400, "Bad Request"},
                                                                           {401, "Unauthorized"},
                                                                           {403, "Forbidden"},
                                                                           {404, "Not Found"},
                                                                           {405, "Method Not Allowed"},
                                                                           {408, "Request Timeout"},
                                                                           {413, "Content Too Large"},
                                                                           {414, "URI Too Long"},
                                                                           {415, "Unsupported Media Type"},
                                                                           {417, "Expectation Failed"},
                                                                           {429, "Too Many Requests"},
                                                                           {431, "Request Header Fields Too Large"},
                                                                           {500, "Internal Server Error"},
                                                                           {503, "Service Unavailable"}}};
    for (const auto &[code, phrase] : phrases)
        if (code == status)
            return phrase;
    return "Unknown";
}

} // namespace

std::string headText(const HttpResponse &response, Framing framing, bool keepAlive)
{
    std::string text = "HTTP/1.1 " + std::to_string(response.status) + ' ' + phraseOf(response.status) + "\r\n";
    text += "Server: lathe\r\nContent-Type: " + response.contentType + "\r\nX-Content-Type-Options: nosniff\r\n";
    for (const auto &[name, value] : response.headers)
        text += name + ": " + value + "\r\n";
    if (framing == Framing::Length)
        text += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    else if (framing == Framing::Chunks)
        text += "Transfer-Encoding: chunked\r\n";
    text += keepAlive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
    return text;
}

std::string chunk(const std::string &data)
{
    std::array<char, 20> size{};
    (void)std::snprintf(size.data(), size.size(), "%zx\r\n", data.size());
    return size.data() + data + "\r\n";
}

} // namespace serve
