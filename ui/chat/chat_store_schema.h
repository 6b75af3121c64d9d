// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QString>

class QSqlDatabase;
class QSqlError;

namespace ui::schema {

/// The version that this program writes (PRAGMA user_version).
[[nodiscard]] int currentVersion();

enum class Health {
    Good,    ///< migrated and ready
    Newer,   ///< written by a newer program
    Foreign, ///< a database of another program
    Damaged, ///< not a database, or its structure is broken
    Failed,  ///< could not be read or written now (locked, full, no permission)
};

struct CheckResult {
    Health health = Health::Good;
    QString detail; ///< SQLite's words, or the versions
};

/// Looks at an open database and, with `mayWrite`, brings it to the current version in one transaction.
[[nodiscard]] CheckResult prepare(QSqlDatabase &database, bool mayWrite);

/// Copies the readable rows of the damaged file at `path` into the good `database`; returns how many messages came
/// over.
int salvage(const QString &path, QSqlDatabase &database);

/// True for SQLite's "malformed" and "not a database".
[[nodiscard]] bool isDamage(const QSqlError &error);

} // namespace ui::schema
