// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/core/json.h"

#include <QByteArray>
#include <QString>

#include <vector>

/// Recorded renders of chat templates, in the form of goldens/template of the reference data.
namespace template_goldens {

using engine::Json;

/// The JSON objects of a file with one a line; a `.xz` file is unpacked.
[[nodiscard]] std::vector<Json> lines(const QString &path);

/// One template and what it gave for every conversation.
struct Golden {
    QString name;
    std::string source;
    Json specialTokens;
    std::vector<Json> rows;
};
/// All templates of a folder that have recorded renders.
[[nodiscard]] std::vector<Golden> goldens(const QString &folder);

/// The date at which all of them were rendered.
inline constexpr const char *kDate = "2024-07-26T12:34:56";

} // namespace template_goldens
