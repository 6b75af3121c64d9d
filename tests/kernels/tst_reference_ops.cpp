// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/ops.h"

#include <QTest>

#include <array>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace kernels;

/// ReferenceOps against values worked out by hand; everything else is compared with ReferenceOps.
namespace {

/// One head of one element, blocks of 8.
KvLayer floatLayer(std::vector<float> &cache, int blocks)
{
    return {reinterpret_cast<std::byte *>(cache.data()), DType::F32, DType::F32, blocks, 1, 8, 1, false};
}

} // namespace

class TestReferenceOps : public QObject {
    Q_OBJECT

private slots:
    void init();
    void linearOfStackedParts();
    void gated();
    void embedReadsQuantizedRows();
    void norm();
    void ropePairs_data();
    void ropePairs();
    void attentionOverBlocks();
    void attentionOptions();
    void storedTypesOfKeysAndValues();
    void gatherAndCopy();
    void unsupportedTypeIsRefused();
    void buffersAreZeroAndBounded();

private:
    std::unique_ptr<PackedWeight> packFloats(const std::vector<std::vector<float>> &parts, std::int64_t columns);

    std::unique_ptr<Ops> m_ops;
    std::unique_ptr<Stream> m_stream;
};

void TestReferenceOps::init()
{
    OpsOptions options;
    options.reference = true;
    options.threads = 2;
    m_ops = makeOps(options);
    m_stream = m_ops->makeStream();
    QCOMPARE(m_ops->name(), std::string_view("reference"));
    QVERIFY(m_ops->keepsSource());
}

std::unique_ptr<PackedWeight> TestReferenceOps::packFloats(const std::vector<std::vector<float>> &parts,
                                                           std::int64_t columns)
{
    std::vector<WeightPart> list;
    for (const auto &part : parts) {
        WeightPart &entry = list.emplace_back();
        entry.name = "part";
        entry.rows = static_cast<std::int64_t>(part.size()) / columns;
        entry.columns = columns;
        entry.data = reinterpret_cast<const std::byte *>(part.data());
    }
    return m_ops->pack(list);
}

void TestReferenceOps::linearOfStackedParts()
{
    const std::vector<std::vector<float>> parts{{1, 2, 3, 4, 5, 6}, {-1, 0, 1}};
    const auto weight = packFloats(parts, 3);
    QCOMPARE(weight->rows(), 3);
    std::array<float, 6> x{1, 1, 1, 2, 0, -1};
    std::array<float, 6> out{};
    const std::array<float, 3> bias{10, 20, 30};
    m_ops->linear(*weight, makeView(x.data(), DType::F32, 2, 3), makeView(out.data(), DType::F32, 2, 3), bias.data(),
                  *m_stream);
    QCOMPARE(out, (std::array<float, 6>{16, 35, 30, 9, 22, 27}));
    m_ops->linearAdd(*weight, makeView(x.data(), DType::F32, 2, 3), makeView(out.data(), DType::F32, 2, 3), nullptr,
                     *m_stream);
    QCOMPARE(out, (std::array<float, 6>{22, 50, 30, 8, 24, 24}));
}

void TestReferenceOps::gated()
{
    const std::vector<std::vector<float>> parts{{1, 0}, {0, 1}};
    const auto weight = packFloats(parts, 2);
    std::array<float, 2> x{1, 3};
    std::array<float, 1> out{};
    const auto run = [&](Activation activation) {
        m_ops->linearGated(*weight, activation, makeView(x.data(), DType::F32, 1, 2),
                           makeView(out.data(), DType::F32, 1, 1), nullptr, *m_stream);
        return out[0];
    };
    QCOMPARE(run(Activation::Silu), 3.0F * 0.7310585786F);
    QCOMPARE(run(Activation::GeluErf), 3.0F * 0.8413447461F);
    QCOMPARE(run(Activation::GeluTanh), 3.0F * 0.8411919906F);
}

void TestReferenceOps::embedReadsQuantizedRows()
{
    // Two rows of one Q8_0 block: scale 0.5 and 2.
    std::array<std::byte, 68> table{};
    for (int row = 0; row < 2; ++row) {
        const std::uint16_t scale = floatToHalf(row == 0 ? 0.5F : 2.0F);
        std::memcpy(table.data() + row * 34, &scale, 2);
        for (int i = 0; i < 32; ++i)
            table[static_cast<std::size_t>(row * 34 + 2 + i)] = static_cast<std::byte>(i - 16);
    }
    const WeightPart part{"table", DType::Q8_0, 2, 32, table.data()};
    const auto weight = m_ops->pack({&part, 1});
    std::array<float, 64> out{};
    const std::array<int, 2> ids{1, 0};
    m_ops->embed(*weight, ids, makeView(out.data(), DType::F32, 2, 32), *m_stream);
    QCOMPARE(out[0], -32.0F);
    QCOMPARE(out[31], 30.0F);
    QCOMPARE(out[32], -8.0F);
    QCOMPARE(out[63], 7.5F);
}

void TestReferenceOps::norm()
{
    std::array<float, 4> x{1, -1, 7, 7};
    std::array<float, 4> out{};
    const std::array<float, 2> weight{2, 3};
    m_ops->rmsNorm(makeView(x.data(), DType::F32, 2, 2), weight.data(), 0.0F, makeView(out.data(), DType::F32, 2, 2),
                   *m_stream);
    QCOMPARE(out, (std::array<float, 4>{2, -3, 2, 3}));
}

void TestReferenceOps::ropePairs_data()
{
    QTest::addColumn<bool>("interleaved");
    QTest::newRow("interleaved") << true;
    QTest::newRow("halves") << false;
}

void TestReferenceOps::ropePairs()
{
    QFETCH(bool, interleaved);
    RopeTable table;
    table.rotaryDim = 4;
    table.interleaved = interleaved;
    const double quarter = std::acos(0.0);
    table.inverseFrequencies = {quarter, 0.0}; // a quarter turn per position, and no turn
    std::array<float, 5> head{1, 2, 3, 4, 5};
    const std::array<int, 1> positions{1};
    m_ops->rope(makeView(head.data(), DType::F32, 1, 1, 5), positions, table, *m_stream);
    const auto wanted = interleaved ? std::array<float, 5>{-2, 1, 3, 4, 5} : std::array<float, 5>{-3, 2, 1, 4, 5};
    for (std::size_t i = 0; i < wanted.size(); ++i)
        QVERIFY(std::abs(head[i] - wanted[i]) < 1e-6F);
}

void TestReferenceOps::attentionOverBlocks()
{
    // Ten tokens in blocks of 8; block 2 holds the first eight, block 0 the rest. Keys are all equal, so the
    // softmax is even and the answer is the mean of the values so far.
    constexpr int tokens = 10;
    std::vector<float> cache(3 * 2 * 8, -100.0F);
    const KvLayer layer = floatLayer(cache, 3);
    std::array<float, tokens> k{};
    std::array<float, tokens> v{};
    std::array<int, tokens> places{};
    for (int t = 0; t < tokens; ++t) {
        v[static_cast<std::size_t>(t)] = static_cast<float>(t);
        places[static_cast<std::size_t>(t)] = t < 8 ? 16 + t : t - 8;
    }
    const auto view = [](auto &data) { return makeView(data.data(), DType::F32, tokens, 1, 1); };
    m_ops->kvStore(view(k), view(v), layer, places, *m_stream);
    std::array<float, tokens> q{};
    std::array<float, tokens> out{};
    const std::array<int, 2> starts{0, tokens};
    const std::array<int, 1> lengths{tokens};
    const std::array<int, 2> blocks{2, 0};
    const PagedBatch batch{starts, lengths, blocks, 2, 8};
    AttentionShape shape;
    shape.heads = shape.kvHeads = shape.headDim = 1;
    shape.scale = 1.0F;
    m_ops->pagedAttention(view(q), layer, batch, shape, view(out), *m_stream);
    for (int t = 0; t < tokens; ++t)
        QCOMPARE(out[static_cast<std::size_t>(t)], static_cast<float>(t) / 2.0F);
    shape.window = 3;
    m_ops->pagedAttention(view(q), layer, batch, shape, view(out), *m_stream);
    QCOMPARE(out[9], 8.0F);
    QCOMPARE(out[1], 0.5F);
}

void TestReferenceOps::attentionOptions()
{
    // Two keys with scores 0 and 10; values 0 and 1.
    std::vector<float> cache(16, 0.0F);
    cache[1] = 10.0F;
    cache[9] = 1.0F;
    const KvLayer layer = floatLayer(cache, 1);
    std::array<float, 1> q{1};
    std::array<float, 1> out{};
    const std::array<int, 2> starts{0, 1};
    const std::array<int, 1> lengths{2};
    const std::array<int, 1> blocks{0};
    const PagedBatch batch{starts, lengths, blocks, 1, 8};
    AttentionShape shape;
    shape.heads = shape.kvHeads = shape.headDim = 1;
    shape.scale = 0.1F;
    const auto run = [&] {
        m_ops->pagedAttention(makeView(q.data(), DType::F32, 1, 1, 1), layer, batch, shape,
                              makeView(out.data(), DType::F32, 1, 1, 1), *m_stream);
        return out[0];
    };
    QCOMPARE(run(), static_cast<float>(std::exp(1.0) / (1.0 + std::exp(1.0))));
    const float sink = 1.0F;
    shape.sinks = &sink;
    QCOMPARE(run(), static_cast<float>(std::exp(1.0) / (1.0 + 2.0 * std::exp(1.0))));
    shape.sinks = nullptr;
    shape.softCap = 0.5F;
    const double capped = 0.5 * std::tanh(2.0);
    QCOMPARE(run(), static_cast<float>(std::exp(capped) / (1.0 + std::exp(capped))));
}

void TestReferenceOps::storedTypesOfKeysAndValues()
{
    QCOMPARE(kvRowBytes(DType::Q8_0, 64), std::size_t{68});
    QCOMPARE(kvRowBytes(DType::Q8_0, 80), std::size_t{102}); // the last block is half empty
    QCOMPARE(kvRowBytes(DType::E4M3, 80), std::size_t{80});
    QVERIFY(!isKvType(DType::Q4_0) && !isKvType(DType::FP8));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    // E4M3 by hand: exact numbers, ties to even, saturation, steps of 2^-9 near zero.
    const std::vector<std::pair<float, float>> numbers{{1.0F, 1.0F},       {-0.875F, -0.875F},      {1.0625F, 1.0F},
                                                       {1.1875F, 1.25F},   {448.0F, 448.0F},        {460.0F, 448.0F},
                                                       {-1e9F, -448.0F},   {0.001953125F, 0x1p-9F}, {0.0009F, 0.0F},
                                                       {0.0030F, 0x1p-8F}, {0.015625F, 0.015625F},  {0.0F, 0.0F},
                                                       {nan, nan},         {infinity, nan}};
    for (const auto &[value, wanted] : numbers) {
        std::byte stored{};
        float found = 0.0F;
        storeKvRow(DType::E4M3, &value, 1, &stored);
        expandKvRow(DType::E4M3, &stored, 1, &found);
        QVERIFY2(std::isnan(wanted) ? std::isnan(found) : found == wanted, qPrintable(QString::number(value)));
    }
    // Q8_0: 33 numbers are two blocks, the second with a scale of its own.
    std::vector<float> row(33, 0.0F);
    row[0] = 127.0F;
    row[1] = -2.4F;
    row[2] = 2.5F; // a tie
    row[32] = 0.5F;
    std::vector<std::byte> stored(kvRowBytes(DType::Q8_0, 33));
    std::vector<float> found(33);
    storeKvRow(DType::Q8_0, row.data(), 33, stored.data());
    expandKvRow(DType::Q8_0, stored.data(), 33, found.data());
    QCOMPARE(found[0], 127.0F);
    QCOMPARE(found[1], -2.0F);
    QCOMPARE(found[2], 2.0F);
    QVERIFY(std::abs(found[32] - 0.5F) < 2e-4F);
    row[5] = nan;
    storeKvRow(DType::Q8_0, row.data(), 33, stored.data());
    expandKvRow(DType::Q8_0, stored.data(), 33, found.data());
    QVERIFY(std::isnan(found[0]) && std::isnan(found[5]) && !std::isnan(found[32]));
}

void TestReferenceOps::gatherAndCopy()
{
    std::array<float, 6> x{1, 2, 3, 4, 5, 6};
    std::array<float, 4> out{};
    const std::array<int, 2> rows{2, 0};
    m_ops->gatherRows(makeView(x.data(), DType::F32, 3, 2), rows, makeView(out.data(), DType::F32, 2, 2), *m_stream);
    QCOMPARE(out, (std::array<float, 4>{5, 6, 1, 2}));
    std::vector<float> cache(48);
    std::iota(cache.begin(), cache.end(), 0.0F);
    m_ops->copyBlock(floatLayer(cache, 3), 0, 2, *m_stream);
    for (std::size_t i = 0; i < 16; ++i)
        QCOMPARE(cache[32 + i], static_cast<float>(i));
}

void TestReferenceOps::unsupportedTypeIsRefused()
{
    const std::array<std::int32_t, 4> data{};
    const WeightPart part{"blk.0.x", DType::I32, 2, 2, reinterpret_cast<const std::byte *>(data.data())};
    QVERIFY(!m_ops->supportsWeight(DType::I32));
    try {
        (void)m_ops->pack({&part, 1});
        QFAIL("packed a weight of integers");
    } catch (const Error &error) {
        QCOMPARE(error.code(), ErrorCode::Refused);
        QVERIFY(std::string(error.what()).find("blk.0.x") != std::string::npos);
        QVERIFY(std::string(error.what()).find("I32") != std::string::npos);
    }
}

void TestReferenceOps::buffersAreZeroAndBounded()
{
    const auto buffer = m_ops->allocate(10000);
    QCOMPARE(buffer->bytes(), 10000U);
    for (std::size_t i = 0; i < buffer->bytes(); ++i)
        QVERIFY(buffer->data()[i] == std::byte{0});
    try {
        (void)m_ops->allocate(std::size_t{1} << 60);
        QFAIL("allocated an exbibyte");
    } catch (const Error &error) {
        QCOMPARE(error.code(), ErrorCode::OutOfMemory);
        QVERIFY(std::string(error.what()).find("1152921504606846976") != std::string::npos);
    }
}

QTEST_GUILESS_MAIN(TestReferenceOps)
#include "tst_reference_ops.moc"
