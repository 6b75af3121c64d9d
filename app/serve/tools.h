// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "app/serve/fields.h"
#include "engine/api/request.h"

#include <optional>
#include <string>

namespace serve {

/// The tools of a chat and how they are to be chosen. A choice that forces a call makes the answer JSON of the tool's
/// parameters; `forced` then says which tool, see CompletionRequest::forcedTool. \throws ApiError 400
void readTools(const Fields &fields, engine::Request &request, std::optional<std::string> &forced);

} // namespace serve
