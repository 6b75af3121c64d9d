// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/cache/kv_cache.h"

#include <QtTest>

#include <cstring>
#include <fstream>
#include <unistd.h>

using engine::KvCache;
using engine::KvShape;
using kernels::DType;

namespace {

KvShape shapeOf(DType dtype, int blockTokens = 16)
{
    KvShape shape;
    shape.layers = 3;
    shape.kvHeads = 2;
    shape.headDim = 8;
    shape.blockTokens = blockTokens;
    shape.types = {dtype, dtype};
    return shape;
}

float *floatsOf(KvCache &cache, int layer, int block)
{
    return reinterpret_cast<float *>(cache.layer(layer).keys(block, 0));
}

std::size_t residentBytes()
{
    std::ifstream file("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    file >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

class KvCacheTest : public QObject {
    Q_OBJECT
private slots:
    void bytesOfABlock();
    void blocksThatFit();
    void layersAreSeparateAndZero();
    void copiesOneBlockInEveryLayer();
    void keysOnlyTakesHalf();
    void memoryIsCommittedWhenWritten();
    void movesTokensBetweenBlockSizes();
    void layersWithAWindowHaveBlocksOfTheirOwn();
    void tooMuchIsRefused();

private:
    std::unique_ptr<kernels::Ops> m_ops = kernels::makeOps({.reference = true, .threads = 1});
};

void KvCacheTest::bytesOfABlock()
{
    QCOMPARE(shapeOf(DType::F16).bytesPerBlock(), std::size_t{3 * 2 * 2 * 16 * 8 * 2});
    QCOMPARE(shapeOf(DType::BF16, 64).bytesPerBlock(), std::size_t{3 * 2 * 2 * 64 * 8 * 2});
    QCOMPARE(shapeOf(DType::F32, 8).bytesPerBlock(), std::size_t{3 * 2 * 2 * 8 * 8 * 4});
    QCOMPARE(shapeOf(DType::E4M3).bytesPerBlock(), std::size_t{3 * 2 * 2 * 16 * 8});
    KvShape mixed = shapeOf(DType::F16);
    mixed.headDim = 80;
    mixed.types.values = DType::Q8_0; // two and a half blocks of 34 bytes
    QCOMPARE(mixed.bytesPerBlock(), std::size_t{3 * 2 * 16 * (80 * 2 + 3 * 34)});
    QCOMPARE(mixed.bytesPerToken(), std::size_t{3 * 2 * (80 * 2 + 3 * 34)});
    QCOMPARE(KvCache(shapeOf(DType::F32), 5, *m_ops).bytes(), 5 * shapeOf(DType::F32).bytesPerBlock());
}

void KvCacheTest::blocksThatFit()
{
    const KvShape shape = shapeOf(DType::F16);
    const std::size_t one = shape.bytesPerBlock();
    QCOMPARE(KvCache::blocksThatFit(shape, 0), 0);
    QCOMPARE(KvCache::blocksThatFit(shape, one - 1), 0);
    QCOMPARE(KvCache::blocksThatFit(shape, one), 1);
    QCOMPARE(KvCache::blocksThatFit(shape, 7 * one + 1), 7);
    // Slot numbers must stay ints whatever the budget.
    const int most = KvCache::blocksThatFit(shape, SIZE_MAX);
    QVERIFY(most > 0 && std::int64_t{most} * 2 * shape.blockTokens <= INT_MAX);
}

void KvCacheTest::layersAreSeparateAndZero()
{
    KvCache cache(shapeOf(DType::F32), 4, *m_ops);
    constexpr std::size_t blockFloats = 2 * 2 * 16 * 8;
    for (int i = 0; i < 3; ++i) {
        const kernels::KvLayer view = cache.layer(i);
        QCOMPARE(view.blocks, 4);
        QCOMPARE(view.kvHeads, 2);
        QCOMPARE(view.blockTokens, 16);
        QCOMPARE(view.headDim, 8);
        QCOMPARE(view.blockBytes() * 3, cache.shape().bytesPerBlock());
        for (int block = 0; block < 4; ++block) {
            for (std::size_t n = 0; n < blockFloats; ++n)
                QCOMPARE(floatsOf(cache, i, block)[n], 0.0F);
            std::fill_n(floatsOf(cache, i, block), blockFloats, static_cast<float>(4 * i + block + 1));
        }
    }
    for (int i = 0; i < 3; ++i)
        for (int block = 0; block < 4; ++block)
            for (std::size_t n = 0; n < blockFloats; ++n)
                QCOMPARE(floatsOf(cache, i, block)[n], static_cast<float>(4 * i + block + 1));
    // Blocks of one number lie together, so that few pages are touched.
    QCOMPARE(cache.layer(1).data - cache.layer(0).data, static_cast<std::ptrdiff_t>(blockFloats * sizeof(float)));
    QCOMPARE(cache.layer(0).bytesToNextBlock(), cache.shape().bytesPerBlock());
    QVERIFY_EXCEPTION_THROWN((void)cache.layer(3), kernels::Error);
    QVERIFY_EXCEPTION_THROWN((void)cache.layer(-1), kernels::Error);
}

void KvCacheTest::copiesOneBlockInEveryLayer()
{
    KvCache cache(shapeOf(DType::F32), 4, *m_ops);
    const std::size_t blockElements = 2 * 2 * 16 * 8;
    for (int i = 0; i < 3; ++i) {
        for (std::size_t n = 0; n < 4 * blockElements; ++n)
            floatsOf(cache, i, static_cast<int>(n / blockElements))[n % blockElements] =
                static_cast<float>(1000 * i + static_cast<int>(n));
    }
    const auto stream = m_ops->makeStream();
    cache.copyBlock({2, 1}, *stream);
    for (int i = 0; i < 3; ++i) {
        QCOMPARE(std::memcmp(floatsOf(cache, i, 1), floatsOf(cache, i, 2), blockElements * sizeof(float)), 0);
        QCOMPARE(floatsOf(cache, i, 0)[blockElements - 1], static_cast<float>(1000 * i + 511));
        QCOMPARE(floatsOf(cache, i, 1)[0], static_cast<float>(1000 * i + 1024));
        QCOMPARE(floatsOf(cache, i, 3)[0], static_cast<float>(1000 * i + 1536));
    }
    QVERIFY_EXCEPTION_THROWN(cache.copyBlock({1, 1}, *stream), kernels::Error);
    QVERIFY_EXCEPTION_THROWN(cache.copyBlock({0, 4}, *stream), kernels::Error);
}

void KvCacheTest::keysOnlyTakesHalf()
{
    KvShape shape = shapeOf(DType::F32);
    const std::size_t both = shape.bytesPerBlock();
    shape.keysOnly = true;
    QCOMPARE(shape.bytesPerBlock() * 2, both);
    KvCache cache(shape, 3, *m_ops);
    QVERIFY(cache.layer(0).keysOnly);
    const std::size_t blockElements = 2 * 16 * 8;
    std::fill_n(floatsOf(cache, 1, 1), blockElements, 5.0F);
    const auto stream = m_ops->makeStream();
    cache.copyBlock({1, 2}, *stream);
    QCOMPARE(floatsOf(cache, 1, 2)[0], 5.0F);
    QCOMPARE(floatsOf(cache, 1, 2)[blockElements - 1], 5.0F);
    QCOMPARE(floatsOf(cache, 1, 0)[blockElements - 1], 0.0F);
    QCOMPARE(floatsOf(cache, 0, 2)[0], 0.0F);
}

void KvCacheTest::memoryIsCommittedWhenWritten()
{
    const KvShape shape = shapeOf(DType::F16, 128);
    const int blocks = KvCache::blocksThatFit(shape, std::size_t{256} << 20U);
    const std::size_t before = residentBytes();
    KvCache cache(shape, blocks, *m_ops);
    QVERIFY(cache.bytes() > std::size_t{200} << 20U);
    QVERIFY2(residentBytes() < before + (std::size_t{8} << 20U), "an unused pool must not be resident");
}

void KvCacheTest::movesTokensBetweenBlockSizes()
{
    KvCache small(shapeOf(DType::F32, 8), 6, *m_ops);
    KvCache large(shapeOf(DType::F32, 32), 2, *m_ops);
    const auto element = [](KvCache &cache, int layer, int slot, int plane, int head, int i) -> float & {
        const int size = cache.shape().blockTokens;
        return floatsOf(cache, layer, slot / size)[((plane * 2 + head) * size + slot % size) * 8 + i];
    };
    const auto forAll = [](const auto &function) {
        for (int layer = 0; layer < 3; ++layer)
            for (int plane = 0; plane < 2; ++plane)
                for (int head = 0; head < 2; ++head)
                    for (int i = 0; i < 8; ++i)
                        function(layer, plane, head, i);
    };
    const std::vector<int> from{4, 0, 5};
    const std::vector<int> to{1};
    const auto value = [](int position, int layer, int plane, int head, int i) {
        return static_cast<float>((((position * 3 + layer) * 2 + plane) * 2 + head) * 8 + i + 1);
    };
    for (int position = 0; position < 20; ++position)
        forAll([&](int layer, int plane, int head, int i) {
            element(small, layer, from[static_cast<std::size_t>(position / 8)] * 8 + position % 8, plane, head, i) =
                value(position, layer, plane, head, i);
        });
    std::vector<engine::SlotMove> moves;
    engine::appendMoves(moves, from, 8, to, 32, 0, 20);
    large.moveTokens(small, moves);
    for (int position = 0; position < 32; ++position)
        forAll([&](int layer, int plane, int head, int i) {
            QCOMPARE(element(large, layer, 32 + position, plane, head, i),
                     position < 20 ? value(position, layer, plane, head, i) : 0.0F);
            QCOMPARE(element(large, layer, position, plane, head, i), 0.0F);
        });
}

void KvCacheTest::layersWithAWindowHaveBlocksOfTheirOwn()
{
    KvShape shape = shapeOf(DType::F32);
    const std::size_t ofLayer = shape.bytesPerBlock() / 3;
    shape.windowed = {true, false, true};
    QCOMPARE(shape.bytesPerBlock(), 3 * ofLayer);
    QCOMPARE(shape.windowBytesPerBlock(), 2 * ofLayer);
    KvCache cache(shape, 10, *m_ops, 4);
    QCOMPARE(cache.bytes(), (10 + 2 * 4) * ofLayer);
    QCOMPARE(cache.layer(0).blocks, 4);
    QCOMPARE(cache.layer(1).blocks, 10);
    QVERIFY(cache.holdsWindow(2) && !cache.holdsWindow(1));
    const std::size_t blockFloats = ofLayer / sizeof(float);
    for (int i = 0; i < 3; ++i)
        for (int block = 0; block < (i == 1 ? 10 : 4); ++block)
            std::fill_n(floatsOf(cache, i, block), blockFloats, static_cast<float>(100 * i + block));
    const auto valueOf = [&](KvCache &in, int layer, int block) { return floatsOf(in, layer, block)[0]; };
    const auto stream = m_ops->makeStream();
    cache.copyBlock({1, 3, true}, *stream);
    cache.copyBlock({7, 2, false}, *stream);
    QCOMPARE(valueOf(cache, 0, 3), 1.0F);
    QCOMPARE(valueOf(cache, 2, 3), 201.0F);
    QCOMPARE(valueOf(cache, 1, 3), 103.0F);
    QCOMPARE(valueOf(cache, 1, 2), 107.0F);
    QCOMPARE(valueOf(cache, 0, 2), 2.0F);
    QVERIFY_EXCEPTION_THROWN(cache.copyBlock({0, 4, true}, *stream), kernels::Error);
    KvCache other(shape, 3, *m_ops, 2);
    const std::vector<engine::SlotMove> moves{{16, 32, 16, true}, {9 * 16, 0, 16, false}};
    QVERIFY_EXCEPTION_THROWN(other.moveTokens(cache, moves), kernels::Error); // block 2 of two
    const std::vector<engine::SlotMove> right{{16, 16, 16, true}, {9 * 16, 0, 16, false}};
    other.moveTokens(cache, right);
    QCOMPARE(valueOf(other, 0, 1), 1.0F);
    QCOMPARE(valueOf(other, 1, 0), 109.0F);
    QCOMPARE(valueOf(other, 1, 1), 0.0F);
    // A budget buys the window first, then whole contexts; below that every block has its window.
    QCOMPARE(KvCache::blocksThatFit(shape, 100 * ofLayer, 4), 92);
    QCOMPARE(KvCache::blocksThatFit(shape, 100 * ofLayer, 50), 33);
    shape.windowed = {true, true, true};
    QCOMPARE(KvCache::blocksThatFit(shape, 9 * ofLayer, 4), 3);
    QVERIFY(KvCache::blocksThatFit(shape, 15 * ofLayer, 4) > 1 << 20); // blocks without bytes
}

void KvCacheTest::tooMuchIsRefused()
{
    KvShape shape = shapeOf(DType::F32, 128);
    shape.layers = 1;
    shape.kvHeads = 64;
    shape.headDim = 256;
    try {
        KvCache(shape, KvCache::blocksThatFit(shape, std::size_t{1} << 45U), *m_ops);
        QFAIL("32 TiB were granted");
    } catch (const kernels::Error &error) {
        QCOMPARE(error.code(), kernels::ErrorCode::OutOfMemory);
        QVERIFY2(QByteArray(error.what()).contains("bytes wanted"), error.what());
    }
}

QTEST_GUILESS_MAIN(KvCacheTest)
#include "tst_kv_cache.moc"
