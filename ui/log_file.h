// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFile>
#include <QString>

namespace ui {

/// Qt's messages in a file of $XDG_STATE_HOME/lathe, besides stderr. At 1 MiB the file is renamed to ".old" and begun
/// again. While one exists it is Qt's message handler; a folder that cannot be written leaves stderr alone.
///
/// Thread: made and destroyed on the UI thread; messages may come from any.
class LogFile {
public:
    explicit LogFile(const QString &folder);
    ~LogFile();
    LogFile(const LogFile &) = delete;
    LogFile &operator=(const LogFile &) = delete;

    [[nodiscard]] QString path() const { return m_path; }

    static constexpr qint64 limitBytes = 1 << 20;

private:
    QString m_path;
};

} // namespace ui
