// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/io/gguf_reader.h"
#include "tests/support/gguf_builder.h"

#include <QElapsedTimer>
#include <QRegularExpression>
#include <QTest>

#include <cmath>
#include <functional>

using engine::GgufHeader;
using engine::Metadata;
using kernels::DType;

namespace {

GgufHeader read(const QByteArray &file, engine::ArrayContents arrays = engine::ArrayContents::Keep)
{
    return engine::readGguf(std::as_bytes(std::span(file.constData(), static_cast<std::size_t>(file.size()))),
                            "some model.gguf", arrays);
}

/// The message of the Error that `action` throws, or empty.
QString errorOf(const std::function<void()> &action)
{
    try {
        action();
    } catch (const engine::Error &error) {
        return QString::fromStdString(error.what());
    }
    return {};
}

QString readError(const QByteArray &file)
{
    return errorOf([&file] { (void)read(file); });
}

template<typename Value> QByteArray raw(Value value)
{
    return {reinterpret_cast<const char *>(&value), sizeof value};
}

/// An array value: element type, count, elements.
QByteArray arrayOf(std::uint32_t type, std::uint64_t count, const QByteArray &elements)
{
    return raw(type) + raw(count) + elements;
}

GgufBuilder oneTensor()
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama").tensor("w", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
    return builder;
}

constexpr std::uint32_t typeU8 = 0, typeI8 = 1, typeI16 = 3, typeI32 = 5, typeBool = 7, typeString = 8, typeArray = 9,
                        typeU64 = 10, typeI64 = 11, typeF64 = 12;

} // namespace

class TstGgufReader : public QObject {
    Q_OBJECT

private slots:
    void scalars();
    void arrays();
    void typeNames();
    void wrongTypes();
    void nestedArrays();
    void skippedArraysAreStillChecked();
    void tensorTable();
    void alignments_data();
    void alignments();
    void refusals_data();
    void refusals();
    void listedTypes();
    void unusedBytes();
    void everyCutIsRefused();
    void largeHeadersAreRefused();
    void largeVocabularyIsFast();
    void printableText();
};

void TstGgufReader::scalars()
{
    GgufBuilder builder;
    builder.u8("u8", 255)
        .value("i8", typeI8, raw(std::int8_t{-1}))
        .u16("u16", 65535)
        .value("i16", typeI16, raw(std::int16_t{-2}));
    builder.u32("u32", 4294967295U)
        .i32("i32", -3)
        .u64("u64", 18446744073709551615ULL)
        .value("i64", typeI64, raw(std::int64_t{-4}));
    builder.f32("f32", 0.1F)
        .value("f64", typeF64, raw(0.25))
        .boolean("yes", true)
        .boolean("no", false)
        .text("text", "héllo");
    const Metadata metadata = read(builder.bytes()).metadata;
    QCOMPARE(metadata.entries().size(), std::size_t{13});
    QCOMPARE(metadata.entries().front().first, std::string("u8"));
    QCOMPARE(metadata.integer("u8"), std::optional<std::int64_t>(255));
    QCOMPARE(metadata.integer("i8"), std::optional<std::int64_t>(-1));
    QCOMPARE(metadata.integer("u16"), std::optional<std::int64_t>(65535));
    QCOMPARE(metadata.integer("i16"), std::optional<std::int64_t>(-2));
    QCOMPARE(metadata.integer("u32"), std::optional<std::int64_t>(4294967295));
    QCOMPARE(metadata.integer("i32"), std::optional<std::int64_t>(-3));
    QCOMPARE(metadata.integer("i64"), std::optional<std::int64_t>(-4));
    QCOMPARE(metadata.number("f32"), std::optional<double>(static_cast<double>(0.1F)));
    QCOMPARE(metadata.number("f64"), std::optional<double>(0.25));
    QCOMPARE(metadata.number("i32"), std::optional<double>(-3));
    QCOMPARE(metadata.boolean("yes"), std::optional<bool>(true));
    QCOMPARE(metadata.boolean("no"), std::optional<bool>(false));
    QCOMPARE(*metadata.text("text"), std::string("héllo"));
    QVERIFY(!metadata.integer("absent") && !metadata.number("absent") && !metadata.boolean("absent")
            && !metadata.integers("absent"));
    QVERIFY(metadata.text("absent") == nullptr && metadata.texts("absent") == nullptr
            && metadata.find("absent") == nullptr);
}

void TstGgufReader::arrays()
{
    GgufBuilder builder;
    builder.texts("texts", {"a", "", "c c"})
        .u32s("u32s", {1, 4294967295U})
        .i32s("i32s", {-1, 2})
        .f32s("f32s", {0.5F, -1});
    builder.value("u8s", typeArray, arrayOf(typeU8, 2, QByteArray("\x01\xff", 2)));
    builder.value("bools", typeArray, arrayOf(typeBool, 3, QByteArray("\x01\x00\x01", 3)));
    builder.value("u64s", typeArray, arrayOf(typeU64, 1, raw(std::uint64_t{1} << 63)));
    builder.value("f64s", typeArray, arrayOf(typeF64, 1, raw(1.5)));
    builder.value("none", typeArray, arrayOf(typeI32, 0, {}));
    const Metadata metadata = read(builder.bytes()).metadata;
    QCOMPARE(*metadata.texts("texts"), (std::vector<std::string>{"a", "", "c c"}));
    QCOMPARE(*metadata.integers("u32s"), (std::vector<std::int64_t>{1, 4294967295}));
    QCOMPARE(*metadata.integers("i32s"), (std::vector<std::int64_t>{-1, 2}));
    QCOMPARE(*metadata.integers("u8s"), (std::vector<std::int64_t>{1, 255}));
    QCOMPARE(*metadata.numbers("f32s"), (std::vector<double>{0.5, -1}));
    QCOMPARE(*metadata.numbers("i32s"), (std::vector<double>{-1, 2}));
    QCOMPARE(*metadata.numbers("f64s"), (std::vector<double>{1.5}));
    QVERIFY(metadata.integers("none")->empty());
    QCOMPARE(std::get<std::vector<bool>>(*metadata.find("bools")), (std::vector<bool>{true, false, true}));
    QVERIFY(errorOf([&] { (void)metadata.integers("u64s"); }).contains("9223372036854775808"));
}

void TstGgufReader::typeNames()
{
    GgufBuilder builder;
    builder.u16("u16", 1)
        .i32s("types", {1})
        .value("bytes", typeArray, arrayOf(typeI8, 1, "a"))
        .texts("texts", {"a"})
        .f32("f32", 1);
    const Metadata metadata = read(builder.bytes()).metadata;
    QCOMPARE(std::string(metadata.typeName("u16")), std::string("uint16"));
    QCOMPARE(std::string(metadata.typeName("types")), std::string("array of int32"));
    QCOMPARE(std::string(metadata.typeName("bytes")), std::string("array of int8"));
    QCOMPARE(std::string(metadata.typeName("texts")), std::string("array of string"));
    QCOMPARE(std::string(metadata.typeName("f32")), std::string("float32"));
    QVERIFY(metadata.typeName("absent").empty());
}

void TstGgufReader::wrongTypes()
{
    GgufBuilder builder;
    builder.text("t", "x")
        .u32("n", 1)
        .f32("f", 1)
        .texts("ts", {"a"})
        .u64("big", 18446744073709551615ULL)
        .f32s("fs", {1});
    const Metadata metadata = read(builder.bytes()).metadata;
    const QString error = errorOf([&] { (void)metadata.integer("t"); });
    QVERIFY2(error.contains("some model.gguf") && error.contains("\"t\"") && error.contains("string")
                 && error.contains("integer"),
             qPrintable(error));
    QVERIFY(errorOf([&] { (void)metadata.integer("f"); }).contains("float32"));
    QVERIFY(errorOf([&] { (void)metadata.integer("big"); }).contains("18446744073709551615"));
    QVERIFY(errorOf([&] { (void)metadata.number("t"); }).contains("a number"));
    QVERIFY(errorOf([&] { (void)metadata.boolean("n"); }).contains("a bool"));
    QVERIFY(errorOf([&] { (void)metadata.text("n"); }).contains("a string"));
    QVERIFY(errorOf([&] { (void)metadata.texts("fs"); }).contains("array of strings"));
    QVERIFY(errorOf([&] { (void)metadata.integers("fs"); }).contains("array of float32"));
    QVERIFY(errorOf([&] { (void)metadata.numbers("ts"); }).contains("array of string"));
}

void TstGgufReader::nestedArrays()
{
    const QByteArray innermost = arrayOf(typeU8, 2, "ab");
    QByteArray nested = innermost;
    for (int depth = 2; depth <= 4; ++depth) {
        nested = arrayOf(typeArray, 1, nested);
        const GgufHeader header = read(GgufBuilder().value("deep", typeArray, nested).u8("after", 7).bytes());
        QCOMPARE(header.metadata.integer("after"), std::optional<std::int64_t>(7));
        QVERIFY(header.metadata.find("deep") == nullptr);
        QCOMPARE(header.warnings.size(), std::size_t{1});
    }
    nested = arrayOf(typeArray, 1, nested);
    QVERIFY(readError(GgufBuilder().value("deep", typeArray, nested).bytes()).contains("nested deeper than 4"));
    // Many empty arrays in a small file are stepped over, not collected.
    const QByteArray wide =
        arrayOf(typeArray, 3, innermost + arrayOf(typeString, 1, GgufBuilder::packed("x")) + arrayOf(typeU8, 0, {}));
    QCOMPARE(read(GgufBuilder().value("wide", typeArray, wide).u8("after", 7).bytes()).metadata.entries().size(),
             std::size_t{1});
}

void TstGgufReader::skippedArraysAreStillChecked()
{
    const QByteArray good = GgufBuilder().texts("a", {"x", "y"}).u32s("b", {1, 2}).u8("c", 3).bytes();
    const Metadata metadata = read(good, engine::ArrayContents::Skip).metadata;
    QCOMPARE(metadata.entries().size(), std::size_t{1});
    QCOMPARE(metadata.integer("c"), std::optional<std::int64_t>(3));
    const QByteArray bad =
        GgufBuilder()
            .value("a", typeArray, arrayOf(typeString, 2, GgufBuilder::packed("x") + raw(std::uint64_t{999})))
            .bytes();
    QVERIFY(errorOf([&] { (void)read(bad, engine::ArrayContents::Skip); }).contains("999"));
}

void TstGgufReader::tensorTable()
{
    GgufBuilder builder;
    builder.tensor("a", {2, 3}, {1, 2, 3, 4, 5, 6});
    builder.tensor("b.weight", DType::Q4_1, {5, 64}, QByteArray(5 * 40, 'x'));
    builder.tensor("c", DType::I8, {1, 2, 3, 4}, QByteArray(24, 'y'));
    const QByteArray file = builder.bytes();
    const GgufHeader header = read(file);
    QCOMPARE(header.tensors.size(), std::size_t{3});
    QVERIFY(header.warnings.empty());
    const engine::TensorInfo &b = header.tensors[1];
    QCOMPARE(b.name, std::string("b.weight"));
    QVERIFY(b.type == DType::Q4_1 && b.typeName == "Q4_1" && b.computable);
    QCOMPARE(b.shape, (std::vector<std::int64_t>{5, 64}));
    QCOMPARE(b.bytes, std::uint64_t{200});
    QCOMPARE(b.fileOffset, header.dataOffset + 32);
    QCOMPARE(file.mid(static_cast<qsizetype>(b.fileOffset), 200), QByteArray(200, 'x'));
    QCOMPARE(header.tensors[2].shape, (std::vector<std::int64_t>{1, 2, 3, 4}));
    QCOMPARE(header.dataOffset % 32, std::uint64_t{0});
}

void TstGgufReader::alignments_data()
{
    QTest::addColumn<std::uint32_t>("alignment");
    QTest::addColumn<bool>("good");
    for (const std::uint32_t good : {8U, 16U, 64U, 4096U, 1U << 20})
        QTest::addRow("%u", good) << good << true;
    for (const std::uint32_t bad : {1U, 2U, 4U, 24U, 33U, 1U << 21, 1U << 31, 0xffffffffU})
        QTest::addRow("%u", bad) << bad << false;
}

void TstGgufReader::alignments()
{
    QFETCH(std::uint32_t, alignment);
    QFETCH(bool, good);
    if (!good) {
        const QString error = readError(GgufBuilder().u32("general.alignment", alignment).bytes());
        QVERIFY2(error.contains("general.alignment") && error.contains(QString::number(alignment)), qPrintable(error));
        return;
    }
    GgufBuilder builder;
    builder.alignment(alignment).tensor("a", {1}, {1.0F}).tensor("b", {1}, {2.0F});
    const GgufHeader header = read(builder.bytes());
    QCOMPARE(header.alignment, std::uint64_t{alignment});
    QCOMPARE(header.tensors[1].fileOffset, header.dataOffset + alignment);
}

void TstGgufReader::refusals_data()
{
    QTest::addColumn<QByteArray>("file");
    QTest::addColumn<QStringList>("words");
    const auto row = [](const char *name, const QByteArray &file, const QStringList &words) {
        QTest::newRow(name) << file << words;
    };
    const QByteArray good = oneTensor().bytes();
    const auto with = [&good](qsizetype at, const QByteArray &bytes) {
        return QByteArray(good).replace(at, bytes.size(), bytes);
    };
    row("empty", "", {"empty", "0 bytes"});
    row("short magic", "GG", {"GGUF", "\"GG\""});
    row("other format", "PK\x03\x04 some archive", {"not a GGUF", "PK\\u{3}\\u{4}"});
    row("version 1", GgufBuilder(1).u8("a", 1).bytes(), {"version 1", "wanted version 2 or 3"});
    row("version 4", GgufBuilder(4).u8("a", 1).bytes(), {"version 4"});
    row("version 0", GgufBuilder(0).u8("a", 1).bytes(), {"version 0"});
    row("big-endian", GgufBuilder(0x03000000).u8("a", 1).bytes(), {"big-endian", "little-endian"});
    row("tensor count", with(8, raw(std::uint64_t{1} << 60)), {"tensor", "count", "1152921504606846976"});
    row("key count", with(16, raw(~std::uint64_t{0})), {"key", "count", "18446744073709551615"});
    row("more keys than there are", with(16, raw(std::uint64_t{3})), {"byte"});
    row("key length", with(24, raw(~std::uint64_t{0})), {"key", "length", "18446744073709551615"});
    row("empty key", GgufBuilder().u8("", 1).bytes(), {"key", "empty"});
    row("long key", GgufBuilder().u8(std::string(65536, 'k'), 1).bytes(), {"65535", "65536"});
    row("key with a line break", GgufBuilder().u8("a\nb", 1).bytes(), {"a\\nb", "ASCII"});
    row("key twice", GgufBuilder().u8("same", 1).u8("same", 1).bytes(), {"same", "duplicate"});
    row("value type", GgufBuilder().value("k", 13, "x").bytes(), {"type 13", "\"k\""});
    row("element type", GgufBuilder().value("k", typeArray, arrayOf(99, 1, "x")).bytes(), {"type 99", "\"k\""});
    row("array count wraps",
        GgufBuilder().value("k", typeArray, arrayOf(typeU64, 0x2000000000000001ULL, QByteArray(8, 'x'))).bytes(),
        {"\"k\"", "2305843009213693953"});
    row("alignment of the wrong type", GgufBuilder().text("general.alignment", "32").bytes(),
        {"general.alignment", "string", "integer"});
    row("name twice", GgufBuilder().tensor("w", {1}, {1.0F}).tensor("w", {1}, {1.0F}).bytes(), {"\"w\"", "duplicate"});
    row("no name", GgufBuilder().tensor("", {1}, {1.0F}).bytes(), {"name", "empty"});
    row("name is no text", GgufBuilder().tensor("w\xff", {1}, {1.0F}).bytes(), {"UTF-8"});
    row("long name", GgufBuilder().tensor(std::string(1025, 'n'), {1}, {1.0F}).bytes(), {"1025", "1024"});
    row("five dimensions", GgufBuilder().tensor("w", {1, 1, 1, 1, 1}, {1.0F}).bytes(), {"\"w\"", "5", "dimensions"});
    row("zero dimension", GgufBuilder().rawTensor("w", 0, {0, 4}, {}).bytes(), {"\"w\"", "dimension 1", "0"});
    row("elements overflow",
        GgufBuilder().rawTensor("w", 0, {std::int64_t{1} << 40, std::int64_t{1} << 40}, {}).bytes(),
        {"\"w\"", "element count"});
    row("bytes overflow", GgufBuilder().rawTensor("w", 0, {std::int64_t{1} << 62}, {}).bytes(), {"\"w\"", "byte size"});
    row("partial block", GgufBuilder().rawTensor("w", 2, {33}, QByteArray(36, 'x')).bytes(),
        {"\"w\"", "33", "Q4_0", "32"});
    row("removed type", GgufBuilder().rawTensor("w", 4, {32}, QByteArray(36, 'x')).bytes(),
        {"\"w\"", "type 4", "Q4_2", "removed"});
    row("interleaved type of a fork", GgufBuilder().rawTensor("w", 212, {256}, QByteArray(200, 'x')).bytes(),
        {"type 212", "ik_llama.cpp"});
    row("type that nobody knows", GgufBuilder().rawTensor("w", 4000, {256}, QByteArray(200, 'x')).bytes(),
        {"type 4000", "unknown"});
    row("type of a fork", GgufBuilder().rawTensor("w", 139, {256}, QByteArray(200, 'x')).bytes(),
        {"type 139", "IQ4_K", "ik_llama.cpp"});
    row("layout not known", GgufBuilder().rawTensor("w", 41, {128}, QByteArray(18, 'x')).bytes(), {"type 41", "Q1_0"});
    row("data too short", GgufBuilder().rawTensor("w", 0, {100}, QByteArray(96, 'x')).bytes(),
        {"\"w\"", "outside", "400", "96"});
}

void TstGgufReader::refusals()
{
    QFETCH(QByteArray, file);
    QFETCH(QStringList, words);
    const QString error = readError(file);
    const bool saysWhere = error.contains(QRegularExpression("at byte \\d+\\)$")) || error.contains("key \"");
    QVERIFY2(error.contains("some model.gguf") && saysWhere && !error.contains('\n'), qPrintable(error));
    for (const QString &word : words)
        QVERIFY2(error.contains(word), qPrintable(word + " is missing in: " + error));
}

void TstGgufReader::listedTypes()
{
    const GgufHeader header = read(GgufBuilder().rawTensor("w", 15, {3, 256}, QByteArray(876, 'x')).bytes());
    QCOMPARE(header.tensors.front().typeName, std::string("Q8_K"));
    QVERIFY(!header.tensors.front().computable);
    QCOMPARE(header.tensors.front().bytes, std::uint64_t{876});
}

void TstGgufReader::unusedBytes()
{
    const QByteArray trailing = oneTensor().bytes() + "something behind the data";
    QCOMPARE(read(trailing).warnings.size(), std::size_t{1});
    QVERIFY(QString::fromStdString(read(trailing).warnings.front()).contains("25 bytes after"));
    // The builder pads to 64 while the reader knows 32 only: the second tensor begins behind a hole.
    const QByteArray file = GgufBuilder().alignment(64).tensor("a", {1}, {1.0F}).tensor("b", {1}, {1.0F}).bytes();
    const QByteArray hole = QByteArray(file).replace("general.alignment", "general.aligment_");
    const auto warnings = read(hole).warnings;
    QCOMPARE(warnings.size(), std::size_t{2}); // 32 bytes between, 32 behind
    QVERIFY(QString::fromStdString(warnings.front()).contains("32 bytes between"));
}

void TstGgufReader::everyCutIsRefused()
{
    GgufBuilder builder;
    builder.text("general.architecture", "llama").texts("t", {"a", "bb"}).f32s("f", {1, 2}).boolean("b", true);
    builder.tensor("w", DType::Q8_0, {2, 32}, QByteArray(68, 'x')).tensor("v", {3}, {1, 2, 3});
    const QByteArray file = builder.bytes();
    const auto header = read(file);
    const auto end = static_cast<qsizetype>(header.tensors.back().fileOffset + header.tensors.back().bytes);
    for (qsizetype length = 0; length < file.size(); ++length)
        QCOMPARE(readError(file.left(length)).isEmpty(), length >= end);
}

void TstGgufReader::largeHeadersAreRefused()
{
    const std::uint64_t count = 34 << 20; // each byte would become eight
    const QByteArray file =
        GgufBuilder()
            .value("k", typeArray, arrayOf(typeU8, count, QByteArray(static_cast<qsizetype>(count), '\0')))
            .bytes();
    const QString error = readError(file);
    QVERIFY2(error.contains("\"k\"") && error.contains("too large"), qPrintable(error));
}

void TstGgufReader::largeVocabularyIsFast()
{
    std::vector<std::string> tokens;
    for (int i = 0; i < 150000; ++i)
        tokens.push_back("token number " + std::to_string(i * 7919));
    const QByteArray file = GgufBuilder().texts("tokenizer.ggml.tokens", tokens).bytes();
    QElapsedTimer timer;
    timer.start();
    const GgufHeader header = read(file);
    qInfo("150,000 strings in %.1f ms", static_cast<double>(timer.nsecsElapsed()) / 1e6);
    QCOMPARE(*header.metadata.texts("tokenizer.ggml.tokens"), tokens);
}

void TstGgufReader::printableText()
{
    QCOMPARE(engine::printable("plain 文字 🙂"), std::string("plain 文字 🙂"));
    QCOMPARE(engine::printable("a\nb\x1b[31m\x7f"), std::string("a\\nb\\u{1b}[31m\\u{7f}"));
    QCOMPARE(engine::printable("x\u202ey\u2028"), std::string("x\\u{202e}y\\u{2028}"));
    QCOMPARE(engine::printable("\xff\xc3("), std::string("\uFFFD\uFFFD("));
    QCOMPARE(engine::printable(std::string(500, 'x'), 10), std::string("xxxxxxxxxx…"));
    QCOMPARE(engine::inQuotes("a"), std::string("\"a\""));
    QVERIFY(engine::isUtf8("ü\U0001F600") && !engine::isUtf8("\xed\xa0\x80") && !engine::isUtf8("\xc0\xaf")
            && !engine::isUtf8("\xf4\x90\x80\x80"));
    QCOMPARE(engine::repairUtf8("a\xf0\x9f\x99z"), std::string("a\uFFFD\uFFFD\uFFFDz"));
}

QTEST_GUILESS_MAIN(TstGgufReader)
#include "tst_gguf_reader.moc"
