// SPDX-License-Identifier: GPL-3.0-or-later
// Paged attention in the emulator, against ReferenceOps and against itself: a row's bits depend neither on chunks nor
// on neighbours, splits, block sizes or where blocks lie.
#include "tests/cuda/attention_rig.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

using namespace kernels;
using namespace kernels::cuda;
using attention_rig::Case;
using attention_rig::check;
using attention_rig::outputs;
using attention_rig::Sequence;

namespace {

/// A case of every option by chance.
Case randomCase(std::uint32_t seed)
{
    std::mt19937 random(seed);
    const auto below = [&](unsigned n) { return static_cast<int>(random() % n); };
    const DType types[] = {DType::F16, DType::BF16, DType::E4M3, DType::Q8_0};
    const int dims[] = {16, 36, 64, 80, 96, 128, 192, 256};
    Case c;
    c.kvHeads = 1 + below(2);
    c.heads = c.kvHeads * (1 + below(9));
    c.headDim = dims[below(8)];
    c.blockTokens = 8 << below(5);
    c.keys = types[below(4)];
    c.values = below(3) == 0 ? types[below(4)] : c.keys;
    c.window = below(2) == 0 ? 1 + below(300) : 0;
    c.softCap = below(3) == 0 ? 2.0F + static_cast<float>(below(20)) : 0.0F;
    c.sinks = below(3) == 0;
    c.split = below(2) == 0;
    c.gap = below(4);
    for (int s = 0; s <= below(3); ++s) {
        const int context = 1 + below(below(2) == 0 ? 90 : 600);
        c.sequences.push_back({s, context, 1 + below(static_cast<unsigned>(std::min(context, 9)))});
    }
    return c;
}

} // namespace

class TestCudaAttention : public QObject {
    Q_OBJECT

private slots:
    void headSizesAndTypes_data();
    void headSizesAndTypes();
    void blockSizes_data();
    void blockSizes();
    void groups_data();
    void groups();
    void windows_data();
    void windows();
    void scores_data();
    void scores();
    void splits_data();
    void splits();
    void latent_data();
    void latent();
    void trees_data();
    void trees();
    void aLineIsATree();
    void randomCases_data();
    void randomCases();
    void rowsDoNotDependOnChunks_data();
    void rowsDoNotDependOnChunks();
    void rowsThatFillAStep_data();
    void rowsThatFillAStep();
};

void TestCudaAttention::headSizesAndTypes_data()
{
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("keys");
    QTest::addColumn<int>("values");
    const DType types[] = {DType::F16, DType::BF16, DType::E4M3, DType::Q8_0};
    for (const int headDim : {64, 80, 96, 128, 256, 16, 36, 100, 192}) {
        for (const DType type : types) {
            const bool usual = headDim >= 64 && headDim != 100 && headDim != 192;
            if (device_rig::smallOnly() && (headDim > 64 || !usual))
                continue;
            if (!shared_data::fullTier() && !usual && type != DType::Q8_0)
                continue;
            QTest::addRow("%d %s", headDim, info(type).name.data()) << headDim << int(type) << int(type);
        }
    }
    QTest::addRow("mixed f16 q8_0") << 64 << int(DType::F16) << int(DType::Q8_0);
    QTest::addRow("mixed fp8 f16") << 40 << int(DType::E4M3) << int(DType::F16);
    QTest::addRow("mixed bf16 fp8") << 40 << int(DType::BF16) << int(DType::E4M3);
}

void TestCudaAttention::headSizesAndTypes()
{
    QFETCH(int, headDim);
    QFETCH(int, keys);
    QFETCH(int, values);
    Case c;
    c.headDim = headDim;
    c.keys = static_cast<DType>(keys);
    c.values = static_cast<DType>(values);
    c.sequences = {{0, 75, 11}, {1, 67, 1}, {2, 3, 3}};
    if (device_rig::smallOnly())
        c.sequences = {{0, 67, 9}};
    const std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::blockSizes_data()
{
    QTest::addColumn<int>("blockTokens");
    for (const int blockTokens : {8, 16, 32, 64, 128})
        QTest::addRow("%d", blockTokens) << blockTokens;
}

void TestCudaAttention::blockSizes()
{
    QFETCH(int, blockTokens);
    Case c;
    c.kvHeads = 1;
    c.headDim = 32;
    c.blockTokens = blockTokens;
    c.sequences = {{0, 150, 5}, {1, 128, 1}, {2, 129, 2}, {3, 1, 1}};
    if (device_rig::smallOnly())
        c.sequences = {{0, 130, 1}};
    const std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::groups_data()
{
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("kvHeads");
    for (const auto &[heads, kvHeads] : {std::pair{4, 4}, {6, 2}, {14, 2}, {9, 3}, {16, 1}, {20, 1}, {33, 1}})
        if (!device_rig::smallOnly() || heads < 10)
            QTest::addRow("%d/%d", heads, kvHeads) << heads << kvHeads;
}

void TestCudaAttention::groups()
{
    QFETCH(int, heads);
    QFETCH(int, kvHeads);
    Case c;
    c.heads = heads;
    c.kvHeads = kvHeads;
    c.headDim = 32;
    c.sinks = true;
    c.sequences = {{0, 40, 1}, {1, 20, 7}, {2, 66, 2}};
    if (device_rig::smallOnly())
        c.sequences = {{0, 20, 3}};
    std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
    c.split = true;
    wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::windows_data()
{
    QTest::addColumn<int>("window");
    QTest::addColumn<bool>("split");
    // 88: the first key that position 599 sees is the first of a tile and of a split.
    for (const int window : {1, 17, 64, 65, 88, 256, 300, 2, 63, 255, 257, 344, 400}) {
        static constexpr int usual[] = {1, 17, 64, 65, 88, 256, 300};
        const bool isUsual = std::find(std::begin(usual), std::end(usual), window) != std::end(usual);
        if (device_rig::smallOnly() ? window != 17 : !isUsual && !shared_data::fullTier())
            continue;
        QTest::addRow("%d", window) << window << false;
        QTest::addRow("%d split", window) << window << true;
    }
}

void TestCudaAttention::windows()
{
    QFETCH(int, window);
    QFETCH(bool, split);
    Case c;
    c.heads = 2;
    c.kvHeads = 1;
    c.headDim = 32;
    c.window = window;
    c.split = split;
    c.sequences = {{0, 600, 1}, {1, 321, 7}, {2, 20, 20}};
    if (device_rig::smallOnly())
        c.sequences = {{1, 75, 9}};
    const std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::scores_data()
{
    QTest::addColumn<float>("softCap");
    QTest::addColumn<bool>("sinks");
    QTest::addColumn<int>("window");
    QTest::addRow("soft cap") << 3.0F << false << 0;
    QTest::addRow("soft cap, sinks") << 20.0F << true << 0;
    QTest::addRow("sinks, window") << 0.0F << true << 48;
    QTest::addRow("all") << 5.0F << true << 70;
}

void TestCudaAttention::scores()
{
    QFETCH(float, softCap);
    QFETCH(bool, sinks);
    QFETCH(int, window);
    Case c;
    c.headDim = 48;
    c.softCap = softCap;
    c.sinks = sinks;
    c.window = window;
    c.sequences = {{0, 130, 9}, {1, 300, 1}};
    if (device_rig::smallOnly())
        c.sequences = {{0, 70, 2}};
    std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
    c.split = true;
    wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::splits_data()
{
    QTest::addColumn<int>("context");
    QTest::addColumn<int>("headDim");
    for (const int context : {256, 257, 513, 255, 511, 512, 1100})
        if (device_rig::smallOnly() ? context == 257 : context % 256 < 2 || shared_data::fullTier())
            QTest::addRow("%d", context) << context << 32;
    if (!device_rig::smallOnly())
        QTest::addRow("300, wide heads") << 300 << 256;
}

/// Splits by blocks of their own, beside a short sequence that has none.
void TestCudaAttention::splits()
{
    QFETCH(int, context);
    QFETCH(int, headDim);
    Case c;
    c.kvHeads = device_rig::smallOnly() ? 4 : 2;
    c.headDim = headDim;
    c.split = true;
    c.sinks = true;
    c.sequences = {{0, context, 1}, {1, 30, 2}, {2, context - 100, 4}};
    if (device_rig::smallOnly())
        c.sequences = {{0, context, 1}};
    std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
    if (device_rig::smallOnly())
        return;
    Case alone = c;
    alone.split = false;
    wrong = device_rig::underSchedules(
        [&](StreamHandle stream) { return device_rig::compareBits(outputs(c, 1, stream), outputs(alone, 2, stream)); });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::latent_data()
{
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("valueDim");
    QTest::addColumn<int>("type");
    const auto add = [](int headDim, int valueDim, DType type) {
        QTest::addRow("%d of %d %s", valueDim, headDim, info(type).name.data()) << headDim << valueDim << int(type);
    };
    add(48, 32, DType::F16);
    if (device_rig::smallOnly())
        return;
    add(128, 121, DType::Q8_0);
    add(576, 512, DType::F16);
    add(576, 512, DType::BF16);
    add(160, 96, DType::E4M3);
}

/// Many heads share a key whose first elements are its value, as in DeepSeek's models.
void TestCudaAttention::latent()
{
    QFETCH(int, headDim);
    QFETCH(int, valueDim);
    QFETCH(int, type);
    Case c;
    c.heads = 9;
    c.kvHeads = 1;
    c.headDim = headDim;
    c.valueDim = valueDim;
    c.keys = c.values = static_cast<DType>(type);
    c.sequences = {{0, 300, 2}, {1, 20, 3}, {2, 65, 1}};
    if (device_rig::smallOnly())
        c.sequences = {{0, 70, 2}};
    std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
    Case split = c;
    split.split = true;
    wrong = device_rig::underSchedules(
        [&](StreamHandle stream) { return device_rig::compareBits(outputs(split, 1, stream), outputs(c, 2, stream)); });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::trees_data()
{
    QTest::addColumn<int>("tokens");
    QTest::addColumn<int>("window");
    QTest::addColumn<bool>("split");
    for (const int tokens : {1, 7, 33, 64}) {
        if (device_rig::smallOnly() && tokens > 7)
            continue;
        QTest::addRow("%d", tokens) << tokens << 0 << false;
        QTest::addRow("%d, window, split", tokens) << tokens << 3 << true;
        QTest::addRow("%d, wide window", tokens) << tokens << 40 << false;
    }
}

/// Every token's parent is an earlier one by chance.
void TestCudaAttention::trees()
{
    QFETCH(int, tokens);
    QFETCH(int, window);
    QFETCH(bool, split);
    Case c;
    c.headDim = 32;
    c.window = window;
    c.split = split;
    std::mt19937 random(static_cast<std::uint32_t>(tokens));
    for (std::uint32_t t = 0; t < static_cast<std::uint32_t>(tokens); ++t) {
        const std::uint32_t parent = t == 0 ? 0 : t - 1 - static_cast<std::uint32_t>(random()) % std::min(t, 5U);
        c.tree.push_back((t == 0 ? 0 : c.tree[parent]) | std::uint64_t{1} << t);
    }
    c.sequences = {{0, (device_rig::smallOnly() ? 10 : 240) + tokens, tokens}};
    const std::string wrong = check(c);
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Tokens that each see all before them have the bits of attention without a tree.
void TestCudaAttention::aLineIsATree()
{
    Case c;
    c.headDim = 32;
    c.window = 20;
    c.sequences = {{0, 40, 9}, {1, 12, 3}};
    Case tree = c;
    for (const int tokens : {9, 3})
        for (int t = 0; t < tokens; ++t)
            tree.tree.push_back((std::uint64_t{2} << t) - 1);
    const std::string wrong = device_rig::underSchedules(
        [&](StreamHandle stream) { return device_rig::compareBits(outputs(tree, 1, stream), outputs(c, 1, stream)); });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::randomCases_data()
{
    QTest::addColumn<int>("seed");
    const int cases = device_rig::thinned() ? 12 : shared_data::fullTier() ? 80 : device_rig::smallOnly() ? 0 : 6;
    QTest::addRow("0") << 0;
    for (int seed = 1; seed < cases; ++seed)
        QTest::addRow("%d", seed) << seed;
}

void TestCudaAttention::randomCases()
{
    QFETCH(int, seed);
    if (device_rig::smallOnly())
        return;
    const std::string wrong = check(randomCase(static_cast<std::uint32_t>(seed)));
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::rowsDoNotDependOnChunks_data()
{
    QTest::addColumn<int>("type");
    QTest::addColumn<int>("window");
    QTest::addRow("f16") << int(DType::F16) << 0;
    if (device_rig::smallOnly())
        return;
    QTest::addRow("q8_0, window") << int(DType::Q8_0) << 70;
    if (!shared_data::fullTier())
        return;
    QTest::addRow("bf16") << int(DType::BF16) << 0;
    QTest::addRow("fp8, window") << int(DType::E4M3) << 270;
}

/// The last 20 tokens of a prompt at once, and the same in pieces, beside others, in blocks of another size, in splits.
void TestCudaAttention::rowsDoNotDependOnChunks()
{
    QFETCH(int, type);
    QFETCH(int, window);
    const int context = device_rig::smallOnly() ? 70 : 330;
    constexpr int tokens = 20;
    Case c;
    c.heads = 6;
    c.headDim = 40;
    c.keys = c.values = static_cast<DType>(type);
    c.window = window;
    c.sinks = true;
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        c.sequences = {{0, context, tokens}};
        c.split = false;
        c.blockTokens = 16;
        const std::vector<float> whole = outputs(c, 1, stream);
        const auto piece = [&](int first, int last) {
            return std::vector<float>(whole.begin() + static_cast<std::ptrdiff_t>(first) * c.heads * c.headDim,
                                      whole.begin() + static_cast<std::ptrdiff_t>(last) * c.heads * c.headDim);
        };
        for (const auto &[first, last, blockTokens, split] : {std::tuple{0, 20, 8, true},
                                                              {0, 1, 8, true},
                                                              {19, 20, 128, true},
                                                              {1, 14, 32, false},
                                                              {7, 8, 64, false}}) {
            c.split = split;
            c.blockTokens = blockTokens;
            c.sequences = {{0, context - tokens + last, last - first}};
            std::string difference =
                device_rig::compareBits(outputs(c, static_cast<std::uint32_t>(last), stream), piece(first, last));
            if (difference.empty() && !device_rig::smallOnly()) {
                const Sequence own = c.sequences[0];
                c.sequences = {{5, 90, 3}, own, {6, 400, 1}};
                std::vector<float> among = outputs(c, 3, stream);
                const auto start = among.begin() + static_cast<std::ptrdiff_t>(3) * c.heads * c.headDim;
                among =
                    std::vector<float>(start, start + static_cast<std::ptrdiff_t>(last - first) * c.heads * c.headDim);
                difference = device_rig::compareBits(among, piece(first, last));
            }
            if (!difference.empty())
                return "tokens " + std::to_string(first) + " to " + std::to_string(last) + ": " + difference;
        }
        return std::string();
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

void TestCudaAttention::rowsThatFillAStep_data()
{
    QTest::addColumn<bool>("split");
    QTest::addColumn<int>("heads");
    QTest::newRow("walked") << false << 4;
    QTest::newRow("split") << true << 4;
    QTest::newRow("groups of several tiles") << false << 36;
}

/// They become 0 and read nothing; the others are what they are without them.
void TestCudaAttention::rowsThatFillAStep()
{
    QFETCH(bool, split);
    QFETCH(int, heads);
    Case c;
    c.split = split;
    c.heads = heads;
    c.headDim = 36;
    c.window = 50;
    const int longest = device_rig::smallOnly() ? 70 : 300;
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) {
        c.sequences = {{0, longest, 1}, {2, 20, 1}};
        std::vector<float> wanted = outputs(c, 1, stream);
        const auto row = static_cast<std::ptrdiff_t>(c.heads) * c.headDim;
        wanted.insert(wanted.begin() + row, static_cast<std::size_t>(row), 0.0F);
        wanted.insert(wanted.end(), static_cast<std::size_t>(row), 0.0F);
        c.sequences = {{0, longest, 1}, {1, 0, 1}, {2, 20, 1}, {3, 0, 1}};
        return device_rig::compareBits(outputs(c, 2, stream), wanted);
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

QTEST_GUILESS_MAIN(TestCudaAttention)
#include "tst_cuda_attention.moc"
