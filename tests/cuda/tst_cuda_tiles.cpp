// SPDX-License-Identifier: GPL-3.0-or-later
// What tensor cores multiply: activations cast to halves or rounded to int8; and tiles without tensor cores, as other
// GPUs than NVIDIA's run them: the same numbers to the bit as the instructions.
#include "kernels/cuda/launch_experts.h"
#include "kernels/cuda/plain_tiles.h"
#include "kernels/cuda/ptx.h"
#include "tests/cuda/device_weight.h"

#include <QTest>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

using namespace kernels;
using device_rig::Cast;
using device_rig::DeviceArray;
using device_rig::Rounded;
using device_rig::Rows;
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
    void cast_data();
    void cast();
    void castOfExtremes();
    void rounding();
    void roundingForExperts();
    void roundingOfExtremes();
};

void TestCudaTiles::cast_data()
{
    QTest::addColumn<int>("columns");
    QTest::addColumn<bool>("bf16");
    QTest::addColumn<bool>("ordered");
    for (const int columns : {37, 1, 32, 300})
        for (const bool bf16 : {false, true})
            if (!device_rig::smallOnly() || columns == 37)
                QTest::addRow("%d %s", columns, bf16 ? "bf16" : "f16") << columns << bf16 << (columns > 32);
}

void TestCudaTiles::cast()
{
    QFETCH(int, columns);
    QFETCH(bool, bf16);
    QFETCH(bool, ordered);
    constexpr int tokens = 5;
    const auto n = static_cast<std::size_t>(columns);
    std::vector<float> x = kernel_data::randomFloats(tokens * n, 3);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] *= std::ldexp(1.0F, static_cast<int>(i / n) * 30 - 60);
    std::fill(x.begin() + 2 * columns, x.begin() + 3 * columns, 0.0F);
    x[3 * n] *= 100.0F; // the largest in the first and in the last warp
    x[5 * n - 1] *= 100.0F;
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    const auto padded = static_cast<std::size_t>(kernels::cuda::wholeColumns(columns));
    const std::size_t terms = bf16 ? 2 : 1;
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Rows rows(tokens, columns, x);
        const DeviceArray<int> deviceOrder(order);
        const Cast cast(rows.span(), static_cast<int>(padded), bf16, ordered ? deviceOrder.data() : nullptr, stream);
        if (!cast.bordersIntact() || !deviceOrder.equals(order) || rows.values() != x)
            return "something was written outside of the cast rows";
        for (std::size_t row = 0; row < tokens; ++row) {
            float largest = 0.0F;
            for (std::size_t i = 0; i < n; ++i)
                largest = std::max(largest, std::fabs(x[row * n + i]));
            const float scale = largest > 0.0F ? std::ldexp(1.0F, std::ilogb(largest) + 1) : 1.0F;
            if (cast.scales()[row] != scale)
                return "scale " + std::to_string(cast.scales()[row]) + ", wanted " + std::to_string(scale);
            for (std::size_t i = 0; i < padded; ++i) {
                const float value =
                    i < n ? x[row * n + (ordered ? static_cast<std::size_t>(order[i]) : i)] / scale : 0.0F;
                const std::uint16_t number = bf16 ? floatToBf16(value) : floatToHalf(value);
                const std::uint16_t rest =
                    floatToBf16(value - std::bit_cast<float>(static_cast<std::uint32_t>(number) << 16));
                const std::size_t at = row * terms * padded + i;
                if (cast.numbers()[at] != number || (bf16 && cast.numbers()[at + padded] != rest))
                    return "row " + std::to_string(row) + ", column " + std::to_string(i) + " is wrong";
            }
        }
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Rows whose largest number is next to the ends of float's range, and rows with an infinity or a NaN.
void TestCudaTiles::castOfExtremes()
{
    constexpr float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> x{
        std::ldexp(1.5F, 125),  1.0F, std::ldexp(1.5F, 126),  -1.0F, std::ldexp(-1.5F, 127), 0.0F, inf, -1.0F,
        std::ldexp(1.0F, -120), 0.0F, std::ldexp(1.0F, -149), 0.0F,  std::nanf(""),          2.0F};
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Rows rows(7, 2, x);
        const Cast cast(rows.span(), 32, false, nullptr, stream);
        for (std::size_t row = 0; row < 7; ++row) {
            for (std::size_t i = 0; i < 2; ++i) {
                const float value = x[row * 2 + i];
                const float found = halfToFloat(cast.numbers()[row * 32 + i]) * cast.scales()[row];
                // What is far below the largest number of its row may be lost, and rows of tiny numbers altogether.
                const bool same = std::isnan(value) ? std::isnan(found)
                    : std::isinf(value)             ? found == value
                    : i == 1 || row == 5            ? std::fabs(found) <= std::fabs(value)
                                                    : std::fabs(found - value) <= std::fabs(value) * 0.0005F;
                if (!same)
                    return "row " + std::to_string(row) + ", column " + std::to_string(i) + " is "
                        + std::to_string(found) + ", wanted " + std::to_string(value);
            }
        }
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// To int8, with the scale of a row or one for all.
void TestCudaTiles::rounding()
{
    constexpr int tokens = 4;
    constexpr int columns = 203;
    constexpr std::size_t padded = 256;
    std::vector<float> x = kernel_data::randomFloats(tokens * columns, 3);
    std::fill(x.begin() + columns, x.begin() + 2 * columns, 0.0F);
    x[0] = -1.5F; // the largest in the first thread and in the last column
    x[3 * columns - 1] = 7.0F;
    std::vector<int> order(columns);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    for (const float fixedScale : {0.0F, 0.004F}) {
        const std::vector<float> wanted = device_rig::roundedRows(x, columns, fixedScale);
        const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
            const Rows rows(tokens, columns, x);
            const DeviceArray<int> deviceOrder(order);
            const bool ordered = fixedScale == 0.0F;
            const Rounded rounded(rows.span(), padded, ordered ? deviceOrder.data() : nullptr, fixedScale, stream);
            if (!rounded.bordersIntact() || rows.values() != x)
                return "something was written outside of the rounded rows";
            for (std::size_t i = 0; i < tokens * padded; ++i) {
                const std::size_t row = i / padded;
                const std::size_t column = i % padded;
                const float found = static_cast<float>(rounded.numbers()[i]) * rounded.scales()[row];
                const std::size_t from = ordered && column < columns ? static_cast<std::size_t>(order[column]) : column;
                if (found != (column < columns ? wanted[row * columns + from] : 0.0F))
                    return "row " + std::to_string(row) + ", column " + std::to_string(column) + " is "
                        + std::to_string(found);
            }
            return {};
        });
        QVERIFY2(wrong.empty(), wrong.c_str());
    }
}

/// Each row for several experts, of which some have a scale.
void TestCudaTiles::roundingForExperts()
{
    constexpr int tokens = 3;
    constexpr std::size_t perToken = 2;
    constexpr std::size_t rows = tokens * perToken;
    constexpr std::size_t columns = 70;
    constexpr int padded = 128;
    const std::vector<float> x = kernel_data::randomFloats(tokens * columns, 3);
    const std::vector<float> scales{0.004F, 0.0F, 0.01F, 0.02F};
    const std::vector<int> ids{2, 0, 1, 3, 0, 0};
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Rows source(tokens, columns, x);
        const DeviceArray<float> deviceScales(scales);
        const DeviceArray<int> deviceIds(ids);
        const DeviceArray<std::int8_t> numbers(rows * padded);
        const DeviceArray<float> found(rows);
        launchRoundForExperts(source.span(), {deviceScales.data(), deviceIds.data(), perToken},
                              {numbers.data(), found.data(), rows, padded, 1}, stream);
        if (!numbers.bordersIntact() || !found.bordersIntact() || source.values() != x)
            return "something was written outside of the rounded rows";
        for (std::size_t row = 0; row < rows; ++row) {
            const auto first = x.begin() + static_cast<std::ptrdiff_t>(row / perToken * columns);
            const std::vector<float> wanted =
                device_rig::roundedRows({first, first + columns}, columns, scales[static_cast<std::size_t>(ids[row])]);
            for (std::size_t i = 0; i < padded; ++i)
                if (static_cast<float>(numbers[row * padded + i]) * found[row] != (i < columns ? wanted[i] : 0.0F))
                    return "row " + std::to_string(row) + ", column " + std::to_string(i) + " is wrong";
        }
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

/// Rows with an infinity or a NaN are marked as such, those of tiny numbers are zeros, and a scale that the file has
/// cuts what is beyond it.
void TestCudaTiles::roundingOfExtremes()
{
    constexpr float inf = std::numeric_limits<float>::infinity();
    const std::vector<float> x{inf, 1.0F, std::nanf(""), 1.0F, 1e-37F, 0.0F, 3e38F, -1e38F, 0.5F, -900.0F};
    const std::string wrong = device_rig::underSchedules([&](StreamHandle stream) -> std::string {
        const Rows rows(5, 2, x);
        const Rounded own(rows.span(), 128, nullptr, 0.0F, stream);
        const Rounded fixed(rows.span(), 128, nullptr, 0.25F, stream);
        for (const std::size_t row : {0U, 1U})
            if (!std::isnan(own.scales()[row]) || !std::isnan(fixed.scales()[row]))
                return "row " + std::to_string(row) + " hides what is no number";
        if (own.numbers()[2 * 128] != 0 || !(std::fabs(own.scales()[2]) < 1e-30F))
            return "tiny numbers are not zeros";
        if (own.numbers()[3 * 128] != 127 || own.numbers()[3 * 128 + 1] != -42)
            return "huge numbers are wrong";
        if (fixed.numbers()[4 * 128] != 2 || fixed.numbers()[4 * 128 + 1] != -127 || fixed.scales()[4] != 0.25F)
            return "the scale of the file is not kept";
        return {};
    });
    QVERIFY2(wrong.empty(), wrong.c_str());
}

QTEST_GUILESS_MAIN(TestCudaTiles)
#include "tst_cuda_tiles.moc"
