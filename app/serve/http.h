// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace serve {

/// What of a request's head matters here.
struct RequestHead {
    std::string method;
    std::string target;
    std::vector<std::string> hosts;   ///< values of all Host lines
    std::vector<std::string> origins; ///< values of all Origin lines
    std::string authorization;
    std::string contentType;
    std::string contentEncoding;
    std::string userAgent;
};

struct HttpRequest {
    RequestHead head;
    std::string body;
};

struct HttpResponse {
    int status = 200;
    std::string contentType = "application/json";
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
};

/// How a client finds the end of a body.
enum class Framing { Length, Chunks, Close };

/// The status line and headers, with the empty line. `keepAlive`: whether the connection stays open.
[[nodiscard]] std::string headText(const HttpResponse &response, Framing framing, bool keepAlive);

/// One chunk of a chunked body. \pre `data` is not empty
[[nodiscard]] std::string chunk(const std::string &data);

} // namespace serve
