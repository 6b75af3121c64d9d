// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/api/inspect.h"
#include "engine/io/checkpoint.h"
#include "tests/support/shared_data.h"

#include <QCryptographicHash>
#include <QElapsedTimer>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QJsonObject>
#include <QTest>

#include <cmath>
#include <limits>
#include <map>

namespace {

QString sha256(const std::string &text)
{
    return QCryptographicHash::hash(QByteArray::fromStdString(text), QCryptographicHash::Sha256).toHex();
}

/// The value behind one-value JSON such as a metadata value.
QJsonValue parsed(const std::string &json)
{
    return QJsonDocument::fromJson("[" + QByteArray::fromStdString(json) + "]").array().at(0);
}

QString typeName(const std::string &type)
{
    // The golden writes UINT32 and ARRAY/STRING.
    QString name = QString::fromStdString(type).toUpper();
    return name.startsWith("ARRAY OF ") ? "ARRAY/" + name.mid(9) : name;
}

} // namespace

/// The demo model against what the reference software reads in it.
class TstGgufModel : public QObject {
    Q_OBJECT

private slots:
    void initTestCase();
    void fileFigures();
    void metadataEqualsTheGolden();
    void tensorTableEqualsTheGolden();
    void dequantizedTensorsEqualTheGolden_data();
    void dequantizedTensorsEqualTheGolden();
    void parseTime();

private:
    std::string m_path;
    QJsonObject m_golden;
};

void TstGgufModel::initTestCase()
{
    const QString model = shared_data::demoModel();
    const QString golden = shared_data::path("goldens/smollm2/header.json");
    if (model.isEmpty())
        QSKIP("the demo model SmolLM2-135M-Instruct.Q4_1.gguf is not there");
    if (golden.isEmpty())
        QSKIP("goldens/smollm2/header.json is not there");
    m_path = model.toStdString();
    m_golden = QJsonDocument::fromJson(shared_data::read(golden)).object();
    QVERIFY(!m_golden.isEmpty());
}

void TstGgufModel::fileFigures()
{
    const auto description = engine::inspectModel(m_path);
    QCOMPARE(static_cast<qint64>(description.fileBytes), m_golden.value("bytes").toInteger());
    QCOMPARE(description.format, std::string("gguf"));
    QCOMPARE(description.architecture, std::string("llama"));
    QCOMPARE(description.parameters, std::int64_t{134515008});
    QCOMPARE(description.contextLength, std::int64_t{8192});
    QCOMPARE(description.layers, std::int64_t{30});
    QCOMPARE(description.vocabSize, std::int64_t{49152});
    QVERIFY(description.hasChatTemplate);
    QVERIFY(description.warnings.empty());
    QVERIFY(description.tensors.empty() && description.metadataJson.empty());
}

void TstGgufModel::metadataEqualsTheGolden()
{
    const auto description = engine::inspectModel(m_path, false, true);
    const auto checkpoint = engine::openCheckpoint(m_path);
    const QJsonArray golden = m_golden.value("metadata").toArray();
    QCOMPARE(static_cast<qsizetype>(description.metadataJson.size()), golden.size());
    for (qsizetype i = 0; i < golden.size(); ++i) {
        const QJsonObject wanted = golden.at(i).toObject();
        const auto &[key, json] = description.metadataJson[static_cast<std::size_t>(i)];
        QCOMPARE(QString::fromStdString(key), wanted.value("key").toString());
        QCOMPARE(typeName(std::string(checkpoint->metadata().typeName(key))), wanted.value("type").toString());
        if (wanted.contains("sha256_json")) {
            QCOMPARE(sha256(json), wanted.value("sha256_json").toString());
            QCOMPARE(parsed(json).toArray().size(), wanted.value("count").toInt());
        } else if (wanted.contains("sha256_utf8")) {
            QCOMPARE(sha256(*checkpoint->metadata().text(key)), wanted.value("sha256_utf8").toString());
        } else {
            QCOMPARE(parsed(json), wanted.value("value"));
        }
    }
}

void TstGgufModel::tensorTableEqualsTheGolden()
{
    const auto description = engine::inspectModel(m_path, true);
    const QJsonArray golden = m_golden.value("tensors").toArray();
    QCOMPARE(static_cast<qsizetype>(description.tensors.size()), golden.size());
    std::map<std::string, int> types;
    for (qsizetype i = 0; i < golden.size(); ++i) {
        const QJsonObject wanted = golden.at(i).toObject();
        const engine::InspectedTensor &tensor = description.tensors[static_cast<std::size_t>(i)];
        QCOMPARE(QString::fromStdString(tensor.name), wanted.value("name").toString());
        QCOMPARE(QString::fromStdString(tensor.type), wanted.value("type").toString());
        QCOMPARE(static_cast<qint64>(tensor.offset), wanted.value("file_offset").toInteger());
        QCOMPARE(static_cast<qint64>(tensor.bytes), wanted.value("bytes").toInteger());
        QJsonArray shape;
        for (const std::int64_t size : tensor.shape)
            shape.append(static_cast<qint64>(size));
        QCOMPARE(shape, wanted.value("shape").toArray());
        ++types[tensor.type];
    }
    QCOMPARE(description.tensorTypes, types);
}

void TstGgufModel::dequantizedTensorsEqualTheGolden_data()
{
    QTest::addColumn<QJsonObject>("wanted");
    const QString path = shared_data::path("goldens/smollm2/dequant.jsonl.xz");
    if (path.isEmpty())
        QSKIP("goldens/smollm2/dequant.jsonl.xz is not there");
    for (const QByteArray &line : shared_data::read(path).split('\n')) {
        const QJsonObject wanted = QJsonDocument::fromJson(line).object();
        if (!wanted.isEmpty())
            QTest::addRow("%s", qPrintable(wanted.value("name").toString())) << wanted;
    }
}

void TstGgufModel::dequantizedTensorsEqualTheGolden()
{
    QFETCH(QJsonObject, wanted);
    const auto checkpoint = engine::openCheckpoint(m_path);
    const engine::TensorInfo *tensor = checkpoint->find(wanted.value("name").toString().toStdString());
    QVERIFY(tensor != nullptr);
    std::vector<float> values(static_cast<std::size_t>(wanted.value("n").toInteger()));
    kernels::dequantize(tensor->type, checkpoint->bytes(*tensor).data(), values.data(),
                        static_cast<std::int64_t>(values.size()));
    const QJsonArray first = wanted.value("first").toArray();
    const QJsonArray last = wanted.value("last").toArray();
    for (qsizetype i = 0; i < first.size(); ++i)
        QCOMPARE(static_cast<double>(values[static_cast<std::size_t>(i)]), first.at(i).toDouble());
    for (qsizetype i = 0; i < last.size(); ++i)
        QCOMPARE(static_cast<double>(values[values.size() - static_cast<std::size_t>(last.size() - i)]),
                 last.at(i).toDouble());
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
        sum += static_cast<double>(value);
        squares += static_cast<double>(value) * static_cast<double>(value);
    }
    QVERIFY(std::abs(squares - wanted.value("sumsq").toDouble()) <= 1e-9 * squares);
    // Terms of both signs cancel, so the sum is compared on the scale of its terms.
    QVERIFY(std::abs(sum - wanted.value("sum").toDouble())
            <= 1e-9 * std::sqrt(squares * static_cast<double>(values.size())));
    checkpoint->releasePages(*tensor);
    QCOMPARE(static_cast<double>(values[0]), first.at(0).toDouble());
}

/// Reports how long opening takes; the machine decides what is fast.
void TstGgufModel::parseTime()
{
    qint64 best = std::numeric_limits<qint64>::max();
    for (int round = 0; round < 5; ++round) {
        QElapsedTimer timer;
        timer.start();
        QCOMPARE(engine::openCheckpoint(m_path)->tensors().size(), std::size_t{272});
        best = std::min(best, timer.nsecsElapsed());
    }
    qInfo("opened in %.1f ms", static_cast<double>(best) / 1e6);
}

QTEST_GUILESS_MAIN(TstGgufModel)
#include "tst_gguf_model.moc"
