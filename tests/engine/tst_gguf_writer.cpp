// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/io/gguf_writer.h"
#include "engine/io/importance_file.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/shared_data.h"

#include <QDir>
#include <QTemporaryDir>
#include <QTest>

#include <csignal>
#include <cstring>
#include <limits>
#include <sys/resource.h>

using engine::Error;
using engine::ErrorCode;
using engine::GgufWriter;

namespace {

/// Reads a file and writes it again as it is.
void writeAgain(const QString &from, const QString &to)
{
    const auto checkpoint = engine::openCheckpoint(from.toStdString());
    std::vector<engine::GgufTensorPlan> plans;
    for (const engine::TensorInfo &tensor : checkpoint->tensors())
        plans.push_back({tensor.name, tensor.shape});
    GgufWriter writer(to.toStdString(), checkpoint->metadata(), std::move(plans));
    for (const engine::TensorInfo &tensor : checkpoint->tensors()) {
        writer.begin(tensor.type);
        const std::span<const std::byte> bytes = checkpoint->bytes(tensor);
        writer.append(bytes.first(bytes.size() / 2));
        writer.append(bytes.subspan(bytes.size() / 2));
    }
    (void)writer.finish();
}

template<typename Function> ErrorCode codeOf(Function function, QString *message = nullptr)
{
    try {
        function();
    } catch (const Error &error) {
        if (message != nullptr)
            *message = QString::fromUtf8(error.what());
        return error.code();
    }
    return ErrorCode::Internal;
}

} // namespace

class TstGgufWriter : public QObject {
    Q_OBJECT

private slots:
    void init();
    void sameBytes_data();
    void sameBytes();
    void valuesWithoutType();
    void valuesThatDoNotFit();
    void nothingIsLeftWithoutFinish();
    void sizeLimit();
    void folderThatIsNotThere();
    void importanceRoundTrip();
    void importanceOldForm();
    void importanceFaults_data();
    void importanceFaults();

private:
    QString at(const QString &name) const { return m_dir->filePath(name); }

    std::unique_ptr<QTemporaryDir> m_dir;
};

void TstGgufWriter::init()
{
    m_dir = std::make_unique<QTemporaryDir>();
    QVERIFY(m_dir->isValid());
}

void TstGgufWriter::sameBytes_data()
{
    QTest::addColumn<QString>("path");
    QTest::newRow("written by the gguf package") << shared_data::data("gguf/gguf_package.gguf");
    QTest::newRow("a model of llama.cpp's converter") << shared_data::data("tiny-llama/llama-f16.gguf");
    for (const char *model : {"gpt-oss-trunc/gpt-oss-trunc-f16.gguf", "gemma3/gemma3-f16.gguf"}) {
        QTest::newRow(model) << shared_data::path(QString("tiny/models/") + model);
    }
    QTest::newRow("the demo model") << shared_data::demoModel();
}

void TstGgufWriter::sameBytes()
{
    QFETCH(QString, path);
    if (path.isEmpty())
        QSKIP("the file of shared/tiny or the demo model is not here");
    writeAgain(path, at("copy.gguf"));
    QFile first(path);
    QFile second(at("copy.gguf"));
    QVERIFY(first.open(QIODevice::ReadOnly) && second.open(QIODevice::ReadOnly));
    QVERIFY(first.readAll() == second.readAll());
    QCOMPARE(QDir(m_dir->path()).entryList(QDir::Files), QStringList{"copy.gguf"});
}

void TstGgufWriter::valuesWithoutType()
{
    engine::Metadata metadata;
    const auto add = [&metadata](const char *key, const engine::MetadataValue &value) {
        metadata.add(key, value, engine::usualGgufType(value));
    };
    add("small", std::uint64_t{7});
    add("below", std::int64_t{-7});
    add("wide", std::uint64_t{1} << 40);
    add("number", 0.5);
    add("ids", std::vector<std::int64_t>{1, 2});
    add("scores", std::vector<double>{0.25});
    add("flags", std::vector<bool>{true, false});
    add("text", std::string("t"));
    GgufWriter(at("m.gguf").toStdString(), metadata, {}).finish();
    const auto read = engine::openCheckpoint(at("m.gguf").toStdString());
    const std::vector<std::pair<const char *, const char *>> wanted{
        {"small", "uint32"},        {"below", "int32"},        {"wide", "uint64"},
        {"number", "float32"},      {"ids", "array of int32"}, {"scores", "array of float32"},
        {"flags", "array of bool"}, {"text", "string"}};
    for (const auto &[key, type] : wanted)
        QCOMPARE(std::string(read->metadata().typeName(key)), std::string(type));
    QVERIFY(read->metadata().number("number") == 0.5);
}

void TstGgufWriter::valuesThatDoNotFit()
{
    engine::Metadata metadata;
    metadata.add("some.key", std::int64_t{-1}, "uint32");
    QString message;
    QCOMPARE(codeOf([&] { GgufWriter(at("m.gguf").toStdString(), metadata, {}).finish(); }, &message),
             ErrorCode::Refused);
    QVERIFY2(message.contains("some.key") && message.contains("-1"), qPrintable(message));
    QVERIFY(QDir(m_dir->path()).entryList(QDir::Files).isEmpty());
}

void TstGgufWriter::nothingIsLeftWithoutFinish()
{
    QVERIFY(GgufBuilder().u32("old", 1).write(at("m.gguf")));
    {
        GgufWriter writer(at("m.gguf").toStdString(), {}, {{"w", {4}}});
        writer.begin(kernels::DType::F32);
        QVERIFY(QFile::exists(at("m.gguf.partial")));
    }
    QCOMPARE(QDir(m_dir->path()).entryList(QDir::Files), QStringList{"m.gguf"});
    QVERIFY(engine::openCheckpoint(at("m.gguf").toStdString())->metadata().integer("old") == 1);
}

/// A limit on the size of files stands in for a disk that is full.
void TstGgufWriter::sizeLimit()
{
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    QCOMPARE(getrlimit(RLIMIT_FSIZE, &before), 0);
    rlimit small = before;
    small.rlim_cur = 4096;
    QCOMPARE(setrlimit(RLIMIT_FSIZE, &small), 0);
    QString message;
    const std::vector<std::byte> bytes(40000);
    const ErrorCode code = codeOf(
        [&] {
            GgufWriter writer(at("m.gguf").toStdString(), {}, {{"w", {10000}}});
            writer.begin(kernels::DType::F32);
            writer.append(bytes);
            (void)writer.finish();
        },
        &message);
    QCOMPARE(setrlimit(RLIMIT_FSIZE, &before), 0);
    QCOMPARE(code, ErrorCode::IoError);
    QVERIFY2(message.contains("m.gguf") && message.contains(std::strerror(EFBIG)), qPrintable(message));
    QVERIFY(QDir(m_dir->path()).entryList(QDir::Files).isEmpty());
}

void TstGgufWriter::folderThatIsNotThere()
{
    QString message;
    QCOMPARE(codeOf([&] { GgufWriter(at("none/m.gguf").toStdString(), {}, {}); }, &message), ErrorCode::IoError);
    QVERIFY2(message.contains("none/m.gguf"), qPrintable(message));
}

void TstGgufWriter::importanceRoundTrip()
{
    engine::ImportanceMatrix matrix;
    matrix.tensors["blk.0.ffn_up.weight"] = {{1.0F, 2.5F, 0.0F}, {4.0F}};
    matrix.tensors["blk.0.ffn_down_exps.weight"] = {{1, 2, 3, 4, 5, 6}, {1.0F, 0.0F, 3.0F}};
    matrix.datasets = {"text"};
    matrix.chunks = 3;
    matrix.chunkTokens = 512;
    engine::writeImportanceFile(at("i.gguf").toStdString(), matrix);
    const engine::ImportanceMatrix read = engine::readImportanceFile(at("i.gguf").toStdString());
    QCOMPARE(read.tensors.size(), std::size_t{2});
    for (const auto &[name, entry] : matrix.tensors) {
        QVERIFY(read.tensors.at(name).sums == entry.sums);
        QVERIFY(read.tensors.at(name).counts == entry.counts);
    }
    QVERIFY(read.datasets == matrix.datasets && read.chunks == 3 && read.chunkTokens == 512);
}

namespace {

QByteArray int32(std::int32_t value)
{
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

QByteArray datEntry(const QByteArray &name, const std::vector<float> &values)
{
    return int32(static_cast<std::int32_t>(name.size())) + name + int32(2)
        + int32(static_cast<std::int32_t>(values.size()))
        + QByteArray(reinterpret_cast<const char *>(values.data()),
                     static_cast<qsizetype>(values.size() * sizeof(float)));
}

void writeFile(const QString &path, const QByteArray &bytes)
{
    QFile file(path);
    QVERIFY(file.open(QIODevice::WriteOnly));
    QCOMPARE(file.write(bytes), bytes.size());
}

} // namespace

void TstGgufWriter::importanceOldForm()
{
    writeFile(at("i.dat"),
              int32(2) + datEntry("blk.0.attn_q.weight", {1.0F, 2.0F}) + datEntry("b", {0.5F}) + int32(9) + int32(4)
                  + "wiki");
    const engine::ImportanceMatrix read = engine::readImportanceFile(at("i.dat").toStdString());
    QVERIFY((read.tensors.at("blk.0.attn_q.weight").sums == std::vector<float>{1.0F, 2.0F}));
    QVERIFY((read.tensors.at("b").sums == std::vector<float>{0.5F}));
    QVERIFY(read.chunks == 9 && read.datasets == std::vector<std::string>{"wiki"});
}

void TstGgufWriter::importanceFaults_data()
{
    QTest::addColumn<QByteArray>("bytes");
    QTest::addColumn<QString>("word");
    QTest::newRow("empty") << QByteArray() << "i.dat";
    QTest::newRow("no entries") << int32(0) << "entry count";
    QTest::newRow("too many entries") << int32(1 << 30) << "entry count";
    QTest::newRow("cut short") << int32(1) + datEntry("b", {1.0F, 2.0F}).chopped(3) << "\"b\"";
    QTest::newRow("long name") << int32(1) + int32(1 << 30) + QByteArray(40, 'n') << "name";
    QTest::newRow("twice") << int32(2) + datEntry("b", {1.0F}) + datEntry("b", {1.0F}) << "twice";
    QTest::newRow("not a number") << int32(1) + datEntry("b", {std::numeric_limits<float>::quiet_NaN()}) << "\"b\"";
    QTest::newRow("negative") << int32(1) + datEntry("b", {-1.0F}) << "-1";
    QTest::newRow("no importance") << GgufBuilder().tensor("w", {1}, {1.0F}).bytes() << "in_sum2";
    QTest::newRow("no counts") << GgufBuilder().tensor("w.in_sum2", {1}, {1.0F}).bytes() << "w.counts";
    QTest::newRow("uneven") << GgufBuilder().tensor("w.in_sum2", {3}, {1, 2, 3}).tensor("w.counts", {2}, {1, 2}).bytes()
                            << "3 sums";
}

void TstGgufWriter::importanceFaults()
{
    QFETCH(QByteArray, bytes);
    QFETCH(QString, word);
    writeFile(at("i.dat"), bytes);
    QString message;
    QCOMPARE(codeOf([&] { (void)engine::readImportanceFile(at("i.dat").toStdString()); }, &message),
             ErrorCode::Refused);
    QVERIFY2(message.contains(word) && message.contains("i.dat"), qPrintable(message));
}

QTEST_GUILESS_MAIN(TstGgufWriter)
#include "tst_gguf_writer.moc"
