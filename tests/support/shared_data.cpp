// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/shared_data.h"

#include <lzma.h>

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QStandardPaths>

namespace shared_data {
namespace {

QByteArray unpackXz(const QByteArray &packed)
{
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, UINT64_MAX, 0) != LZMA_OK)
        return {};
    QByteArray out;
    QByteArray chunk(1 << 20, Qt::Uninitialized);
    stream.next_in = reinterpret_cast<const uint8_t *>(packed.constData());
    stream.avail_in = static_cast<size_t>(packed.size());
    lzma_ret result = LZMA_OK;
    while (result == LZMA_OK) {
        stream.next_out = reinterpret_cast<uint8_t *>(chunk.data());
        stream.avail_out = static_cast<size_t>(chunk.size());
        result = lzma_code(&stream, LZMA_FINISH);
        out.append(chunk.constData(), chunk.size() - static_cast<qsizetype>(stream.avail_out));
    }
    lzma_end(&stream);
    return result == LZMA_STREAM_END ? out : QByteArray();
}

} // namespace

QString dir()
{
    const QString wanted = qEnvironmentVariable("LATHE_SHARED_DIR", QStringLiteral(LATHE_SHARED_DEFAULT));
    return QFileInfo(wanted).isDir() ? QDir(wanted).canonicalPath() : QString();
}

QString path(const QString &relative)
{
    const QString base = dir();
    const QString full = base + QLatin1Char('/') + relative;
    return !base.isEmpty() && QFileInfo::exists(full) ? full : QString();
}

QByteArray read(const QString &path)
{
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly))
        return {};
    const QByteArray bytes = file.readAll();
    return path.endsWith(QStringLiteral(".xz")) ? unpackXz(bytes) : bytes;
}

QString demoModel()
{
    QString file = qEnvironmentVariable("LATHE_DEMO_MODEL");
    if (file.isEmpty())
        file = QStandardPaths::writableLocation(QStandardPaths::GenericDataLocation)
            + QStringLiteral("/lathe/models/SmolLM2-135M-Instruct.Q4_1.gguf");
    return QFileInfo(file).isFile() ? file : QString();
}

QString data(const QString &name)
{
    return QStringLiteral(LATHE_TEST_DATA "/") + name;
}

bool fullTier()
{
    return qEnvironmentVariable("LATHE_TEST_TIER") == QStringLiteral("full");
}

} // namespace shared_data
