// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/ops.h"
#include "tests/support/kernel_data.h"
#include "tests/support/shared_data.h"
#include "tests/support/tolerance.h"

#include <QTest>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <random>

using namespace kernels;

namespace {

std::atomic<std::int64_t> allocations{0}; // of this program, all threads

} // namespace

void *operator new(std::size_t bytes)
{
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void *memory = std::malloc(std::max<std::size_t>(bytes, 1)); memory != nullptr)
        return memory;
    throw std::bad_alloc();
}

void operator delete(void *memory) noexcept
{
    std::free(memory);
}

void operator delete(void *memory, std::size_t) noexcept
{
    std::free(memory);
}

namespace {

constexpr float sentinel = -7.25e11F;

/// One sequence's queries, keys and values by absolute position.
struct Sequence {
    std::vector<float> q; ///< [context, heads, headDim]
    std::vector<float> k; ///< [context, kvHeads, headDim]
    std::vector<float> v;
    int context = 0;
};

struct Shape {
    AttentionShape attention;
    DType keys = DType::F32;
    DType values = DType::F32;
};

Shape shapeOf(int heads, int kvHeads, int headDim, DType kv)
{
    Shape shape;
    shape.attention.heads = heads;
    shape.attention.kvHeads = kvHeads;
    shape.attention.headDim = headDim;
    shape.attention.scale = 1.0F / std::sqrt(static_cast<float>(headDim));
    shape.keys = shape.values = kv;
    return shape;
}

Sequence makeSequence(const Shape &shape, int context, std::uint32_t seed)
{
    const auto rows = static_cast<std::size_t>(context * shape.attention.headDim);
    Sequence sequence;
    sequence.context = context;
    sequence.q = kernel_data::randomFloats(rows * static_cast<std::size_t>(shape.attention.heads), seed);
    sequence.k = kernel_data::randomFloats(rows * static_cast<std::size_t>(shape.attention.kvHeads), seed + 1);
    sequence.v = kernel_data::randomFloats(rows * static_cast<std::size_t>(shape.attention.kvHeads), seed + 2);
    for (float &value : sequence.q)
        value *= 4.0F; // scores that make the softmax uneven
    return sequence;
}

/// A paged cache that sequences run in, a chunk at a time. Slots that nothing was stored to hold NaN.
class Cache {
public:
    Cache(Ops &ops, const Shape &shape, int blockTokens, int blocks, std::uint32_t seed)
        : m_ops(ops)
        , m_shape(shape)
        , m_blockTokens(blockTokens)
        , m_stream(ops.makeStream())
        , m_free(static_cast<std::size_t>(blocks))
    {
        const AttentionShape &a = shape.attention;
        m_layer = {nullptr, shape.keys, shape.values, blocks, a.kvHeads, blockTokens, a.headDim, a.valuesInKeys};
        m_layer.blockStride = m_layer.blockBytes() + 48; // what lies between is another's
        m_bytes.assign(static_cast<std::size_t>(blocks) * m_layer.blockStride - 48,
                       std::byte{0xff}); // NaN in every type
        m_layer.data = m_bytes.data();
        std::iota(m_free.begin(), m_free.end(), 0);
        std::shuffle(m_free.begin(), m_free.end(), std::mt19937(seed));
    }

    /// One step: for each sequence, tokens [first, last). Returns the outputs, sequence after sequence.
    struct Chunk {
        const Sequence *sequence;
        std::vector<int> *blocks;
        int first;
        int last;
    };
    std::vector<float> step(std::vector<Chunk> chunks);

    bool guardsUnchanged = true;

private:
    void store(const Chunk &chunk);

    Ops &m_ops;
    Shape m_shape;
    int m_blockTokens;
    std::unique_ptr<Stream> m_stream;
    std::vector<int> m_free;
    std::vector<std::byte> m_bytes;
    KvLayer m_layer;
};

void Cache::store(const Chunk &chunk)
{
    const AttentionShape &a = m_shape.attention;
    while (static_cast<int>(chunk.blocks->size()) * m_blockTokens < chunk.last) {
        chunk.blocks->push_back(m_free.back());
        m_free.pop_back();
    }
    std::vector<int> places;
    for (int t = chunk.first; t < chunk.last; ++t)
        places.push_back((*chunk.blocks)[static_cast<std::size_t>(t / m_blockTokens)] * m_blockTokens
                         + t % m_blockTokens);
    const std::int64_t offset = static_cast<std::int64_t>(chunk.first) * a.kvHeads * a.headDim;
    std::vector<float> k(chunk.sequence->k.begin() + offset, chunk.sequence->k.end());
    std::vector<float> v(chunk.sequence->v.begin() + offset, chunk.sequence->v.end());
    const auto view = [&](std::vector<float> &data) {
        return makeView(data.data(), DType::F32, chunk.last - chunk.first, a.kvHeads, a.headDim);
    };
    m_ops.kvStore(view(k), a.valuesInKeys ? TensorView() : view(v), m_layer, places, *m_stream);
}

std::vector<float> Cache::step(std::vector<Chunk> chunks)
{
    const AttentionShape &a = m_shape.attention;
    const int width = a.heads * a.headDim;
    const int valueDim = a.valuesInKeys ? a.valueDim : a.headDim;
    const int outWidth = a.heads * valueDim;
    std::vector<int> starts{0};
    std::vector<int> lengths;
    std::size_t maxBlocks = 0;
    std::vector<float> q;
    for (const Chunk &chunk : chunks) {
        store(chunk);
        starts.push_back(starts.back() + chunk.last - chunk.first);
        lengths.push_back(chunk.last);
        maxBlocks = std::max(maxBlocks, chunk.blocks->size());
        q.insert(q.end(), chunk.sequence->q.begin() + chunk.first * width,
                 chunk.sequence->q.begin() + chunk.last * width);
    }
    std::vector<int> tables(chunks.size() * maxBlocks, -1);
    for (std::size_t s = 0; s < chunks.size(); ++s)
        std::copy(chunks[s].blocks->begin(), chunks[s].blocks->end(),
                  tables.begin() + static_cast<std::ptrdiff_t>(s * maxBlocks));
    for (std::size_t s = 0; s < chunks.size() && a.window > 0; ++s) // blocks that no query sees may be gone
        std::fill_n(tables.begin() + static_cast<std::ptrdiff_t>(s * maxBlocks),
                    std::max(0, chunks[s].first - a.window + 1) / m_blockTokens, -1);
    const PagedBatch batch{starts, lengths, tables, static_cast<int>(maxBlocks), m_blockTokens};
    const int tokens = starts.back();
    std::vector<float> padded(static_cast<std::size_t>(tokens * (outWidth + 3) + 3), sentinel);
    TensorView out = makeView(padded.data() + 3, DType::F32, tokens, a.heads, valueDim);
    out.strides[0] = outWidth + 3;
    m_ops.pagedAttention(makeView(q.data(), DType::F32, tokens, a.heads, a.headDim), m_layer, batch, a, out, *m_stream);
    std::vector<float> result;
    for (int t = 0; t < tokens; ++t) {
        const auto row = padded.begin() + t * (outWidth + 3);
        guardsUnchanged = guardsUnchanged && std::count(row, row + 3, sentinel) == 3;
        result.insert(result.end(), row + 3, row + 3 + outWidth);
    }
    return result;
}

bool sameBits(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// All positions of a sequence, `chunk` tokens a step.
std::vector<float> runInChunks(Ops &ops, const Shape &shape, const Sequence &sequence, int blockTokens,
                               std::vector<int> chunks)
{
    Cache cache(ops, shape, blockTokens, sequence.context / blockTokens + 2,
                static_cast<std::uint32_t>(blockTokens + chunks[0]));
    std::vector<int> blocks;
    std::vector<float> all;
    std::size_t next = 0;
    for (int first = 0; first < sequence.context;) {
        const int last = std::min(sequence.context, first + chunks[next++ % chunks.size()]);
        const std::vector<float> part = cache.step({{&sequence, &blocks, first, last}});
        all.insert(all.end(), part.begin(), part.end());
        first = last;
    }
    return all;
}

} // namespace

class TestAttention : public QObject {
    Q_OBJECT

private slots:
    void matchesReference_data();
    void matchesReference();
    void chunksBlocksAndThreadsDoNotMatter_data();
    void chunksBlocksAndThreadsDoNotMatter();
    void neighboursDoNotMatter_data() { levels(); }
    void neighboursDoNotMatter();
    void notANumberStaysWithThoseWhoSeeIt_data() { levels(); }
    void notANumberStaysWithThoseWhoSeeIt();

    void stepsAllocateNothing_data() { levels(); }
    void stepsAllocateNothing();

private:
    static void levels();
};

#define REQUIRE_LEVEL(level)                                                                                           \
    if (!kernel_data::hasLevel((level).toStdString()))                                                                 \
    QSKIP(qPrintable(QStringLiteral("this machine lacks the level %1").arg(level)))

void TestAttention::levels()
{
    QTest::addColumn<QString>("level");
    for (const std::string &level : kernel_data::allLevels())
        QTest::newRow(level.c_str()) << QString::fromStdString(level);
}

void TestAttention::matchesReference_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("kvHeads");
    QTest::addColumn<int>("headDim");
    QTest::addColumn<int>("keys");
    QTest::addColumn<int>("values");
    QTest::addColumn<int>("window");
    QTest::addColumn<double>("softCap");
    QTest::addColumn<bool>("sinks");
    QTest::addColumn<int>("latent");
    int count = 0;
    for (const std::string &level : kernel_data::allLevels()) {
        const std::pair<DType, DType> types[] = {{DType::F32, DType::F32},   {DType::F16, DType::F16},
                                                 {DType::BF16, DType::BF16}, {DType::Q8_0, DType::Q8_0},
                                                 {DType::E4M3, DType::E4M3}, {DType::F16, DType::Q8_0},
                                                 {DType::Q8_0, DType::E4M3}, {DType::E4M3, DType::F32}};
        for (const auto &[keys, values] : types) {
            const auto row = [&](const char *what, int heads, int kvHeads, int headDim, int window, double softCap,
                                 bool sinks, int latent = 0) {
                const bool large = latent > 0 || headDim > 128; // slow on scalar; such shapes run with equal types
                if (keys != values && (latent > 0 || (large && level == "scalar")))
                    return;
                if (++count % 8 != 0 && shared_data::fewCases()) // 8 shares no factor with the 17 shapes
                    return;
                QTest::addRow("%s %s %s %s", level.c_str(), std::string(info(keys).name).c_str(),
                              std::string(info(values).name).c_str(), what)
                    << QString::fromStdString(level) << heads << kvHeads << headDim << static_cast<int>(keys)
                    << static_cast<int>(values) << window << softCap << sinks << latent;
            };
            row("grouped 64", 9, 3, 64, 0, 0.0, false);
            row("multi-head 80", 4, 4, 80, 0, 0.0, false);
            row("multi-query 128", 8, 1, 128, 0, 0.0, false);
            row("heads of 96", 4, 2, 96, 0, 0.0, false);
            row("heads of 192", 2, 2, 192, 0, 0.0, false);
            row("grouped 256", 4, 1, 256, 0, 0.0, false);
            row("one head of 512", 1, 1, 512, 0, 0.0, false);
            row("odd 20", 2, 1, 20, 0, 0.0, false);
            row("odd 7", 3, 3, 7, 0, 0.0, false);
            row("window", 4, 2, 64, 50, 0.0, false);
            row("window of one", 4, 2, 16, 1, 0.0, false);
            row("soft cap", 4, 2, 64, 0, 1.5, false);
            row("sinks", 6, 2, 64, 0, 0.0, true);
            row("all", 6, 2, 48, 300, 3.0, true);
            row("values in keys 576", 3, 1, 576, 0, 0.0, false, 512);
            row("values in odd keys", 6, 1, 44, 0, 0.0, false, 35);
            row("few values in odd keys", 2, 1, 44, 0, 0.0, false, 35);
        }
    }
}

void TestAttention::matchesReference()
{
    QFETCH(QString, level);
    QFETCH(int, heads);
    QFETCH(int, kvHeads);
    QFETCH(int, headDim);
    QFETCH(int, keys);
    QFETCH(int, values);
    QFETCH(int, window);
    QFETCH(double, softCap);
    QFETCH(bool, sinks);
    QFETCH(int, latent);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto truth = kernel_data::reference();
    Shape shape = shapeOf(heads, kvHeads, headDim, static_cast<DType>(keys));
    shape.values = static_cast<DType>(values);
    shape.attention.window = window;
    shape.attention.softCap = static_cast<float>(softCap);
    shape.attention.valuesInKeys = latent > 0;
    shape.attention.valueDim = latent;
    const std::vector<float> sinkScores{0.5F, -2.0F, 3.0F, 0.0F, 1.0F, -1.0F};
    shape.attention.sinks = sinks ? sinkScores.data() : nullptr;
    const Sequence longOne = makeSequence(shape, 340, 1);
    const Sequence shortOne = makeSequence(shape, 37, 2);
    const Sequence single = makeSequence(shape, 1, 3);
    const auto run = [&](Ops &backend) {
        Cache cache(backend, shape, 16, 64, 9);
        std::vector<int> blocks[3];
        std::vector<float> all;
        const auto append = [&](const std::vector<float> &part) { all.insert(all.end(), part.begin(), part.end()); };
        append(cache.step({{&longOne, &blocks[0], 0, 150}, {&shortOne, &blocks[1], 0, 36}}));
        append(cache.step(
            {{&longOne, &blocks[0], 150, 338}, {&shortOne, &blocks[1], 36, 37}, {&single, &blocks[2], 0, 1}}));
        append(cache.step({{&longOne, &blocks[0], 338, 339}}));
        append(cache.step({{&longOne, &blocks[0], 339, 340}}));
        if (!cache.guardsUnchanged)
            all.clear();
        return all;
    };
    const std::vector<float> found = run(*ops);
    QCOMPARE(static_cast<int>(found.size()), (340 + 37 + 1) * heads * (latent > 0 ? latent : headDim));
    const double error = tolerance::nmse(found, run(*truth));
    QVERIFY2(error <= tolerance::attention, qPrintable(QString::number(error)));
}

void TestAttention::chunksBlocksAndThreadsDoNotMatter_data()
{
    QTest::addColumn<QString>("level");
    QTest::addColumn<int>("window");
    QTest::addColumn<bool>("latent");
    QTest::addColumn<int>("heads");
    QTest::addColumn<int>("keys");
    QTest::addColumn<int>("values");
    int count = 0;
    for (const std::string &level : kernel_data::allLevels()) {
        const auto row = [&](const char *what, int window, bool latent, int heads, DType keys, DType values) {
            if (++count % 2 != 0 && shared_data::fewCases()) // nine rows, so each is taken at every other level
                return;
            QTest::addRow("%s%s", level.c_str(), what) << QString::fromStdString(level) << window << latent << heads
                                                       << static_cast<int>(keys) << static_cast<int>(values);
        };
        row("", 0, false, 6, DType::F16, DType::F16);
        row(" window 100", 100, false, 6, DType::F16, DType::F16);
        row(" values in keys", 0, true, 6, DType::F16, DType::F16);
        // One, two or four query heads: some chunks widen a tile first, others read what is stored.
        row(" F32", 0, false, 2, DType::F32, DType::F32);
        row(" BF16 window 70", 70, false, 4, DType::BF16, DType::BF16);
        row(" Q8_0", 0, false, 8, DType::Q8_0, DType::Q8_0);
        row(" E4M3", 0, false, 4, DType::E4M3, DType::E4M3);
        row(" F16 Q8_0 window 100", 100, false, 6, DType::F16, DType::Q8_0);
        row(" few values in Q8_0 keys", 0, true, 2, DType::Q8_0, DType::Q8_0);
    }
}

void TestAttention::chunksBlocksAndThreadsDoNotMatter()
{
    QFETCH(QString, level);
    QFETCH(int, window);
    REQUIRE_LEVEL(level);
    QFETCH(bool, latent);
    QFETCH(int, heads);
    QFETCH(int, keys);
    QFETCH(int, values);
    Shape shape = latent ? shapeOf(heads, 1, 72, static_cast<DType>(keys))
                         : shapeOf(heads, 2, heads == 8 ? 80 : 64, static_cast<DType>(keys));
    shape.values = static_cast<DType>(values);
    shape.attention.window = window;
    shape.attention.valuesInKeys = latent;
    shape.attention.valueDim = latent ? 56 : 0;
    const bool slow = level == QStringLiteral("scalar");
    const int context = slow ? 300 : 600; // more than one split of keys
    const Sequence sequence = makeSequence(shape, context, 5);
    const auto alone = kernel_data::cpu(level.toStdString(), 1);
    const std::vector<float> wanted = runInChunks(*alone, shape, sequence, 16, {context});
    const bool few = slow || shared_data::fewCases();
    std::vector<std::vector<int>> chunkings{{3, 64, 1, 129}, {context - 1, 1}, {context}, {33}};
    if (shared_data::fewCases())
        chunkings.resize(2);
    for (const int threads : few ? std::vector<int>{2} : std::vector<int>{1, 2, 5}) {
        const auto ops = kernel_data::cpu(level.toStdString(), threads);
        for (const int blockTokens : {8, 128}) {
            for (const auto &chunks : chunkings)
                QVERIFY2(sameBits(runInChunks(*ops, shape, sequence, blockTokens, chunks), wanted),
                         qPrintable(QStringLiteral("%1 threads, blocks of %2, first chunk %3")
                                        .arg(threads)
                                        .arg(blockTokens)
                                        .arg(chunks[0])));
        }
    }
    const auto pair = kernel_data::cpu(level.toStdString(), 2);
    QVERIFY(sameBits(runInChunks(*pair, shape, sequence, 32, {1}), wanted)); // token by token
}

void TestAttention::neighboursDoNotMatter()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const Shape shape = shapeOf(9, 3, 64, DType::F16);
    std::vector<Sequence> sequences;
    for (const int context : {5, 290, 64, 511, 1, 130})
        sequences.push_back(makeSequence(shape, context, static_cast<std::uint32_t>(context)));
    Cache cache(*ops, shape, 16, 80, 1);
    std::vector<std::vector<int>> blocks(sequences.size());
    std::vector<Cache::Chunk> chunks;
    std::vector<float> wanted;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
        chunks.push_back({&sequences[i], &blocks[i], 0, sequences[i].context});
        const std::vector<float> alone = runInChunks(*ops, shape, sequences[i], 16, {1000});
        wanted.insert(wanted.end(), alone.begin(), alone.end());
    }
    QVERIFY(sameBits(cache.step(chunks), wanted));
}

void TestAttention::notANumberStaysWithThoseWhoSeeIt()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const Shape shape = shapeOf(2, 1, 16, DType::F32);
    const Sequence clean = makeSequence(shape, 200, 6);
    const std::vector<float> wanted = runInChunks(*ops, shape, clean, 8, {200});
    for (const bool inValue : {false, true}) {
        Sequence broken = clean;
        (inValue ? broken.v : broken.k)[150 * 16 + 3] = std::numeric_limits<float>::quiet_NaN();
        const std::vector<float> found = runInChunks(*ops, shape, broken, 8, {200});
        const std::ptrdiff_t before = 150 * 32;
        QVERIFY(sameBits({found.begin(), found.begin() + before}, {wanted.begin(), wanted.begin() + before}));
        for (int position = 150; position < 200; ++position)
            QVERIFY(std::isnan(found[static_cast<std::size_t>(position * 32 + 3)]));
    }
}

/// A layer's operations over decoding sequences, and over a chunk of a prompt beside one: the second time there is
/// nothing left to allocate.
void TestAttention::stepsAllocateNothing()
{
    QFETCH(QString, level);
    REQUIRE_LEVEL(level);
    const auto ops = kernel_data::cpu(level.toStdString(), 2);
    const auto stream = ops->makeStream();
    const Shape shape = shapeOf(4, 2, 32, DType::F16);
    constexpr int hidden = 4 * 32;
    constexpr int width = 8 * 32; // queries, keys and values
    const auto pack = [&](DType type, std::int64_t rows, std::uint32_t seed, int parts = 1) {
        const kernel_data::Weight weight = kernel_data::randomWeight(type, rows, hidden, seed);
        const std::vector<WeightPart> all(static_cast<std::size_t>(parts), weight.part());
        return ops->pack(all);
    };
    const auto qkv = pack(DType::Q4_1, width, 1);
    const auto gateUp = pack(DType::Q5_0, hidden, 2, 2);
    const auto down = pack(DType::Q8_0, hidden, 3);
    const auto head = pack(DType::F16, 640, 4);
    RopeTable rope;
    rope.rotaryDim = 32;
    for (int i = 0; i < 16; ++i)
        rope.inverseFrequencies.push_back(std::pow(10000.0, -i / 16.0));

    struct Step {
        std::vector<int> starts, lengths;
    };
    for (const Step &step : {Step{{0, 1, 2, 3}, {700, 40, 300}}, Step{{0, 150, 151}, {310, 90}}}) {
        constexpr int maxBlocks = 44;
        constexpr int blocks = 3 * maxBlocks;
        const int tokens = step.starts.back();
        KvLayer layer{nullptr, DType::F16, DType::F16, blocks, 2, 16, 32, false};
        std::vector<std::byte> cache(blocks * layer.blockBytes(), std::byte{0});
        layer.data = cache.data();
        std::vector<int> tables(step.lengths.size() * maxBlocks);
        std::iota(tables.begin(), tables.end(), 0);
        const PagedBatch batch{step.starts, step.lengths, tables, maxBlocks, 16};
        std::vector<int> positions(static_cast<std::size_t>(tokens));
        std::iota(positions.begin(), positions.end(), 100);
        std::vector<float> x = kernel_data::randomFloats(static_cast<std::size_t>(tokens * hidden), 5);
        std::vector<float> wide(static_cast<std::size_t>(tokens * width));
        std::vector<float> inner(static_cast<std::size_t>(tokens * hidden));
        std::vector<float> logits(static_cast<std::size_t>(tokens) * 640);
        const TensorView hiddenView = makeView(x.data(), DType::F32, tokens, hidden);
        const TensorView wideView = makeView(wide.data(), DType::F32, tokens, width);
        const TensorView innerView = makeView(inner.data(), DType::F32, tokens, hidden);
        const auto heads = [&](int first, int count) {
            TensorView view = makeView(wide.data() + first * 32, DType::F32, tokens, count, 32);
            view.strides[0] = width;
            return view;
        };
        const auto run = [&] {
            ops->rmsNorm(hiddenView, nullptr, 1e-5F, innerView, *stream);
            ops->linear(*qkv, innerView, wideView, nullptr, *stream);
            ops->rope(heads(0, 4), positions, rope, *stream);
            ops->kvStore(heads(4, 2), heads(6, 2), layer, positions, *stream);
            ops->pagedAttention(heads(0, 4), layer, batch, shape.attention,
                                makeView(inner.data(), DType::F32, tokens, 4, 32), *stream);
            ops->linearGated(*gateUp, Activation::Silu, innerView, innerView, nullptr, *stream);
            ops->linearAdd(*down, innerView, hiddenView, nullptr, *stream);
            ops->linear(*head, hiddenView, makeView(logits.data(), DType::F32, tokens, 640), nullptr, *stream);
        };
        run();
        run(); // either thread may have met its first work only now
        const std::int64_t before = allocations.load();
        for (int i = 0; i < 3; ++i)
            run();
        QCOMPARE(allocations.load() - before, 0);
    }
}

QTEST_GUILESS_MAIN(TestAttention)
#include "tst_attention.moc"
