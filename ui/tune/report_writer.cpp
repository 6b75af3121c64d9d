// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/tune/report_writer.h"

#include "ui/tune/tune_report.h"

#include <QBuffer>
#include <QSaveFile>

#include <functional>

namespace ui {

namespace {

QByteArray pngOf(const QImage &image)
{
    QByteArray bytes;
    QBuffer buffer(&bytes);
    buffer.open(QIODevice::WriteOnly);
    image.save(&buffer, "PNG");
    return bytes;
}

/// Empty, or what the system says.
QString writeFile(const QString &path, const QByteArray &bytes)
{
    QSaveFile file(path);
    if (file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size() && file.commit())
        return {};
    return file.errorString();
}

} // namespace

ReportWriter::ReportWriter(Theme &theme, QObject *parent)
    : QObject(parent)
    , m_theme(theme)
{
    m_pool.setMaxThreadCount(1);
}

void ReportWriter::write(const Comparison &comparison, const QString &path)
{
    std::function<QByteArray()> bytes;
    const auto endsIn = [&path](const char *ending) {
        return path.endsWith(QLatin1String(ending), Qt::CaseInsensitive);
    };
    if (endsIn(".md"))
        bytes = [text = reportMarkdown(comparison)] { return text.toUtf8(); };
    else if (endsIn(".csv"))
        bytes = [text = reportCsv(comparison)] { return text.toUtf8(); };
    else if (endsIn(".png"))
        bytes = [image = reportImage(m_theme, comparison)] { return pngOf(image); };
    m_pool.start([this, path, bytes] {
        const QString fault = bytes ? writeFile(path, bytes()) : tr("its name ends in none of .md, .csv and .png");
        QMetaObject::invokeMethod(
            this,
            [this, path, fault] {
                if (fault.isEmpty())
                    emit written(path);
                else
                    emit failed(tr("“%1” was not written: %2").arg(path, fault));
            },
            Qt::QueuedConnection);
    });
}

} // namespace ui
