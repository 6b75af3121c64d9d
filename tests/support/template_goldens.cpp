// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/template_goldens.h"

#include "engine/core/json_exact.h"
#include "tests/support/shared_data.h"

#include <QDir>

namespace template_goldens {

std::vector<Json> lines(const QString &path)
{
    std::vector<Json> out;
    for (const QByteArray &line : shared_data::read(path).split('\n')) {
        if (!line.trimmed().isEmpty())
            out.push_back(engine::parseJsonExact(line.toStdString(), path.toStdString()));
    }
    return out;
}

std::vector<Golden> goldens(const QString &folder)
{
    std::vector<Golden> out;
    const QDir dir(folder);
    for (const QString &file : dir.entryList({QStringLiteral("*.jinja")}, QDir::Files, QDir::Name)) {
        Golden golden;
        golden.name = file.chopped(6);
        golden.source = shared_data::read(dir.filePath(file)).toStdString();
        golden.specialTokens = lines(dir.filePath(golden.name + QStringLiteral(".special.json"))).at(0);
        golden.rows = lines(dir.filePath(golden.name + QStringLiteral(".jsonl.xz")));
        out.push_back(std::move(golden));
    }
    return out;
}

} // namespace template_goldens
