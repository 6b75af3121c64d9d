// SPDX-License-Identifier: GPL-3.0-or-later
// Tiles without tensor cores, as other GPUs than NVIDIA's run them: the same numbers to the bit as the instructions.
#include "kernels/cuda/plain_tiles.h"
#include "kernels/cuda/ptx.h"
#include "tests/cuda/device_rig.h"

#include <QTest>

#include <random>

using device_rig::DeviceArray;
using kernels::cuda::StreamHandle;

namespace {

constexpr int warps = 2;
constexpr int lanes = warps * 32;
constexpr int wordsOfLane = 10; ///< four of a, two of b, four of d

template<typename T, bool plain> __global__ void floatTiles(const std::uint32_t *in, float *out)
{
    const std::uint32_t *own = in + threadIdx.x * wordsOfLane;
    const std::uint32_t a[4] = {own[0], own[1], own[2], own[3]};
    const std::uint32_t b[2] = {own[4], own[5]};
    float d[4];
    for (int i = 0; i < 4; ++i)
        d[i] = static_cast<float>(own[6 + i] % 64);
    for (int turn = 0; turn < 2; ++turn) {
        if constexpr (plain)
            ptx::plain::mma16816<T>(d, a, b);
        else
            ptx::mma16816<T>(d, a, b);
    }
    for (int i = 0; i < 4; ++i)
        out[threadIdx.x * 4 + i] = d[i];
}

template<bool plain> __global__ void integerTiles(const std::uint32_t *in, int *out)
{
    const std::uint32_t *own = in + threadIdx.x * wordsOfLane;
    const std::uint32_t a[4] = {own[0], own[1], own[2], own[3]};
    const std::uint32_t b[2] = {own[4], own[5]};
    int d[4];
    for (int i = 0; i < 4; ++i)
        d[i] = static_cast<int>(own[6 + i] % 64);
    if constexpr (plain)
        ptx::plain::mma16832(d, a, b);
    else
        ptx::mma16832(d, a, b);
    for (int i = 0; i < 4; ++i)
        out[threadIdx.x * 4 + i] = d[i];
}

/// Rows of 16 bytes, in an order that no lane's number shows.
template<bool transposed, bool plain> __global__ void matrices(const std::uint32_t *in, std::uint32_t *out)
{
    SIMT_SHARED(std::uint32_t, rows, [lanes * 4]);
    for (int i = 0; i < 4; ++i)
        rows[threadIdx.x * 4 + i] = in[threadIdx.x * 4 + i];
    __syncthreads();
    std::uint32_t found[4];
    const std::uint32_t *row = rows + threadIdx.x * 5 % lanes * 4;
    if constexpr (plain)
        ptx::plain::loadMatrices<transposed>(found, row);
    else
        ptx::loadMatrices<transposed>(found, row);
    for (int i = 0; i < 4; ++i)
        out[threadIdx.x * 4 + i] = found[i];
}

/// Words of two 16-bit floats of exponents near 0, or any words.
std::vector<std::uint32_t> words(std::size_t count, bool bf16, bool any)
{
    std::mt19937 random(7);
    std::vector<std::uint32_t> result(count);
    for (std::uint32_t &word : result) {
        const std::uint32_t exponents = bf16 ? 0x3f803f80U : 0x3c003c00U;
        word = any ? random() : (random() & (bf16 ? 0x807f807fU : 0x83ff83ffU)) | exponents;
    }
    return result;
}

template<typename Number>
std::string compare(const std::vector<std::uint32_t> &in, void (*plain)(const std::uint32_t *, Number *),
                    void (*wanted)(const std::uint32_t *, Number *))
{
    return device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const DeviceArray<std::uint32_t> source(in);
        const DeviceArray<Number> found(lanes * 4);
        const DeviceArray<Number> right(lanes * 4);
        simt::launch(plain, 1, lanes, 0, stream, source.data(), found.data());
        simt::launch(wanted, 1, lanes, 0, stream, source.data(), right.data());
        for (int i = 0; i < lanes * 4; ++i)
            if (std::memcmp(found.data() + i, right.data() + i, sizeof(Number)) != 0)
                return "number " + std::to_string(i) + " is " + std::to_string(found[i]) + ", wanted "
                    + std::to_string(right[i]);
        return {};
    });
}

} // namespace

class TestCudaTiles : public QObject {
    Q_OBJECT

private slots:
    void halves()
    {
        QCOMPARE(compare(words(lanes * wordsOfLane, false, false), floatTiles<__half, true>, floatTiles<__half, false>),
                 std::string());
    }
    void bfloats()
    {
        QCOMPARE(compare(words(lanes * wordsOfLane, true, false), floatTiles<__nv_bfloat16, true>,
                         floatTiles<__nv_bfloat16, false>),
                 std::string());
    }
    void integers()
    {
        QCOMPARE(compare(words(lanes * wordsOfLane, false, true), integerTiles<true>, integerTiles<false>),
                 std::string());
    }
    void rowsOfMatrices()
    {
        const std::vector<std::uint32_t> in = words(lanes * 4, false, true);
        QCOMPARE(compare(in, matrices<false, true>, matrices<false, false>), std::string());
        QCOMPARE(compare(in, matrices<true, true>, matrices<true, false>), std::string());
    }
};

QTEST_GUILESS_MAIN(TestCudaTiles)
#include "tst_cuda_tiles.moc"
