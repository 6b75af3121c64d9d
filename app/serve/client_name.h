// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <string>
#include <string_view>

namespace serve {

/// What views call the client of a request: the program that its User-Agent names, and the `user` of the request.
/// Short, without control characters, never empty; nothing of it can be trusted.
[[nodiscard]] std::string clientName(std::string_view userAgent, std::string_view user);

} // namespace serve
