// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/tiny_golden.h"

#include "tests/support/shared_data.h"

#include <QDir>
#include <QJsonDocument>
#include <QJsonObject>

#include <cstring>

namespace tiny_model {

std::vector<int> idsOf(const QJsonValue &value)
{
    std::vector<int> ids;
    for (const QJsonValue &id : value.toArray())
        ids.push_back(id.toInt());
    return ids;
}

Golden readGolden(const QString &folder)
{
    Golden golden;
    const QJsonObject json =
        QJsonDocument::fromJson(shared_data::read(folder + QStringLiteral("/golden.json"))).object();
    for (const QJsonValue &prompt : json[QStringLiteral("prompts")].toArray())
        golden.prompts.push_back(idsOf(prompt));
    golden.greedy = json[QStringLiteral("greedy")].toArray();
    golden.limit = json[QStringLiteral("limit")].toDouble(golden.limit);
    const QByteArray bytes = shared_data::read(folder + QStringLiteral("/logits.f32"));
    golden.logits.resize(static_cast<std::size_t>(bytes.size()) / sizeof(float));
    std::memcpy(golden.logits.data(), bytes.constData(), golden.logits.size() * sizeof(float));
    return golden;
}

QString ggufOf(const QString &folder)
{
    const QStringList files = QDir(folder).entryList({QStringLiteral("*-f16.gguf")}, QDir::Files);
    return files.isEmpty() ? QString() : folder + QLatin1Char('/') + files.front();
}

} // namespace tiny_model
