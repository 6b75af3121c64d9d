// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/api_error.h"

#include "app/serve/json.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace serve {
namespace {

/// OpenAI's words for a status: the type and the code of an error.
std::pair<const char *, const char *> wordsOf(int status)
{
    switch (status) {
    case 401:
        return {"authentication_error", "invalid_api_key"};
    case 403:
        return {"permission_error", "forbidden"};
    case 404:
        return {"not_found_error", "not_found"};
    case 405:
        return {"invalid_request_error", "method_not_allowed"};
    case 408:
        return {"timeout_error", "request_timeout"};
    case 413:
        return {"invalid_request_error", "request_too_large"};
    case 415:
        return {"invalid_request_error", "unsupported_media_type"};
    case 429:
        return {"rate_limit_error", "queue_full"};
    case 431:
        return {"invalid_request_error", "header_too_large"};
    case 503:
        return {"unavailable_error", "unavailable"};
    default:
        return status >= 500 ? std::pair("server_error", "internal_error")
                             : std::pair("invalid_request_error", "invalid_request");
    }
}

} // namespace

ApiError::ApiError(int status, const std::string &message, std::string param)
    : std::runtime_error(message)
    , m_status(status)
    , m_param(std::move(param))
{
}

std::string errorJson(const ApiError &error)
{
    const auto [type, code] = wordsOf(error.status());
    const Json param = error.param().empty() ? Json(nullptr) : Json(error.param());
    return dump({{"error", {{"message", error.what()}, {"type", type}, {"param", param}, {"code", code}}}});
}

HttpResponse errorResponse(const ApiError &error)
{
    HttpResponse response;
    response.status = error.status();
    response.body = errorJson(error);
    if (error.retryAfter)
        response.headers.emplace_back("Retry-After", std::to_string(*error.retryAfter));
    if (error.status() == 401)
        response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
}

ApiError fromEngine(engine::ErrorCode code, const std::string &message)
{
    switch (code) {
    case engine::ErrorCode::InvalidArgument:
    case engine::ErrorCode::Refused:
        return {400, message};
    case engine::ErrorCode::OutOfMemory: {
        ApiError error(503, message);
        error.retryAfter = 1;
        return error;
    }
    case engine::ErrorCode::Busy:
        return {429, message};
    default:
        return {500, message};
    }
}

ApiError fromFinished(const engine::RequestFinished &finished)
{
    if (finished.reason == engine::FinishReason::Cancelled)
        return {503, "the request was cancelled: the server stops or the model was changed"};
    ApiError error = fromEngine(finished.code, finished.error);
    if (error.status() == 429)
        error.retryAfter = std::max(1, static_cast<int>(std::ceil(finished.retryAfterSeconds)));
    return error;
}

} // namespace serve
