// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/json.h"

#include <cstdint>
#include <optional>
#include <string>

namespace serve {

/// Reads the members of one object of a request; an absent one and null are the same. Every getter throws
/// ApiError 400 that names the field, what was found and what is wanted. Borrows the object.
class Fields {
public:
    /// `where` leads the names of fields in errors: "" or "stream_options.".
    explicit Fields(const Json &object, std::string where = {});

    [[nodiscard]] const Json *find(const char *key) const;
    [[nodiscard]] std::optional<std::string> text(const char *key) const;
    [[nodiscard]] std::optional<bool> boolean(const char *key) const;
    [[nodiscard]] std::optional<std::int64_t> integer(const char *key, std::int64_t min, std::int64_t max) const;
    [[nodiscard]] std::optional<double> number(const char *key, double min, double max) const;
    [[nodiscard]] const Json *object(const char *key) const;
    [[nodiscard]] const Json *list(const char *key) const;

    /// A member that is known but not supported; anything but null, false and empty values is refused.
    void refuse(const char *key, const char *why) const;
    [[noreturn]] void wrong(const char *key, const std::string &found, const std::string &wanted) const;

private:
    [[noreturn]] void wrongType(const char *key, const Json &value, const char *wanted) const;

    const Json &m_object;
    std::string m_where;
};

} // namespace serve
