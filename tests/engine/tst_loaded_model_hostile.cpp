// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/loaded_model.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"
#include "tests/support/tiny_model.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QTemporaryDir>
#include <QtTest>

#include <cmath>

using engine::EngineConfig;
using engine::Error;
using engine::ErrorCode;
using engine::LoadedModel;

namespace {

/// The fault of loading a file and computing a few tokens with it; empty when both went well.
QString faultOf(const QString &file, bool reference)
{
    try {
        EngineConfig config;
        config.backend = reference ? engine::BackendKind::Reference : engine::BackendKind::Auto;
        config.threads = 1;
        LoadedModel model(file.toStdString(), config, {}, {});
        const std::vector<float> logits = tiny_model::allLogits(model.runner(), {1, 2, 3}, 0, 16);
        if (!std::all_of(logits.begin(), logits.end(), [](float value) { return std::isfinite(value); }))
            return QStringLiteral("model output is not a number");
    } catch (const Error &error) {
        if (error.code() != ErrorCode::Refused && error.code() != ErrorCode::OutOfMemory)
            return QStringLiteral("wrong kind of error: ") + QString::fromUtf8(error.what());
        return QString::fromUtf8(error.what());
    }
    return {};
}

/// Peak resident memory since the last reset, in MiB; 0 where the system does not say.
double peakMib()
{
    QFile file(QStringLiteral("/proc/self/status"));
    if (!file.open(QIODevice::ReadOnly))
        return 0;
    for (const QByteArray &line : file.readAll().split('\n')) {
        if (line.startsWith("VmHWM:"))
            return line.mid(6).trimmed().split(' ').first().toDouble() / 1024;
    }
    return 0;
}

void resetPeak()
{
    QFile file(QStringLiteral("/proc/self/clear_refs"));
    if (file.open(QIODevice::WriteOnly))
        file.write("5");
}

} // namespace

/// Whole models that lie: every case ends as the collection says, inside its limits, and the control works after it.
class LoadedModelHostileTest : public QObject {
    Q_OBJECT
private slots:
    void initTestCase();
    void cases_data();
    void cases();
    void flippedBits();

private:
    hostile::Cases m_cases;
};

void LoadedModelHostileTest::initTestCase()
{
    if (!m_cases.problem().isEmpty())
        QSKIP(qPrintable(m_cases.problem()));
}

void LoadedModelHostileTest::cases_data()
{
    QTest::addColumn<int>("index");
    QTest::addColumn<bool>("reference");
    const QList<hostile::Case> all = m_cases.group(QStringLiteral("gguf"));
    for (int i = 0; i < all.size(); ++i) {
        if (all[i].stage == QStringLiteral("parse") || all[i].stage == QStringLiteral("ui"))
            continue; // container faults and labels; such files are no whole models
        QTest::newRow(qPrintable(all[i].name + QStringLiteral(" reference"))) << i << true;
        QTest::newRow(qPrintable(all[i].name + QStringLiteral(" cpu"))) << i << false;
    }
}

void LoadedModelHostileTest::cases()
{
    QFETCH(int, index);
    QFETCH(bool, reference);
    const hostile::Case input = m_cases.group(QStringLiteral("gguf"))[index];
    const double idle = peakMib();
    resetPeak();
    QElapsedTimer timer;
    timer.start();
    const QString fault = faultOf(input.path, reference);
    QVERIFY2(timer.elapsed() <= input.seconds * 1e3, qPrintable(QString::number(timer.elapsed())));
    QVERIFY2(peakMib() - idle <= input.extraMib, qPrintable(QString::number(peakMib() - idle)));
    const bool mayFail = input.outcome != QStringLiteral("accept");
    QVERIFY2(fault.isEmpty() ? input.outcome != QStringLiteral("refuse") : mayFail,
             qPrintable(input.expected + QStringLiteral(" Found: ") + fault));
    if (!fault.isEmpty()) {
        const QString missing = hostile::missingWords(input, fault);
        QVERIFY2(missing.isEmpty(), qPrintable(fault + QStringLiteral(" lacks ") + missing));
        QVERIFY2(!fault.contains(QStringLiteral("wrong kind")), qPrintable(fault));
        QVERIFY2(!fault.contains(QLatin1Char('\n')), qPrintable(fault));
    }
    QCOMPARE(faultOf(m_cases.control(QStringLiteral("gguf")).path, reference), QString());
}

/// Single wrong bits anywhere in the header: taken or refused, never worse.
void LoadedModelHostileTest::flippedBits()
{
    const QByteArray good = shared_data::read(m_cases.control(QStringLiteral("gguf")).path);
    QTemporaryDir dir;
    const QString path = dir.filePath(QStringLiteral("flipped.gguf"));
    const int step = shared_data::fullTier() ? 1 : 61;
    int taken = 0;
    int refused = 0;
    for (int bit = 0; bit < 9000 * 8; bit += step) {
        QByteArray bytes = good;
        bytes[bit / 8] = static_cast<char>(static_cast<unsigned char>(bytes[bit / 8]) ^ (1U << (bit % 8)));
        QFile::remove(path);
        QFile file(path);
        QVERIFY(file.open(QIODevice::WriteOnly) && file.write(bytes) == bytes.size());
        file.close();
        QElapsedTimer timer;
        timer.start();
        const QString fault = faultOf(path, false);
        QVERIFY2(!fault.contains(QStringLiteral("wrong kind")),
                 qPrintable(QStringLiteral("bit %1: ").arg(bit) + fault));
        QVERIFY2(timer.elapsed() < 2000, qPrintable(QString::number(bit)));
        ++(fault.isEmpty() ? taken : refused);
    }
    qInfo("%d taken, %d refused", taken, refused);
    QVERIFY(taken > 0 && refused > 0);
}

QTEST_GUILESS_MAIN(LoadedModelHostileTest)
#include "tst_loaded_model_hostile.moc"
