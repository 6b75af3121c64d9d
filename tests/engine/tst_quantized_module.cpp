// SPDX-License-Identifier: GPL-3.0-or-later
#include "tests/support/quantized_rig.h"

#include <QtTest>

using namespace quantized_rig;

namespace {

/// [in x bits / 32, out], each column of words a stream along in.
Words alongIn(const Number &value, int bits)
{
    const std::int64_t height = columns * bits / 32;
    Words packed(static_cast<std::size_t>(height * rows));
    for (std::int64_t row = 0; row < rows; ++row) {
        Words stream(static_cast<std::size_t>(height));
        for (std::int64_t k = 0; k < columns; ++k)
            put(stream, k, bits, value(row, k));
        for (std::int64_t w = 0; w < height; ++w)
            packed[static_cast<std::size_t>(w * rows + row)] = stream[static_cast<std::size_t>(w)];
    }
    return packed;
}

/// [groups, out x bits / 32]
Words zerosAlongOut(const Number &value, int bits)
{
    Words packed(static_cast<std::size_t>(groups * rows * bits / 32));
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t row = 0; row < rows; ++row)
            put(packed, g * rows + row, bits, value(row, g));
    }
    return packed;
}

std::vector<float> scalesByGroup()
{
    std::vector<float> values;
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t row = 0; row < rows; ++row)
            values.push_back(scale(row, g));
    }
    return values;
}

void addGptq(TensorFile &file, int bits, const Number &storedZero)
{
    file.add("m.qweight", "I32", {columns * bits / 32, rows},
             alongIn([bits](std::int64_t row, std::int64_t k) { return number(row, k, bits); }, bits));
    file.add("m.qzeros", "I32", {groups, rows * bits / 32}, zerosAlongOut(storedZero, bits));
    file.add("m.scales", "F16", {groups, rows}, halves(scalesByGroup()));
}

std::vector<float> gptqValues(int bits, const Number &realZero, const std::vector<std::int32_t> &index = {})
{
    return matrixOf([&](std::int64_t row, std::int64_t k) {
        const std::int64_t g = index.empty() ? k / group : index[static_cast<std::size_t>(k)];
        return static_cast<float>(number(row, k, bits) - realZero(row, g)) * scale(row, g);
    });
}

QuantizedScheme gptq(int bits, Zeros zeros, bool symmetric = false)
{
    QuantizedScheme scheme;
    scheme.bits = bits;
    scheme.groupSize = group;
    scheme.zeros = zeros;
    scheme.symmetric = symmetric;
    return scheme;
}

/// Zeros of eight rows; those of 0 borrow from their neighbours.
constexpr int borrowing[8] = {0, 5, 3, 7, 0, 0, 15, 8};

/// Nibble n of a word of AWQ holds this column of eight.
constexpr int awqColumns[8] = {0, 2, 4, 6, 1, 3, 5, 7};

} // namespace

class QuantizedModuleTest : public QObject {
    Q_OBJECT
private slots:
    void gptqZeros_data();
    void gptqZeros();
    void gptqZerosThatBorrow();
    void gptqLabelsThatLie();
    void gptqGroupsOfColumns();
    void gptqRefusals();
    void awqGemm();
    void awqGemv();
    void awqWithoutZeros();
    void promisedParts();
    void packedNumbers_data();
    void packedNumbers();
    void packedZerosAndOrder();
};

void QuantizedModuleTest::gptqZeros_data()
{
    QTest::addColumn<int>("bits");
    QTest::addColumn<bool>("lessOne");
    for (const int bits : {2, 3, 4, 8}) {
        QTest::addRow("%d bits, v1", bits) << bits << true;
        QTest::addRow("%d bits, v2", bits) << bits << false;
    }
}

void QuantizedModuleTest::gptqZeros()
{
    QFETCH(int, bits);
    QFETCH(bool, lessOne);
    Folder folder;
    const auto real = [bits](std::int64_t row, std::int64_t g) { return zero(row, g, bits); };
    addGptq(folder.file, bits, [&](std::int64_t row, std::int64_t g) { return real(row, g) - (lessOne ? 1 : 0); });
    const QuantizedMatrix matrix = folder.read(gptq(bits, lessOne ? Zeros::LessOne : Zeros::AsStored));
    QCOMPARE(matrix.rows, rows);
    QCOMPARE(matrix.columns, columns);
    QVERIFY(matrix.warnings.empty());
    QCOMPARE(matrix.type, bits == 2 ? DType::INT2 : bits == 3 ? DType::INT3 : bits == 4 ? DType::INT4 : DType::INT8Z);
    QCOMPARE(expand(matrix), gptqValues(bits, real));
}

void QuantizedModuleTest::gptqZerosThatBorrow()
{
    // Taking one off every field of a whole word lets a zero of 0 borrow from the next one.
    Words words(static_cast<std::size_t>(groups * rows / 8));
    for (std::uint32_t &word : words) {
        word = 0;
        for (int i = 0; i < 8; ++i)
            word |= static_cast<std::uint32_t>(borrowing[i]) << (4 * i);
        word -= 0x11111111U;
    }
    Folder folder;
    folder.file.add("m.qweight", "I32", {columns / 8, rows},
                    alongIn([](std::int64_t row, std::int64_t k) { return number(row, k, 4); }, 4));
    folder.file.add("m.qzeros", "I32", {groups, rows / 8}, words);
    folder.file.add("m.scales", "F16", {groups, rows}, halves(scalesByGroup()));
    const QuantizedMatrix byWords = folder.read(gptq(4, Zeros::LessOneByWords));
    QCOMPARE(expand(byWords), gptqValues(4, [](std::int64_t row, std::int64_t) { return borrowing[row % 8]; }));
    QCOMPARE(byWords.warnings.size(), 1U);
    const QuantizedMatrix byFields = folder.read(gptq(4, Zeros::LessOne));
    static constexpr int fields[8] = {0, 4, 3, 7, 0, 15, 14, 8};
    QCOMPARE(expand(byFields), gptqValues(4, [](std::int64_t row, std::int64_t) { return fields[row % 8]; }));
    QCOMPARE(byFields.warnings.size(), 1U);
    QVERIFY(byFields.warnings[0].find("the zeros of m ") != std::string::npos);
}

/// The zeros of a symmetric file say themselves which convention it follows.
void QuantizedModuleTest::gptqLabelsThatLie()
{
    const auto middle = [](std::int64_t, std::int64_t) { return 8; };
    for (const int stored : {7, 8}) {
        for (const Zeros label : {Zeros::LessOne, Zeros::AsStored}) {
            Folder folder;
            addGptq(folder.file, 4, [stored](std::int64_t, std::int64_t) { return stored; });
            const QuantizedMatrix matrix = folder.read(gptq(4, label, true));
            QCOMPARE(matrix.type, DType::Q4_0);
            QCOMPARE(expand(matrix), gptqValues(4, middle));
            const bool agrees = (stored == 7) == (label == Zeros::LessOne);
            QCOMPARE(matrix.warnings.empty(), agrees);
        }
    }
    Folder folder; // without the claim, the label decides
    addGptq(folder.file, 4, middle);
    QCOMPARE(expand(folder.read(gptq(4, Zeros::LessOne))), gptqValues(4, [](std::int64_t, std::int64_t) { return 9; }));
    Folder bytes;
    addGptq(bytes.file, 8, [](std::int64_t, std::int64_t) { return 127; });
    const QuantizedMatrix matrix = bytes.read(gptq(8, Zeros::LessOne, true));
    QCOMPARE(matrix.type, DType::Q8_0);
    QCOMPARE(expand(matrix), gptqValues(8, [](std::int64_t, std::int64_t) { return 128; }));
}

void QuantizedModuleTest::gptqGroupsOfColumns()
{
    const auto real = [](std::int64_t row, std::int64_t g) { return zero(row, g, 4); };
    std::vector<std::int32_t> index(columns);
    for (std::size_t k = 0; k < index.size(); ++k)
        index[k] = static_cast<std::int32_t>(k * 35 % columns / group);
    Folder folder;
    addGptq(folder.file, 4, real);
    folder.file.add("m.g_idx", "I32", {columns}, index);
    const QuantizedMatrix matrix = folder.read(gptq(4, Zeros::AsStored));
    QCOMPARE(matrix.columnOrder.size(), index.size());
    QCOMPARE(expand(matrix), gptqValues(4, real, index));

    for (const int step : {0, 1}) { // nothing but zeros means k / group, which needs no order
        Folder even;
        addGptq(even.file, 4, real);
        for (std::size_t k = 0; k < index.size(); ++k)
            index[k] = static_cast<std::int32_t>(k / group) * step;
        even.file.add("m.g_idx", "I32", {columns}, index);
        const QuantizedMatrix inOrder = even.read(gptq(4, Zeros::AsStored));
        QVERIFY(inOrder.columnOrder.empty());
        QCOMPARE(expand(inOrder), gptqValues(4, real));
    }
    index[40] = 3;
    Folder beyond;
    addGptq(beyond.file, 4, real);
    beyond.file.add("m.g_idx", "I32", {columns}, index);
    QVERIFY(beyond.refusal(gptq(4, Zeros::AsStored)).contains(QStringLiteral("column 40 the group 3, wanted 0 to 2")));
    index[40] = 0;
    Folder uneven;
    addGptq(uneven.file, 4, real);
    uneven.file.add("m.g_idx", "I32", {columns}, index);
    QVERIFY(uneven.refusal(gptq(4, Zeros::AsStored)).contains(QStringLiteral("after 33 columns")));
}

void QuantizedModuleTest::gptqRefusals()
{
    const auto real = [](std::int64_t row, std::int64_t g) { return zero(row, g, 4); };
    Folder groupSize;
    addGptq(groupSize.file, 4, real);
    QuantizedScheme scheme = gptq(4, Zeros::AsStored);
    scheme.groupSize = 48;
    QVERIFY(groupSize.refusal(scheme).contains(QStringLiteral("groups of 48 columns")));
    scheme.groupSize = 64;
    QVERIFY(groupSize.refusal(scheme).contains(QStringLiteral("[3, 4], wanted [2, 4]")));
    Folder bits;
    addGptq(bits.file, 4, real);
    const QString three = bits.refusal(gptq(3, Zeros::AsStored));
    QVERIFY2(three.contains(QStringLiteral("m.q")) && three.contains(QStringLiteral("wanted")), qPrintable(three));
    Folder missing;
    missing.file.add("m.qweight", "I32", {columns / 8, rows}, Words(static_cast<std::size_t>(columns / 8 * rows)));
    missing.file.add("m.scales", "F16", {groups, rows}, halves(scalesByGroup()));
    QVERIFY(missing.refusal(gptq(4, Zeros::AsStored)).contains(QStringLiteral("\"m.qzeros\", which is missing")));
    Folder odd;
    odd.file.add("m.qweight", "I32", {5, rows}, Words(static_cast<std::size_t>(5 * rows)));
    odd.file.add("m.qzeros", "I32", {2, rows / 8}, Words(static_cast<std::size_t>(2 * rows / 8)));
    odd.file.add("m.scales", "F16", {2, rows}, std::vector<std::uint16_t>(static_cast<std::size_t>(2 * rows)));
    QVERIFY(odd.refusal(gptq(4, Zeros::AsStored)).contains(QStringLiteral("40 columns, wanted a multiple of 32")));
}

void QuantizedModuleTest::awqGemm()
{
    Words weight(static_cast<std::size_t>(columns * rows / 8));
    Words zeros(static_cast<std::size_t>(groups * rows / 8));
    for (std::int64_t word = 0; word < rows / 8; ++word) {
        for (int nibble = 0; nibble < 8; ++nibble) {
            const std::int64_t row = 8 * word + awqColumns[nibble];
            for (std::int64_t k = 0; k < columns; ++k)
                weight[static_cast<std::size_t>(k * rows / 8 + word)] |= static_cast<std::uint32_t>(number(row, k, 4))
                    << (4 * nibble);
            for (std::int64_t g = 0; g < groups; ++g)
                zeros[static_cast<std::size_t>(g * rows / 8 + word)] |= static_cast<std::uint32_t>(zero(row, g, 4) - 1)
                    << (4 * nibble); // zeros of 0 are common
        }
    }
    Folder folder;
    folder.file.add("m.qweight", "I32", {columns, rows / 8}, weight);
    folder.file.add("m.qzeros", "I32", {groups, rows / 8}, zeros);
    folder.file.add("m.scales", "F16", {groups, rows}, halves(scalesByGroup()));
    QuantizedScheme scheme;
    scheme.layout = Layout::AwqGemm;
    scheme.groupSize = group;
    const QuantizedMatrix matrix = folder.read(scheme);
    QCOMPARE(matrix.rows, rows);
    QCOMPARE(expand(matrix), gptqValues(4, [](std::int64_t row, std::int64_t g) { return zero(row, g, 4) - 1; }));
}

void QuantizedModuleTest::awqGemv()
{
    constexpr std::int64_t width = 2; // words of zeros in a row, more than three groups need
    Words zeros(static_cast<std::size_t>(rows * width));
    std::vector<float> scales(static_cast<std::size_t>(rows * 8 * width));
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t g = 0; g < groups; ++g) {
            put(zeros, row * 8 * width + g, 4, zero(row, g, 4));
            scales[static_cast<std::size_t>(row * 8 * width + g)] = scale(row, g);
        }
    }
    Folder folder;
    folder.file.add("m.qweight", "I32", {rows, columns / 8}, alongRows(4));
    folder.file.add("m.qzeros", "I32", {rows, width}, zeros);
    folder.file.add("m.scales", "F16", {rows, 8 * width}, halves(scales));
    QuantizedScheme scheme;
    scheme.layout = Layout::AwqGemv;
    scheme.groupSize = group;
    QCOMPARE(expand(folder.read(scheme)),
             gptqValues(4, [](std::int64_t row, std::int64_t g) { return zero(row, g, 4); }));
}

void QuantizedModuleTest::awqWithoutZeros()
{
    Folder folder;
    folder.file.add("m.qweight", "I32", {rows, columns / 8}, alongRows(4));
    folder.file.add("m.scales", "F16", {rows, 8}, std::vector<std::uint16_t>(rows * 8, 0x3c00));
    QuantizedScheme scheme;
    scheme.layout = Layout::AwqGemv;
    const QuantizedMatrix matrix = folder.read(scheme);
    QCOMPARE(matrix.type, DType::Q4_0);
    QCOMPARE(expand(matrix),
             matrixOf([](std::int64_t row, std::int64_t k) { return static_cast<float>(number(row, k, 4) - 8); }));
}

/// Zeros and an order of columns that the configuration promises are never taken for the usual ones.
void QuantizedModuleTest::promisedParts()
{
    Folder awq;
    awq.file.add("m.qweight", "I32", {rows, columns / 8}, alongRows(4));
    awq.file.add("m.scales", "F16", {rows, 8}, std::vector<std::uint16_t>(rows * 8, 0x3c00));
    QuantizedScheme scheme;
    scheme.layout = Layout::AwqGemv;
    scheme.needsZeros = true;
    QVERIFY(awq.refusal(scheme).contains(QStringLiteral("\"m.qzeros\", which is missing")));
    Folder ordered;
    addGptq(ordered.file, 4, [](std::int64_t row, std::int64_t g) { return zero(row, g, 4); });
    scheme = gptq(4, Zeros::AsStored);
    scheme.needsOrder = true;
    QVERIFY(ordered.refusal(scheme).contains(QStringLiteral("\"m.g_idx\", which is missing")));
    Folder packed;
    packed.file.add("m.weight_packed", "I32", {rows, columns / 8}, alongRows(4));
    packed.file.add("m.weight_scale", "F16", {rows, groups}, halves(scalesByRow()));
    scheme = compressed(4, group);
    scheme.needsOrder = true;
    QVERIFY(packed.refusal(scheme).contains(QStringLiteral("\"m.weight_g_idx\", which is missing")));
    scheme.needsZeros = true;
    QVERIFY(packed.refusal(scheme).contains(QStringLiteral("\"m.weight_zero_point\", which is missing")));
}

void QuantizedModuleTest::packedNumbers_data()
{
    QTest::addColumn<int>("bits");
    QTest::addColumn<bool>("brain");
    for (const int bits : {2, 3, 4, 8}) {
        QTest::addRow("%d bits, F16", bits) << bits << false;
        QTest::addRow("%d bits, BF16", bits) << bits << true;
    }
}

void QuantizedModuleTest::packedNumbers()
{
    QFETCH(int, bits);
    QFETCH(bool, brain);
    std::vector<std::uint16_t> scales;
    for (const float value : scalesByRow())
        scales.push_back(brain ? kernels::floatToBf16(value) : kernels::floatToHalf(value));
    Folder folder;
    folder.file.add("m.weight_packed", "I32", {rows, columns * bits / 32}, alongRows(bits));
    folder.file.add("m.weight_scale", brain ? "BF16" : "F16", {rows, groups}, scales);
    folder.file.add("m.weight_shape", "I64", {2}, std::vector<std::int64_t>{rows, columns});
    const QuantizedMatrix matrix = folder.read(compressed(bits, group));
    QCOMPARE(matrix.type == DType::Q4_0 || matrix.type == DType::Q8_0, !brain && bits >= 4);
    QCOMPARE(expand(matrix), gptqValues(bits, [bits](std::int64_t, std::int64_t) { return 1 << (bits - 1); }));
    Folder other;
    other.file.add("m.weight_packed", "I32", {rows, columns * bits / 32}, alongRows(bits));
    other.file.add("m.weight_scale", "F16", {rows, groups}, halves(scalesByRow()));
    other.file.add("m.weight_shape", "I64", {2}, std::vector<std::int64_t>{columns, rows});
    QVERIFY(other.refusal(compressed(bits, group)).contains(QStringLiteral("says [96, 32]")));
}

/// Zeros are packed along the rows, and columns may be out of order.
void QuantizedModuleTest::packedZerosAndOrder()
{
    Words zeros(static_cast<std::size_t>(rows / 8 * groups));
    for (std::int64_t g = 0; g < groups; ++g) {
        for (std::int64_t row = 0; row < rows; ++row)
            zeros[static_cast<std::size_t>(row / 8 * groups + g)] |= static_cast<std::uint32_t>(zero(row, g, 4))
                << (row % 8 * 4);
    }
    std::vector<std::int32_t> index(columns);
    for (std::size_t k = 0; k < index.size(); ++k)
        index[k] = static_cast<std::int32_t>((columns - 1 - k) % 3);
    Folder folder;
    folder.file.add("m.weight_packed", "I32", {rows, columns / 8}, alongRows(4));
    folder.file.add("m.weight_scale", "F32", {rows, groups}, scalesByRow());
    folder.file.add("m.weight_zero_point", "I32", {rows / 8, groups}, zeros);
    folder.file.add("m.weight_g_idx", "I32", {columns}, index);
    const QuantizedMatrix matrix = folder.read(compressed(4, group));
    QCOMPARE(expand(matrix), gptqValues(4, [](std::int64_t row, std::int64_t g) { return zero(row, g, 4); }, index));
}

QTEST_GUILESS_MAIN(QuantizedModuleTest)
#include "tst_quantized_module.moc"
