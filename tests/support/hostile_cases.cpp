// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/hostile_cases.h"

#include "tests/support/shared_data.h"

#include <QJsonArray>
#include <QJsonDocument>
#include <QProcess>

namespace hostile {
namespace {

QStringList strings(const QJsonValue &array)
{
    QStringList out;
    for (const QJsonValue &item : array.toArray())
        out.append(item.toString());
    return out;
}

QString normal(const QString &text)
{
    return text.toLower().replace(QLatin1Char('_'), QLatin1Char(' '));
}

} // namespace

Cases::Cases()
{
    const QString manifest = shared_data::path(QStringLiteral("hostile/manifest.json"));
    if (manifest.isEmpty()) {
        m_problem = QStringLiteral("hostile/manifest.json is absent");
        return;
    }
    m_manifest = QJsonDocument::fromJson(shared_data::read(manifest)).object();
    const QJsonObject classes = m_manifest.value(QStringLiteral("error_classes")).toObject();
    for (auto it = classes.begin(); it != classes.end(); ++it)
        m_classes[it.key()] = strings(it.value());
    unpack();
}

void Cases::unpack()
{
    const QString archive = shared_data::path(QStringLiteral("hostile/cases.tar.xz"));
    QProcess tar;
    tar.start(QStringLiteral("tar"), {QStringLiteral("-xJf"), archive, QStringLiteral("-C"), m_dir.path()});
    if (archive.isEmpty() || !m_dir.isValid() || !tar.waitForFinished(60000) || tar.exitCode() != 0)
        m_problem = QStringLiteral("hostile/cases.tar.xz could not be unpacked");
}

QStringList Cases::expand(const QStringList &words) const
{
    QStringList out;
    for (const QString &word : words) {
        const auto known = word.startsWith(QLatin1Char('@')) ? m_classes.find(word.mid(1)) : m_classes.end();
        if (known != m_classes.end())
            out += known->second;
        else
            out.append(word);
    }
    return out;
}

Case Cases::read(const QJsonObject &entry) const
{
    Case out;
    out.json = entry;
    out.name = entry.value(QStringLiteral("name")).toString();
    out.category = entry.value(QStringLiteral("category")).toString();
    out.path = m_dir.filePath(entry.value(QStringLiteral("file")).toString());
    out.outcome = entry.value(QStringLiteral("outcome")).toString();
    out.stage = entry.value(QStringLiteral("stage")).toString();
    out.expected = entry.value(QStringLiteral("expected")).toString();
    for (const QJsonValue &words : entry.value(QStringLiteral("error_words")).toArray())
        out.errorWords.append(expand(strings(words)));
    const QJsonObject limits = entry.value(QStringLiteral("limits")).toObject();
    out.seconds = limits.value(QStringLiteral("seconds")).toDouble();
    out.extraMib = limits.value(QStringLiteral("extra_mib")).toDouble();
    out.outputKib = limits.value(QStringLiteral("output_kib")).toDouble();
    return out;
}

QList<Case> Cases::group(const QString &group) const
{
    QList<Case> out;
    for (const QJsonValue &entry : m_manifest.value(QStringLiteral("cases")).toArray()) {
        const QJsonObject object = entry.toObject();
        if (object.value(QStringLiteral("category")).toString().startsWith(group + QLatin1Char('/')))
            out.append(read(object));
    }
    return out;
}

Case Cases::control(const QString &group) const
{
    const QString name = m_manifest.value(QStringLiteral("controls")).toObject().value(group).toString();
    for (const Case &input : this->group(group)) {
        if (input.name == name)
            return input;
    }
    return {};
}

QString missingWords(const Case &input, const QString &error)
{
    const QString text = normal(error);
    for (const QStringList &words : input.errorWords) {
        bool found = false;
        for (const QString &word : words)
            found = found || text.contains(normal(word));
        if (!found)
            return words.join(QStringLiteral(" | "));
    }
    return {};
}

} // namespace hostile
