// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QJsonObject>
#include <QList>
#include <QString>
#include <QStringList>
#include <QTemporaryDir>

#include <map>

/// The collection of malformed and hostile inputs in the reference data (hostile/manifest.json).
namespace hostile {

/// One input and what must become of it.
struct Case {
    QString name;
    QString category; ///< group/part
    QString path;     ///< absolute path of the unpacked file
    QString outcome;  ///< accept, refuse, either or bounded
    QString stage;
    QString expected;              ///< the right behaviour in words
    QList<QStringList> errorWords; ///< every inner list needs one hit; `@class` already expanded
    double seconds = 0;
    double extraMib = 0;  ///< memory above idle
    double outputKib = 0; ///< 0 where the manifest has no limit
    QJsonObject json;     ///< the manifest's own entry
};

/// All cases, unpacked for as long as this lives.
class Cases {
public:
    Cases();

    /// Empty when the cases are there, else the file that is missing or what failed; tests then skip with it.
    [[nodiscard]] const QString &problem() const { return m_problem; }
    /// Cases whose category begins with `group`/.
    [[nodiscard]] QList<Case> group(const QString &group) const;
    /// The case of a group that must still work after every other one.
    [[nodiscard]] Case control(const QString &group) const;
    [[nodiscard]] const QJsonObject &manifest() const { return m_manifest; }

private:
    void unpack();
    [[nodiscard]] Case read(const QJsonObject &entry) const;
    [[nodiscard]] QStringList expand(const QStringList &words) const;

    QTemporaryDir m_dir;
    QString m_problem;
    QJsonObject m_manifest;
    std::map<QString, QStringList> m_classes;
};

/// Empty when the error text holds what the case asks for, else the list of words none of which was found.
[[nodiscard]] QString missingWords(const Case &input, const QString &error);

} // namespace hostile
