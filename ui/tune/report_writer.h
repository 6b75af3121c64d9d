// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <QThreadPool>

namespace ui {

struct Comparison;
class Theme;

/// Writes a comparison into a file: Markdown, CSV or PNG by the ending of its name. What takes time, compressing and
/// writing, happens on a thread of its own.
///
/// Thread: UI.
class ReportWriter : public QObject {
    Q_OBJECT
public:
    explicit ReportWriter(Theme &theme, QObject *parent = nullptr);

    /// Answers with written() or failed(), never inside the call.
    void write(const Comparison &comparison, const QString &path);

signals:
    void written(const QString &path);
    /// `why` is a sentence that names the file.
    void failed(const QString &why);

private:
    Theme &m_theme;
    QThreadPool m_pool; ///< waits for its work before it goes
};

} // namespace ui
