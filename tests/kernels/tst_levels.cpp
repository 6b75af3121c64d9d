// SPDX-License-Identifier: GPL-3.0-or-later
// What single levels have of their own: products in bfloat16, tiles and their emulator, and how a level is chosen.
#include "kernels/cpu/aligned_memory.h"
#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/level_check.h"
#include "kernels/cpu/panel_pack.h"
#include "kernels/ops.h"
#include "tests/support/emulated_tiles.h"
#include "tests/support/kernel_data.h"
#include "tests/support/shared_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <bit>
#include <numeric>

using namespace kernels;
using kernel_data::Weight;

Q_DECLARE_METATYPE(kernels::DType)

namespace {

/// Numbers as bfloat16 keeps them.
std::vector<double> rounded(const std::vector<float> &values)
{
    std::vector<double> result;
    result.reserve(values.size());
    for (const float value : values) {
        auto bits = std::bit_cast<std::uint32_t>(value);
        bits = (bits + 0x7fffU + ((bits >> 16U) & 1U)) & 0xffff0000U;
        result.push_back(static_cast<double>(std::bit_cast<float>(bits)));
    }
    return result;
}

} // namespace

class TestLevels : public QObject {
    Q_OBJECT
private slots:
    void bfloatPanels_data();
    void bfloatPanels();
    void wrongTilesAreNotUsed();
    void wrongBfloatTilesAreNotUsed();
    void tileFaults();
    void levelErrors();
};

void TestLevels::bfloatPanels_data()
{
    QTest::addColumn<bool>("tiles");
    QTest::addColumn<DType>("type");
    unsigned count = 0;
    for (const bool tiles : {false, true}) {
        for (const DType type : kernel_data::weightTypes()) {
            if (++count % 4 != 0 && shared_data::fewCases())
                continue;
            QTest::addRow("%s %s", tiles ? "tiles" : "vectors", std::string(info(type).name).c_str()) << tiles << type;
        }
    }
}

/// The kernel itself, against sums in double of what bfloat16 makes of both sides.
void TestLevels::bfloatPanels()
{
    QFETCH(bool, tiles);
    QFETCH(DType, type);
    if (!kernel_data::hasLevel("avx512") || !hasBfloatProducts())
        QSKIP("this machine lacks the level avx512 with products in bfloat16");
    LevelKernels level = avx512Kernels();
    addBfloatKernels(level);
#if defined(LATHE_EMULATED_AMX)
    if (tiles)
        addEmulatedBfloatTiles(level);
#else
    if (tiles)
        QSKIP("this build emulates no tiles");
#endif
    const bool isPlain = info(type).blockElements == 1;
    const bool isSuper = info(type).blockElements > 64;
    for (const std::int64_t columns : isPlain ? std::vector<std::int64_t>{1, 37, 576, 1100}
             : isSuper                        ? std::vector<std::int64_t>{256, 768}
                                              : std::vector<std::int64_t>{64, 192, 576, 2112}) {
        const Weight weight = kernel_data::randomWeight(type, panelRows, columns, 61);
        const PanelLayout layout = panelLayout(type, columns);
        AlignedMemory memory;
        auto *panel = memory.reserve<std::uint8_t>(layout.panelBytes);
        packPanel(weight.part(), layout, 0, panel);
        AlignedMemory memories[4];
        PanelScratch scratch{};
        scratch.lines = memories[0].reserve<std::uint8_t>(quantSliceBlocks * 8 * lineBytes);
        scratch.columns = memories[1].reserve<float>(floatSliceColumns * panelRows);
        scratch.scales = memories[2].reserve<float>(2 * quantSliceBlocks * panelRows);
        scratch.mins = memories[3].reserve<float>(2 * quantSliceBlocks * panelRows);
        const std::vector<double> w = rounded(weight.expanded());
        const std::int64_t stride = (columns + 1) / 2 * 2;
        for (const int rows : {1, 13, 40, 85}) {
            const std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(rows * columns), 62);
            std::vector<std::uint16_t> half(static_cast<std::size_t>(rows * stride), 0);
            for (int r = 0; r < rows; ++r)
                level.roundBfloat(&x[static_cast<std::size_t>(r * columns)], columns,
                                  &half[static_cast<std::size_t>(r * stride)]);
            std::vector<float> out(static_cast<std::size_t>(rows * panelRows));
            level.bfloatPanel(layout, panel, half.data(), stride, rows, scratch, out.data());
            const std::vector<double> y = rounded(x);
            std::vector<float> wanted;
            for (int r = 0; r < rows; ++r) {
                const double *row = &y[static_cast<std::size_t>(r * columns)];
                for (int n = 0; n < panelRows; ++n)
                    wanted.push_back(static_cast<float>(
                        std::inner_product(row, row + columns, &w[static_cast<std::size_t>(n * columns)], 0.0)));
            }
            const double error = tolerance::nmse(out, wanted);
            // A quantised weight is made by another operation, and may then be rounded to the other side of a tie.
            QVERIFY2(error < (info(type).quantized ? 1e-7 : 1e-11),
                     qPrintable(QStringLiteral("%1 rows: %2").arg(rows).arg(error)));
        }
    }
}

void TestLevels::wrongTilesAreNotUsed()
{
    if (!kernel_data::hasLevel(kernel_data::emulatedAmx))
        QSKIP("this machine lacks the level amx-emulated");
    std::vector<std::string> notes;
    const LevelKernels tested = emulatedAmxKernels();
    const LevelKernels trusted = avx512VnniKernels();
    QCOMPARE(checkedTiles(tested, trusted, &notes).isa, Isa::Amx);
    QVERIFY(notes.empty());
    emulated_tiles::breakProducts(true);
    const CheckedLevel level = checkedTiles(tested, trusted, &notes);
    emulated_tiles::breakProducts(false);
    QCOMPARE(level.isa, Isa::Avx512Vnni);
    QVERIFY(level.kernels.quantPanel == trusted.quantPanel);
    QCOMPARE(notes.size(), std::size_t{1});
    QVERIFY(QString::fromStdString(notes[0]).contains(QStringLiteral("amx to avx512-vnni")));
}

void TestLevels::wrongBfloatTilesAreNotUsed()
{
    if (!kernel_data::hasLevel(kernel_data::emulatedAmx) || !hasBfloatProducts())
        QSKIP("this machine lacks the level amx-emulated with products in bfloat16");
#if defined(LATHE_EMULATED_AMX)
    LevelKernels vectors = avx512VnniKernels();
    addBfloatKernels(vectors);
    std::vector<std::string> notes;
    LevelKernels level = vectors;
    emulated_tiles::breakProducts(true);
    addCheckedBfloatTiles(level, addEmulatedBfloatTiles, &notes);
    emulated_tiles::breakProducts(false);
    QVERIFY(level.bfloatPanel == vectors.bfloatPanel);
    QCOMPARE(notes.size(), std::size_t{1});
    QVERIFY(QString::fromStdString(notes[0]).contains(QStringLiteral("without tiles")));
    addCheckedBfloatTiles(level, addEmulatedBfloatTiles, &notes);
    QVERIFY(level.bfloatPanel != vectors.bfloatPanel && emulated_tiles::released());
    QCOMPARE(notes.size(), std::size_t{1});
#endif
}

/// The emulator refuses what a processor refuses, or shapes could be wrong unnoticed.
void TestLevels::tileFaults()
{
#if defined(LATHE_EMULATED_AMX)
    using namespace kernels::emulated_tiles;
    std::vector<std::uint8_t> memory(1024, 1);
    QVERIFY_THROWS_EXCEPTION(std::logic_error, zero(0));
    TileConfig config;
    config.rows[0] = config.rows[1] = 5;
    config.rowBytes[0] = 64;
    config.rowBytes[1] = 32;
    config.rows[2] = 8;
    config.rowBytes[2] = 64;
    config.rows[3] = 4;
    config.rowBytes[3] = 64;
    configure(config);
    load(1, memory.data(), 32);
    load(2, memory.data(), 64);
    addSignedProducts(0, 1, 2);
    std::vector<std::int32_t> sums(5 * 16);
    store(0, sums.data(), 64);
    QCOMPARE(sums, std::vector<std::int32_t>(5 * 16, 32));
    QVERIFY_THROWS_EXCEPTION(std::logic_error, addSignedProducts(0, 1, 3));
    QVERIFY_THROWS_EXCEPTION(std::logic_error, addSignedProducts(2, 1, 0));
    QVERIFY_THROWS_EXCEPTION(std::logic_error, zero(4));
    config.rowBytes[0] = 65;
    QVERIFY_THROWS_EXCEPTION(std::logic_error, configure(config));
    release();
    QVERIFY_THROWS_EXCEPTION(std::logic_error, store(0, sums.data(), 64));
#else
    QSKIP("this build has no emulated tiles, as it is not for x86-64");
#endif
}

void TestLevels::levelErrors()
{
    try {
        (void)kernel_data::cpu("sse9", 1);
        QFAIL("made a backend of an unknown level");
    } catch (const Error &error) {
        QCOMPARE(error.code(), ErrorCode::InvalidArgument);
        QVERIFY(QString::fromUtf8(error.what()).contains(QStringLiteral("sse9")));
    }
    for (const std::string &level : kernel_data::allLevels()) {
        if (kernel_data::hasLevel(level)) {
            QCOMPARE(kernel_data::cpu(level, 1)->isa(), std::string_view(level));
            continue;
        }
        try {
            (void)kernel_data::cpu(level, 1);
            QFAIL("made a backend of a level that the machine lacks");
        } catch (const Error &error) {
            QCOMPARE(error.code(), ErrorCode::NoDevice);
            const QString message = QString::fromUtf8(error.what());
            QVERIFY(message.contains(QString::fromStdString(level)));
            QVERIFY(message.contains(QString::fromStdString(availableIsaLevels().back())));
        }
    }
}

QTEST_GUILESS_MAIN(TestLevels)
#include "tst_levels.moc"
