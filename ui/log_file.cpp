// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/log_file.h"

#include <QDateTime>
#include <QDir>
#include <QMessageLogContext>

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace ui {

namespace {

// A handler is a plain function, so what it writes to has to outlive objects. The descriptor is opened to append and
// each message is one write, which keeps lines of several threads whole without a lock.
int logDescriptor = -1;
QtMessageHandler previousHandler = nullptr;

const char *levelName(QtMsgType type)
{
    switch (type) {
    case QtDebugMsg:
        return "debug";
    case QtInfoMsg:
        return "info";
    case QtWarningMsg:
        return "warning";
    case QtCriticalMsg:
        return "critical";
    case QtFatalMsg:
        return "fatal";
    }
    return "info";
}

void write(QtMsgType type, const QMessageLogContext &context, const QString &message)
{
    const QByteArray line = QDateTime::currentDateTime().toString(Qt::ISODateWithMs).toUtf8() + ' ' + levelName(type)
        + ' ' + message.toUtf8() + '\n';
    if (logDescriptor >= 0 && ::write(logDescriptor, line.constData(), std::size_t(line.size())) < 0)
        logDescriptor = -1; // a full disk must not fail every message from now on
    if (previousHandler && type != QtInfoMsg && type != QtDebugMsg)
        previousHandler(type, context, message);
}

} // namespace

LogFile::LogFile(const QString &folder)
    : m_path(folder + QStringLiteral("/lathe.log"))
{
    QDir().mkpath(folder);
    if (QFile(m_path).size() > limitBytes) {
        QFile::remove(m_path + QStringLiteral(".old"));
        QFile::rename(m_path, m_path + QStringLiteral(".old"));
    }
    logDescriptor = ::open(QFile::encodeName(m_path).constData(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (logDescriptor < 0)
        m_path.clear();
    previousHandler = qInstallMessageHandler(write);
}

LogFile::~LogFile()
{
    qInstallMessageHandler(previousHandler);
    if (logDescriptor >= 0)
        ::close(logDescriptor);
    logDescriptor = -1;
}

} // namespace ui
