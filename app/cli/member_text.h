// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cli {

/// The text of a member of a JSON object just as it stands there, or nothing when there is no such member or it is
/// null. \pre the text is valid JSON, of an object
[[nodiscard]] std::optional<std::string> memberText(std::string_view object, std::string_view key);

} // namespace cli
