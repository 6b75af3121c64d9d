// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/http.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace serve {

enum class Route {
    Models,
    Model,
    ChatCompletions,
    Completions,
    Tokenize,
    Detokenize,
    ApplyTemplate,
    Health,
    Metrics,
    Slots
};

/// The path of a target, without the query.
[[nodiscard]] std::string_view pathOf(std::string_view target);

/// \throws ApiError 404 for an unknown path, 405 for a path that knows other methods
[[nodiscard]] Route findRoute(std::string_view method, std::string_view path);
/// The methods of a path for the Allow header, or null.
[[nodiscard]] const char *methodOf(std::string_view path);

/// The name of a `Host` value or of an origin's authority: without the port, in lower case; empty when malformed.
[[nodiscard]] std::string hostName(std::string_view authority);

/// Who may ask. The checks are made in the order of check(): Host, Origin, path and method, key.
/// Immutable; any thread.
class AccessRules {
public:
    /// `host`: the address or name served. An empty `key` lets everybody in.
    AccessRules(std::string host, std::string key, std::vector<std::string> otherNames = {});

    /// The error that a request gets for its head, or nothing.
    [[nodiscard]] std::optional<HttpResponse> check(const RequestHead &head) const;
    /// Whether a page or program may call us by this name: the loopback, the host asked for, or another one listed.
    /// Where every address is served, any written as numbers: only names can be bound anew.
    [[nodiscard]] bool isOurName(const std::string &name) const;

private:
    void checkNames(const RequestHead &head) const;
    void checkKey(const RequestHead &head) const;

    std::string m_host;
    std::string m_key;
    std::vector<std::string> m_names;
    bool m_everyAddress;
};

} // namespace serve
