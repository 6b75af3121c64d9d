// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/http.h"
#include "engine/api/error.h"
#include "engine/api/events.h"

#include <optional>
#include <stdexcept>
#include <string>

namespace serve {

/// A request that gets an error for an answer: the HTTP status and OpenAI's fields.
class ApiError : public std::runtime_error {
public:
    ApiError(int status, const std::string &message, std::string param = {});

    [[nodiscard]] int status() const { return m_status; }
    [[nodiscard]] const std::string &param() const { return m_param; } ///< the field at fault, or empty

    std::optional<int> retryAfter; ///< seconds, for 429 and 503

private:
    int m_status;
    std::string m_param;
};

/// The error object alone, as streams send it: {"error":{message,type,param,code}}.
[[nodiscard]] std::string errorJson(const ApiError &error);
[[nodiscard]] HttpResponse errorResponse(const ApiError &error);

/// How an engine failure is told to a client.
[[nodiscard]] ApiError fromEngine(engine::ErrorCode code, const std::string &message);
/// \pre the request was not answered: it failed or was cancelled
[[nodiscard]] ApiError fromFinished(const engine::RequestFinished &finished);

} // namespace serve
