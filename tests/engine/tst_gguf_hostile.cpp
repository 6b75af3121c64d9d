// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/inspect.h"
#include "engine/io/checkpoint.h"
#include "engine/io/gguf_reader.h"
#include "tests/support/hostile_cases.h"
#include "tests/support/shared_data.h"

#include <QElapsedTimer>
#include <QFile>
#include <QJsonArray>
#include <QTest>

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <random>

namespace {

/// What became of one file.
struct Verdict {
    QString error; ///< empty: accepted
    double seconds = 0;
};

/// The case's file under a name that says nothing, so that no error word is found in the path.
QString neutralCopy(const hostile::Case &input, const QTemporaryDir &folder)
{
    const QString path = folder.filePath("input");
    QFile::remove(path);
    return QFile::copy(input.path, path) ? path : QString();
}

Verdict judge(const QString &path, const std::function<void(const std::string &)> &action)
{
    QElapsedTimer timer;
    timer.start();
    Verdict verdict;
    try {
        action(path.toStdString());
    } catch (const engine::Error &error) { // any other exception fails the test
        verdict.error = QString::fromStdString(error.what()).remove(path);
    }
    verdict.seconds = static_cast<double>(timer.nsecsElapsed()) / 1e9;
    return verdict;
}

/// Opens the file and reads every byte that it offers.
void openAndRead(const std::string &path)
{
    const auto checkpoint = engine::openCheckpoint(path);
    unsigned sum = 0;
    for (const engine::TensorInfo &tensor : checkpoint->tensors()) {
        if (!tensor.computable)
            continue;
        for (const std::byte byte : checkpoint->bytes(tensor))
            sum += std::to_integer<unsigned>(byte);
    }
    QVERIFY(sum < ~0U);
}

void inspect(const std::string &path)
{
    const engine::ModelDescription description = engine::inspectModel(path, true, true);
    QCOMPARE(description.format, std::string("gguf"));
}

/// Peak resident bytes of this process since the last call of resetPeak(), in KiB; 0 where the system does not tell.
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
        const engine::GgufHeader header = engine::readGguf(view, "input");
        for (const engine::TensorInfo &tensor : header.tensors) {
            const auto size = static_cast<std::uint64_t>(bytes.size());
            if (tensor.fileOffset > size || tensor.bytes > size - tensor.fileOffset)
                qFatal("an accepted tensor lies outside the file");
        }
        return {};
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
}

/// End of the last tensor's data: behind it there is only padding.
qsizetype endOfData(const QByteArray &bytes)
{
    const auto view = std::as_bytes(std::span(bytes.constData(), static_cast<std::size_t>(bytes.size())));
    std::uint64_t end = 0;
    for (const engine::TensorInfo &tensor : engine::readGguf(view, "input").tensors)
        end = std::max(end, tensor.fileOffset + tensor.bytes);
    return static_cast<qsizetype>(end);
}

} // namespace

class TstGgufHostile : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void cases_data();
    void cases();
    void everyCaseIsCovered();
    void sweeps_data();
    void sweeps();
    void randomDamage_data();
    void randomDamage();

private:
    void sweepTruncate(const QByteArray &base, int step);
    void sweepFlipBit(const QByteArray &base, int step, qsizetype from, qsizetype to);
    void sweepEdges(const QByteArray &base, int step);

    std::unique_ptr<hostile::Cases> m_cases;
};

void TstGgufHostile::initTestCase()
{
    m_cases = std::make_unique<hostile::Cases>();
    if (!m_cases->problem().isEmpty())
        QSKIP(qPrintable(m_cases->problem()));
}

void TstGgufHostile::cases_data()
{
    QTest::addColumn<int>("index");
    const auto cases = m_cases->group("gguf");
    for (int i = 0; i < cases.size(); ++i)
        QTest::addRow("%s", qPrintable(cases[i].name)) << i;
}

/// Faults of the container are caught here. A case of a later stage is a sound container: it is listed, or refused with
/// the words that its stage would use.
void TstGgufHostile::cases()
{
    QFETCH(int, index);
    const hostile::Case input = m_cases->group("gguf").at(index);
    const QTemporaryDir folder;
    const QString path = neutralCopy(input, folder);
    QVERIFY(!path.isEmpty());
    const bool measured = !shared_data::sanitized && resetPeak();
    const qint64 idleKib = peakKib();
    const bool mustFailHere = input.outcome == "refuse" && input.stage == "parse";
    for (const auto &action : {openAndRead, inspect}) {
        const Verdict verdict = judge(path, action);
        if (mustFailHere)
            QVERIFY2(!verdict.error.isEmpty(), qPrintable("accepted, but: " + input.expected));
        if (input.outcome == "accept" || input.stage == "model" || input.stage == "vocab" || input.stage == "run")
            QVERIFY2(verdict.error.isEmpty(), qPrintable(verdict.error));
        if (!verdict.error.isEmpty())
            QVERIFY2(hostile::missingWords(input, verdict.error).isEmpty(),
                     qPrintable(hostile::missingWords(input, verdict.error) + " is not in: " + verdict.error));
        QVERIFY(!verdict.error.contains('\n'));
        QVERIFY2(verdict.seconds <= input.seconds * (shared_data::sanitized ? 10 : 1),
                 qPrintable(QString::number(verdict.seconds)));
    }
    if (measured)
        QVERIFY2(static_cast<double>(peakKib() - idleKib) / 1024 <= input.extraMib,
                 qPrintable(QString::number(peakKib() - idleKib) + " KiB"));
    const Verdict control = judge(m_cases->control("gguf").path, openAndRead);
    QVERIFY2(control.error.isEmpty(), qPrintable(control.error));
}

void TstGgufHostile::everyCaseIsCovered()
{
    QVERIFY(m_cases->group("gguf").size() >= 88);
}

void TstGgufHostile::sweeps_data()
{
    QTest::addColumn<QJsonObject>("sweep");
    const QJsonArray sweeps = m_cases->manifest().value("sweeps").toArray();
    for (const auto &value : sweeps) {
        const QJsonObject sweep = value.toObject();
        const QString base = sweep.value("base").toString();
        if (base.startsWith("gguf/"))
            QTest::addRow("%s of %s", qPrintable(sweep.value("op").toString()), qPrintable(base)) << sweep;
    }
}

void TstGgufHostile::sweeps()
{
    QFETCH(QJsonObject, sweep);
    const QString base = sweep.value("base").toString();
    std::optional<hostile::Case> control;
    for (const hostile::Case &input : m_cases->group("gguf")) {
        if (input.path.endsWith(base))
            control = input;
    }
    QVERIFY(control.has_value());
    const QByteArray bytes = shared_data::read(control->path);
    QVERIFY(!bytes.isEmpty());
    const int step = sweep.value("step").toInt(1);
    const QString op = sweep.value("op").toString();
    if (op == "truncate") {
        sweepTruncate(bytes, step);
    } else if (op == "flip_bit") {
        const QJsonArray range = sweep.value("range").toArray();
        sweepFlipBit(bytes, step, range.isEmpty() ? 0 : range.at(0).toInt(),
                     range.isEmpty() ? bytes.size() : range.at(1).toInt());
    } else if (op == "set_u32_u64_edges") {
        sweepEdges(bytes, step);
    } else {
        QFAIL(qPrintable("a sweep that is not known: " + op));
    }
}

void TstGgufHostile::sweepTruncate(const QByteArray &base, int step)
{
    const qsizetype end = endOfData(base);
    for (qsizetype length = base.size() - step; length >= 0; length -= step)
        QCOMPARE(readInMemory(base.left(length)).isEmpty(), length >= end);
}

void TstGgufHostile::sweepFlipBit(const QByteArray &base, int step, qsizetype from, qsizetype to)
{
    const int stride = shared_data::fullTier() ? 1 : 13; // coprime to 8: every bit of a byte has its turn
    QElapsedTimer timer;
    timer.start();
    int count = 0;
    int refused = 0;
    for (qsizetype bit = from * 8; bit < std::min(to, base.size()) * 8; bit += stride) {
        if (bit / 8 % step != 0)
            continue;
        QByteArray bytes = base;
        bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
        refused += readInMemory(bytes).isEmpty() ? 0 : 1;
        ++count;
    }
    qInfo("%d flips, %d refused, %.0f us each", count, refused,
          static_cast<double>(timer.nsecsElapsed()) / 1e3 / count);
    QVERIFY(refused > 0 && refused < count);
    QVERIFY(timer.elapsed() < 2000.0 * count); // no single one may take long
}

void TstGgufHostile::sweepEdges(const QByteArray &base, int step)
{
    constexpr std::uint64_t edges[] = {0,
                                       1,
                                       2,
                                       3,
                                       4,
                                       31,
                                       32,
                                       127,
                                       128,
                                       255,
                                       256,
                                       65535,
                                       65536,
                                       0x7fffffff,
                                       0x80000000,
                                       0xfffffffe,
                                       0xffffffff,
                                       0x100000000,
                                       0x1fffffffffffffff,
                                       0x2000000000000000,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0xffffffffffffffe0,
                                       0xffffffffffffffff};
    QElapsedTimer timer;
    int count = 0;
    int refused = 0;
    for (qsizetype offset = 0; offset + 4 <= base.size(); offset += step) {
        for (const std::uint64_t edge : edges) {
            for (const qsizetype width : {4, 8}) {
                if (offset + width > base.size() || (width == 4 && edge > 0xffffffff))
                    continue;
                QByteArray bytes = base;
                std::memcpy(bytes.data() + offset, &edge, static_cast<std::size_t>(width));
                timer.start();
                refused += readInMemory(bytes).isEmpty() ? 0 : 1;
                QVERIFY(timer.elapsed() < 2000);
                ++count;
            }
        }
    }
    qInfo("%d values, %d refused", count, refused);
    QVERIFY(refused > 0 && refused < count);
}

void TstGgufHostile::randomDamage_data()
{
    QTest::addColumn<QByteArray>("base");
    for (const hostile::Case &input : m_cases->group("gguf")) {
        if (input.outcome == "accept" && input.json.value("bytes").toInt() < 100000)
            QTest::addRow("%s", qPrintable(input.name)) << shared_data::read(input.path);
    }
}

/// Several faults at once: bytes overwritten, runs copied elsewhere, cut out or doubled; the seed is fixed.
void TstGgufHostile::randomDamage()
{
    QFETCH(QByteArray, base);
    QVERIFY(!base.isEmpty());
    std::mt19937 random(20240517);
    const auto below = [&random](qsizetype limit) {
        return static_cast<qsizetype>(random() % static_cast<std::uint64_t>(limit));
    };
    const auto header = std::min<qsizetype>(base.size(), 9000); // the faults that matter are in front of the data
    const int rounds = shared_data::fullTier() ? 100000 : 2000;
    int refused = 0;
    for (int round = 0; round < rounds; ++round) {
        QByteArray bytes = base;
        for (qsizetype fault = below(3); fault >= 0; --fault) {
            const qsizetype at = below(std::min(header, bytes.size()));
            const QByteArray run = bytes.mid(at, 1 + below(24));
            switch (below(4)) {
            case 0:
                bytes[at] = static_cast<char>(random());
                break;
            case 1:
                bytes.replace(below(std::min(header, bytes.size())), run.size(), run);
                break;
            case 2:
                bytes.remove(at, run.size());
                break;
            default:
                bytes.insert(at, run);
                break;
            }
            if (bytes.isEmpty())
                break;
        }
        refused += readInMemory(bytes).isEmpty() ? 0 : 1;
    }
    qInfo("%d files, %d refused", rounds, refused);
    QVERIFY(refused > 0 && refused < rounds);
}

QTEST_GUILESS_MAIN(TstGgufHostile)
#include "tst_gguf_hostile.moc"
