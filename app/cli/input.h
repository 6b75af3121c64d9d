// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/cli/output.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cli {

/// A whole file; "-" is standard input. \throws Error Refused naming the file
[[nodiscard]] std::string readFile(const std::string &path);

/// One JSON text with a limit on nesting. \throws Error Refused naming `what` and the byte
[[nodiscard]] Json parseJson(const std::string &text, const std::string &what);

/// Works through the lines of standard input: each gives one result line, a bad one `{"error":…}` in its place.
/// `work` may throw engine::Error. An empty line is a bad one, so that results keep their places. Ends early on a stop
/// request.
void forEachLine(const std::function<bool()> &stopped, const std::function<Json(const Json &)> &work);
/// The same; `work` is given the line's text too.
void forEachLine(const std::function<bool()> &stopped,
                 const std::function<Json(const Json &, const std::string &)> &work);

/// The next line of standard input, or nothing at its end.
[[nodiscard]] std::optional<std::string> readLine();

/// Typed members of a request object; a wrong type is Error Refused naming the key. Absent and null give `fallback`.
[[nodiscard]] const Json *member(const Json &object, const char *key); ///< null when absent or null
[[nodiscard]] bool boolMember(const Json &object, const char *key, bool fallback);
[[nodiscard]] std::int64_t integerMember(const Json &object, const char *key, std::int64_t fallback);
[[nodiscard]] std::optional<std::uint64_t> seedMember(const Json &object, const char *key);
[[nodiscard]] double numberMember(const Json &object, const char *key, double fallback);
[[nodiscard]] std::string textMember(const Json &object, const char *key);               ///< must be there
[[nodiscard]] std::vector<int> idsMember(const Json &object, const char *key);           ///< must be there
[[nodiscard]] std::vector<std::string> textsMember(const Json &object, const char *key); ///< one text or a list
[[nodiscard]] std::vector<int> idList(const Json &list, const std::string &what);

} // namespace cli
