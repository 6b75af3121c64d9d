// SPDX-License-Identifier: GPL-3.0-or-later
// Paged attention in the emulator, against ReferenceOps and against itself: a row's bits depend neither on chunks nor
// on neighbours, splits, block sizes or where blocks lie.
#include "kernels/ops.h"
#include "tests/cuda/device_rig.h"
#include "tests/support/kernel_data.h"
#include "tests/support/shared_data.h"

#include <QTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>
#include <random>

using namespace kernels;
using namespace kernels::cuda;
using device_rig::DeviceArray;
using device_rig::Rows;

namespace {

/// The last `tokens` of a sequence's `context` are queries. Its numbers depend on its name and their positions alone.
struct Sequence {
    int name = 0;
    int context = 0;
    int tokens = 0;
};

struct Case {
    int heads = 4;
    int kvHeads = 2;
    int headDim = 64;
    int blockTokens = 16;
    DType keys = DType::F16;
    DType values = DType::F16;
    int window = 0;
    float softCap = 0.0F;
    bool sinks = false;
    bool split = false; ///< blocks share the keys of a row
    int gap = 3;        ///< behind rows of queries and outputs
    int valueDim = 0;   ///< not 0: values are so many elements of the keys
    /// Of all query tokens: which tokens of their sequence's step they see; empty = all up to themselves.
    std::vector<std::uint64_t> tree{};
    std::vector<Sequence> sequences;

    [[nodiscard]] AttentionShape shape(const std::vector<float> &sinkScores) const
    {
        AttentionShape shape;
        shape.heads = heads;
        shape.kvHeads = kvHeads;
        shape.headDim = headDim;
        shape.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
        shape.window = window;
        shape.softCap = softCap;
        shape.sinks = sinks ? sinkScores.data() : nullptr;
        shape.valuesInKeys = valueDim > 0;
        shape.valueDim = valueDim;
        return shape;
    }
    [[nodiscard]] int outDim() const { return valueDim > 0 ? valueDim : headDim; }
};

std::vector<float> numbersOf(const Case &c, const Sequence &sequence, int kind, int heads)
{
    return kernel_data::randomFloats(static_cast<std::size_t>(sequence.context * heads * c.headDim),
                                     static_cast<std::uint32_t>(sequence.name * 8 + kind));
}

/// Everything a launch reads, on the host and as it lies on the device.
class Step {
public:
    Step(const Case &c, std::uint32_t placement);

    [[nodiscard]] std::vector<float> reference() const;
    /// In float64, every token over the tokens that it sees by the tree. \pre one sequence
    [[nodiscard]] std::vector<float> treeReference() const;
    /// Outputs of the kernels, or nothing with the reason in `wrong`.
    [[nodiscard]] std::vector<float> run(StreamHandle stream, std::string &wrong) const;

private:
    void store(const Sequence &sequence, std::size_t index);
    void forgetUnseen(const Sequence &sequence, std::size_t index);
    [[nodiscard]] KvPlane plane(std::byte *data, DType type) const;

    Case m_case;
    KvLayer m_layer;
    std::vector<std::byte> m_bytes;
    std::vector<int> m_starts{0};
    std::vector<int> m_contexts;
    std::vector<int> m_tables;
    int m_maxBlocks = 0;
    int m_splits = 1;
    std::vector<float> m_queries; ///< [tokens, heads, headDim]
    std::vector<float> m_sinks;
    std::vector<AttentionTile> m_tiles;
};

Step::Step(const Case &c, std::uint32_t placement)
    : m_case(c)
    , m_sinks(kernel_data::randomFloats(static_cast<std::size_t>(c.heads), 99))
{
    for (float &sink : m_sinks)
        sink *= 3.0F;
    int blocks = 2;
    for (const Sequence &sequence : c.sequences) {
        const int own = (sequence.context + c.blockTokens - 1) / c.blockTokens;
        m_maxBlocks = std::max(m_maxBlocks, own);
        m_splits = std::max(m_splits, (sequence.context + attentionSplitKeys - 1) / attentionSplitKeys);
        blocks += own;
    }
    m_layer = {nullptr, c.keys, c.values, blocks, c.kvHeads, c.blockTokens, c.headDim, c.valueDim > 0};
    m_bytes.assign(static_cast<std::size_t>(blocks) * m_layer.blockBytes(), std::byte{0xff}); // NaN in every type
    m_layer.data = m_bytes.data();
    std::vector<int> places(static_cast<std::size_t>(blocks));
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::mt19937(placement));
    m_tables.assign(c.sequences.size() * static_cast<std::size_t>(m_maxBlocks), -1);
    for (std::size_t s = 0; s < c.sequences.size(); ++s) {
        const Sequence &sequence = c.sequences[s];
        for (int block = 0; block * c.blockTokens < sequence.context; ++block) {
            m_tables[s * static_cast<std::size_t>(m_maxBlocks) + static_cast<std::size_t>(block)] = places.back();
            places.pop_back();
        }
        store(sequence, s);
        forgetUnseen(sequence, s);
        const std::vector<float> q = numbersOf(c, sequence, 0, c.heads);
        const auto from = q.end() - static_cast<std::ptrdiff_t>(sequence.tokens) * c.heads * c.headDim;
        std::transform(from, q.end(), std::back_inserter(m_queries), [](float x) { return 6.0F * x; });
        m_starts.push_back(m_starts.back() + sequence.tokens);
        m_contexts.push_back(sequence.context);
        for (int row = 0; row < sequence.tokens * (c.heads / c.kvHeads); row += attentionTileRows)
            m_tiles.push_back({static_cast<int>(s), row});
    }
}

void Step::store(const Sequence &sequence, std::size_t index)
{
    const std::vector<float> k = numbersOf(m_case, sequence, 1, m_case.kvHeads);
    const std::vector<float> v = numbersOf(m_case, sequence, 2, m_case.kvHeads);
    for (int i = 0; i < sequence.context * m_case.kvHeads; ++i) {
        const int position = i / m_case.kvHeads;
        const int head = i % m_case.kvHeads;
        const int block = m_tables[index * static_cast<std::size_t>(m_maxBlocks)
                                   + static_cast<std::size_t>(position / m_case.blockTokens)];
        const auto token = static_cast<std::size_t>(position % m_case.blockTokens);
        storeKvRow(m_case.keys, k.data() + static_cast<std::ptrdiff_t>(i) * m_case.headDim, m_case.headDim,
                   m_layer.keys(block, head) + token * m_layer.keyRowBytes());
        if (m_case.valueDim == 0)
            storeKvRow(m_case.values, v.data() + static_cast<std::ptrdiff_t>(i) * m_case.headDim, m_case.headDim,
                       m_layer.values(block, head) + token * m_layer.valueRowBytes());
    }
}

/// Blocks that the window has left belong to nobody: their numbers lead far out of the cache.
void Step::forgetUnseen(const Sequence &sequence, std::size_t index)
{
    if (m_case.window == 0)
        return;
    const int seen = std::max(0, sequence.context - sequence.tokens + 1 - m_case.window);
    const auto first = m_tables.begin() + static_cast<std::ptrdiff_t>(index) * m_maxBlocks;
    std::fill(first, first + seen / m_case.blockTokens, 1 << 28);
}

std::vector<float> Step::reference() const
{
    const std::unique_ptr<Ops> ops = kernel_data::reference();
    const std::unique_ptr<Stream> stream = ops->makeStream();
    std::vector<float> q = m_queries;
    std::vector<float> out(static_cast<std::size_t>(m_starts.back() * m_case.heads * m_case.outDim()));
    const PagedBatch batch{m_starts, m_contexts, m_tables, m_maxBlocks, m_case.blockTokens};
    ops->pagedAttention(makeView(q.data(), DType::F32, m_starts.back(), m_case.heads, m_case.headDim), m_layer, batch,
                        m_case.shape(m_sinks),
                        makeView(out.data(), DType::F32, m_starts.back(), m_case.heads, m_case.outDim()), *stream);
    return out;
}

std::vector<float> Step::treeReference() const
{
    const int before = m_contexts[0] - m_starts[1]; // keys ahead of the tree
    const auto dim = static_cast<std::size_t>(m_case.headDim);
    std::vector<float> out;
    for (int row = 0; row < m_starts[1] * m_case.heads; ++row) {
        const std::uint64_t mask = m_case.tree[static_cast<std::size_t>(row / m_case.heads)];
        std::vector<double> sums(dim, 0.0);
        double total = 0.0;
        for (int key = 0; key < m_contexts[0]; ++key) {
            const int step = key - before;
            if (step >= 0 && (mask >> step & 1U) == 0)
                continue;
            const int place = step < 0 ? key : before + std::popcount(m_case.tree[static_cast<std::size_t>(step)]) - 1;
            if (m_case.window > 0 && place <= before + std::popcount(mask) - 1 - m_case.window)
                continue;
            std::vector<float> k(dim);
            std::vector<float> v(dim);
            const int block = m_tables[static_cast<std::size_t>(key / m_case.blockTokens)];
            const int head = row % m_case.heads / (m_case.heads / m_case.kvHeads);
            const auto token = static_cast<std::size_t>(key % m_case.blockTokens);
            expandKvRow(m_case.keys, m_layer.keys(block, head) + token * m_layer.keyRowBytes(), m_case.headDim,
                        k.data());
            expandKvRow(m_case.values, m_layer.values(block, head) + token * m_layer.valueRowBytes(), m_case.headDim,
                        v.data());
            const double score = std::inner_product(
                k.begin(), k.end(), m_queries.begin() + static_cast<std::ptrdiff_t>(row) * m_case.headDim, 0.0);
            const double weight = std::exp(score / std::sqrt(static_cast<double>(m_case.headDim)));
            total += weight;
            for (std::size_t i = 0; i < dim; ++i)
                sums[i] += weight * static_cast<double>(v[i]);
        }
        std::transform(sums.begin(), sums.end(), std::back_inserter(out),
                       [total](double sum) { return static_cast<float>(sum / total); });
    }
    return out;
}

KvPlane Step::plane(std::byte *data, DType type) const
{
    KvPlane plane;
    plane.data = data;
    plane.type = type;
    plane.heads = m_case.kvHeads;
    plane.blockTokens = m_case.blockTokens;
    plane.headDim = m_case.headDim;
    plane.blockBytes = static_cast<std::int64_t>(m_layer.blockBytes());
    plane.rowBytes = static_cast<int>(kvRowBytes(type, m_case.headDim));
    return plane;
}

std::vector<float> Step::run(StreamHandle stream, std::string &wrong) const
{
    const DeviceArray<std::byte> cache(m_bytes);
    const DeviceArray<int> starts(m_starts);
    const DeviceArray<int> contexts(m_contexts);
    const DeviceArray<int> tables(m_tables);
    const DeviceArray<AttentionTile> tiles(m_tiles);
    const DeviceArray<float> sinks(m_sinks);
    const int rows = m_starts.back() * m_case.heads;
    const Rows::Layout layout{m_case.heads, m_case.gap, m_case.gap};
    const Rows q(rows, m_case.headDim, m_queries, layout);
    const Rows out(rows, m_case.outDim(), layout);
    std::optional<DeviceArray<float>> partials;
    AttentionArguments a;
    a.q = q.span();
    a.out = out.span();
    a.keys = plane(cache.data(), m_case.keys);
    a.values = plane(cache.data() + (m_layer.values(0, 0) - m_layer.keys(0, 0)), m_case.values);
    a.values.headDim = m_case.outDim();
    a.valuesInKeys = m_case.valueDim > 0;
    const DeviceArray<std::uint64_t> tree(m_case.tree);
    a.treeMasks = m_case.tree.empty() ? nullptr : tree.data();
    a.tiles = tiles.data();
    a.tileCount = static_cast<int>(m_tiles.size());
    a.queryStarts = starts.data();
    a.contextLengths = contexts.data();
    a.blockTables = tables.data();
    a.maxBlocks = m_maxBlocks;
    a.groupHeads = m_case.heads / m_case.kvHeads;
    a.scale = 1.0F / std::sqrt(static_cast<float>(m_case.headDim));
    a.window = m_case.window;
    a.softCap = m_case.softCap;
    a.sinks = m_case.sinks ? sinks.data() : nullptr;
    a.splits = m_splits;
    if (m_case.split) {
        partials.emplace(static_cast<std::size_t>(m_splits) * static_cast<std::size_t>(rows)
                         * static_cast<std::size_t>(m_case.outDim() + 2));
        a.partials = partials->data();
    }
    launchAttention(a, stream);
    if (!out.restIntact() || !q.restIntact() || (partials && !partials->bordersIntact()))
        wrong = "something was written outside of the rows";
    if (!cache.equals(m_bytes) || !tables.equals(m_tables) || q.values() != m_queries)
        wrong = "an input was changed";
    return out.values();
}

/// NMSE of a row: queries and weights are rounded to half, or to the sum of two bfloat16.
double limitFor(const Case &c)
{
    const bool bf16 = c.keys == DType::BF16 || c.values == DType::BF16;
    if (!bf16)
        return 2e-6;
    const bool exact = c.keys == DType::BF16 && c.values == DType::BF16;
    return exact ? 1e-8 : 1e-4; // the other type is rounded to bfloat16
}

std::string check(const Case &c)
{
    const Step step(c, 7);
    const std::vector<float> wanted = c.tree.empty() ? step.reference() : step.treeReference();
    return device_rig::underSchedules([&](StreamHandle stream) {
        std::string wrong;
        const std::vector<float> found = step.run(stream, wrong);
        return wrong.empty() ? device_rig::compareRows(found, wanted, c.outDim(), limitFor(c)) : wrong;
    });
}

/// Outputs of a case on one schedule, whose borders are checked.
std::vector<float> outputs(const Case &c, std::uint32_t placement, StreamHandle stream)
{
    std::string wrong;
    const std::vector<float> found = Step(c, placement).run(stream, wrong);
    if (!wrong.empty())
        throw std::runtime_error(wrong);
    return found;
}

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
    const int cases = shared_data::fullTier() ? 80 : device_rig::smallOnly() ? 0 : 6;
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
    QTest::addRow("bf16") << int(DType::BF16) << 0;
    QTest::addRow("q8_0, window") << int(DType::Q8_0) << 70;
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

QTEST_GUILESS_MAIN(TestCudaAttention)
#include "tst_cuda_attention.moc"
