// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/inspect.h"
#include "engine/io/safetensors_reader.h"
#include "engine/models/model_files.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QTest>

#include <cstring>
#include <functional>
#include <memory>
#include <random>

namespace {

/// The error of `action`, without the paths in which a word might be found; empty when it went well.
QString errorOf(const QString &folder, const std::function<void()> &action)
{
    try {
        action();
    } catch (const engine::Error &error) { // any other exception fails the test
        return QString::fromStdString(error.what()).remove(folder);
    }
    return {};
}

/// Peak resident KiB of this process since the last resetPeak(); 0 where the system does not tell.
qint64 peakKib()
{
    QFile status("/proc/self/status");
    if (!status.open(QIODevice::ReadOnly))
        return 0;
    for (const QByteArray &line : status.readAll().split('\n')) {
        if (line.startsWith("VmHWM:"))
            return line.mid(6).simplified().split(' ').front().toLongLong();
    }
    return 0;
}

bool resetPeak()
{
    QFile control("/proc/self/clear_refs");
    return control.open(QIODevice::WriteOnly) && control.write("5") == 1;
}

/// Reads a file's bytes; the error, or empty when they were accepted and all that was accepted lies in the file.
QString readInMemory(const QByteArray &bytes)
{
    try {
        const auto view = std::as_bytes(std::span(bytes.constData(), static_cast<std::size_t>(bytes.size())));
        for (const engine::SafetensorsTensor &tensor : engine::readSafetensors(view, "input").tensors) {
            const auto size = static_cast<std::uint64_t>(bytes.size());
            if (tensor.offset > size || tensor.bytes > size - tensor.offset)
                qFatal("an accepted tensor lies outside the file");
        }
        return {};
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
}

} // namespace

/// Files, indexes and configurations that lie: every case ends as the collection says, inside its limits.
class SafetensorsHostileTest : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void cases_data();
    void cases();
    void everyCaseIsCovered();
    void sweeps_data();
    void sweeps();
    void headerOverTheLimit();
    void randomDamage();

private:
    [[nodiscard]] QByteArray control() const;

    hostile::Cases m_cases;
};

void SafetensorsHostileTest::initTestCase()
{
    if (!m_cases.problem().isEmpty())
        QSKIP(qPrintable(m_cases.problem()));
}

QByteArray SafetensorsHostileTest::control() const
{
    return shared_data::read(m_cases.control("safetensors").path);
}

void SafetensorsHostileTest::cases_data()
{
    QTest::addColumn<int>("index");
    const auto cases = m_cases.group("safetensors");
    for (int i = 0; i < cases.size(); ++i)
        QTest::addRow("%s", qPrintable(cases[i].name)) << i;
}

/// Each file alone, and as the part of a folder that it stands for.
void SafetensorsHostileTest::cases()
{
    QFETCH(int, index);
    const hostile::Case input = m_cases.group("safetensors").at(index);
    const bool isIndex = input.path.endsWith(".index.json");
    const bool isConfig = input.path.endsWith(".config.json");
    const QTemporaryDir folder;
    const QString alone = folder.filePath(isIndex ? "a.index.json" : isConfig ? "a.config.json" : "a.safetensors");
    QVERIFY(QFile::copy(input.path, alone));
    const QTemporaryDir whole;
    const char *usual = isIndex ? "model.safetensors.index.json" : isConfig ? "config.json" : "model.safetensors";
    QVERIFY(QFile::copy(input.path, whole.filePath(usual)));
    const bool measured = !shared_data::sanitized && resetPeak();
    const qint64 idleKib = peakKib();
    for (const QString &path : {alone, whole.path()}) {
        QElapsedTimer timer;
        timer.start();
        const QString error = errorOf(QFileInfo(path).isDir() ? path : folder.path(),
                                      [&path] { (void)engine::inspectModel(path.toStdString(), true, true); });
        const double seconds = static_cast<double>(timer.nsecsElapsed()) / 1e9;
        if (input.outcome == "accept")
            QVERIFY2(error.isEmpty(), qPrintable(error));
        if (input.outcome == "refuse")
            QVERIFY2(!error.isEmpty(), qPrintable("accepted, but: " + input.expected));
        if (!error.isEmpty())
            QVERIFY2(hostile::missingWords(input, error).isEmpty(),
                     qPrintable(hostile::missingWords(input, error) + " is not in: " + error));
        QVERIFY(!error.contains('\n'));
        QVERIFY2(seconds <= input.seconds * (shared_data::sanitized ? 10 : 1), qPrintable(QString::number(seconds)));
    }
    if (measured)
        QVERIFY2(static_cast<double>(peakKib() - idleKib) / 1024 <= input.extraMib,
                 qPrintable(QString::number(peakKib() - idleKib) + " KiB"));
    QCOMPARE(readInMemory(control()), QString());
}

void SafetensorsHostileTest::everyCaseIsCovered()
{
    QVERIFY(m_cases.group("safetensors").size() >= 51);
}

void SafetensorsHostileTest::sweeps_data()
{
    QTest::addColumn<QJsonObject>("sweep");
    for (const auto &value : m_cases.manifest().value("sweeps").toArray()) {
        const QJsonObject sweep = value.toObject();
        const QString base = sweep.value("base").toString();
        if (base.startsWith("safetensors/"))
            QTest::addRow("%s of %s", qPrintable(sweep.value("op").toString()), qPrintable(base)) << sweep;
    }
}

void SafetensorsHostileTest::sweeps()
{
    QFETCH(QJsonObject, sweep);
    const QByteArray base = control();
    QVERIFY(!base.isEmpty());
    if (sweep.value("op") == "truncate") {
        for (qsizetype length = 0; length < base.size(); ++length)
            QVERIFY2(!readInMemory(base.left(length)).isEmpty(), qPrintable(QString::number(length)));
        return;
    }
    QCOMPARE(sweep.value("op").toString(), QStringLiteral("flip_bit"));
    int refused = 0;
    for (qsizetype bit = 0; bit < base.size() * 8; ++bit) {
        QByteArray bytes = base;
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
        refused += readInMemory(bytes).isEmpty() ? 0 : 1;
    }
    QVERIFY(refused > 0 && refused < base.size() * 8);
}

/// The recipe st_sparse_hdr_over_limit.
void SafetensorsHostileTest::headerOverTheLimit()
{
    const QTemporaryDir folder;
    QFile file(folder.filePath("a.safetensors"));
    QVERIFY(file.open(QIODevice::WriteOnly));
    const std::uint64_t length = 100'000'001;
    QByteArray start(8, '\0');
    std::memcpy(start.data(), &length, 8);
    file.write(start + "{");
    QVERIFY(file.resize(100'000'009));
    file.close();
    QElapsedTimer timer;
    timer.start();
    const QString error =
        errorOf(folder.path(), [&file] { (void)engine::inspectModel(file.fileName().toStdString()); });
    QVERIFY2(error.contains("header") && error.contains("too large"), qPrintable(error));
    QVERIFY(timer.elapsed() < 2000);
}

/// Bytes overwritten, cut out, doubled; the seed is fixed.
void SafetensorsHostileTest::randomDamage()
{
    const QByteArray base = control();
    std::mt19937 random(20240518);
    const auto below = [&random](qsizetype limit) {
        return static_cast<qsizetype>(random() % static_cast<std::uint64_t>(limit));
    };
    const int rounds = shared_data::fullTier() ? 100000 : 3000;
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
        QByteArray bytes = base;
        for (qsizetype fault = below(3); fault >= 0; --fault) {
            const qsizetype at = below(bytes.size());
            const QByteArray run = bytes.mid(at, 1 + below(12));
            if (const qsizetype kind = below(3); kind == 0)
                bytes[at] = static_cast<char>(random());
            else if (kind == 1 && run.size() < bytes.size())
                bytes.remove(at, run.size());
            else
                bytes.insert(at, run);
        }
        refused += readInMemory(bytes).isEmpty() ? 0 : 1;
    }
    QVERIFY(refused > 0 && refused < rounds);
}

QTEST_GUILESS_MAIN(SafetensorsHostileTest)
#include "tst_safetensors_hostile.moc"
