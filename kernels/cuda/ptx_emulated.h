// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

/// What the instructions of ptx.h mean, for the emulator. Fragment layouts: PTX ISA 9.0, section 9.7.14.5.

#include "kernels/simt/simt.h"

namespace ptx::emulated {

inline void checkAligned(const void *pointer, std::size_t bytes, const simt::Location &where)
{
    if (reinterpret_cast<std::uintptr_t>(pointer) % bytes != 0)
        simt::fail("an access of " + std::to_string(bytes) + " bytes is misaligned", where);
}

/// Reads the ends of a source where the copy is started, so that the checkers name that line.
inline void touch(const void *source, int bytes)
{
    if (bytes <= 0)
        return;
    [[maybe_unused]] volatile char ends = static_cast<const char *>(source)[0];
    ends = static_cast<const char *>(source)[bytes - 1];
}

struct MatrixRow {
    std::uint16_t numbers[8];
    std::uint32_t out[4];
    std::uintptr_t address;
};

/// Each of four phases reads 8 rows of 16 bytes, without conflict when they fall into 8 different groups of banks.
inline void countConflicts(void **arguments)
{
    for (int phase = 0; phase < 4; ++phase) {
        unsigned seen = 0;
        unsigned conflicts = 0;
        for (int row = 0; row < 8; ++row) {
            const auto group = static_cast<MatrixRow *>(arguments[phase * 8 + row])->address / 16 % 8;
            conflicts += seen >> group & 1U;
            seen |= 1U << group;
        }
        simt::countBankConflicts(conflicts);
    }
}

template<bool transposed> void spreadMatrices(void **arguments, unsigned)
{
    countConflicts(arguments);
    const auto number = [&](int matrix, int row, int column) {
        if (transposed)
            std::swap(row, column);
        return static_cast<std::uint32_t>(static_cast<MatrixRow *>(arguments[matrix * 8 + row])->numbers[column]);
    };
    for (int lane = 0; lane < 32; ++lane)
        for (int matrix = 0; matrix < 4; ++matrix)
            static_cast<MatrixRow *>(arguments[lane])->out[matrix] =
                number(matrix, lane / 4, lane % 4 * 2) | number(matrix, lane / 4, lane % 4 * 2 + 1) << 16;
}

template<bool transposed> void loadMatrices(std::uint32_t (&out)[4], const void *row, const simt::Location &where)
{
    checkAligned(row, 16, where);
    MatrixRow argument{};
    argument.address = reinterpret_cast<std::uintptr_t>(row);
    for (int i = 0; i < 8; ++i)
        argument.numbers[i] = static_cast<const std::uint16_t *>(row)[i];
    simt::warpOperation(~0U, simt::opMatrixLoad + 100 * transposed, &argument, spreadMatrices<transposed>, where);
    std::memcpy(out, argument.out, sizeof out);
}

template<typename T> float widen(std::uint32_t bits)
{
    const auto number = static_cast<std::uint16_t>(bits);
    if constexpr (std::is_same_v<T, __half>) {
#if defined(__F16C__)
        using Vector = short __attribute__((vector_size(16)));
        return __builtin_ia32_vcvtph2ps(Vector{static_cast<short>(number)})[0];
#else
        __half_raw raw;
        raw.x = number;
        return __half2float(__half(raw));
#endif
    } else {
        return std::bit_cast<float>(static_cast<std::uint32_t>(number) << 16);
    }
}

/// The half next to x; of two, the even one.
inline std::uint32_t halfOf(double x)
{
    auto rounded = static_cast<float>(x);
    if (static_cast<double>(rounded) != x && x == x) { // towards odd, so that the second rounding is as of x
        auto bits = std::bit_cast<std::uint32_t>(rounded);
        bits -= std::fabs(static_cast<double>(rounded)) > std::fabs(x) ? 1U : 0U;
        rounded = std::bit_cast<float>(bits | 1U);
    }
#if defined(__F16C__)
    using Vector = float __attribute__((vector_size(16)));
    return static_cast<std::uint16_t>(__builtin_ia32_vcvtps2ph(Vector{rounded}, 0)[0]);
#else
    return static_cast<__half_raw>(__float2half_rn(rounded)).x;
#endif
}

inline std::uint32_t fmaHalves(std::uint32_t a, std::uint32_t b, std::uint32_t c)
{
    std::uint32_t d = 0;
    for (int shift = 0; shift < 32; shift += 16)
        d |= halfOf(static_cast<double>(widen<__half>(a >> shift)) * static_cast<double>(widen<__half>(b >> shift))
                    + static_cast<double>(widen<__half>(c >> shift)))
            << shift;
    return d;
}

/// The integers wrap around.
inline int dot4(std::uint32_t a, std::uint32_t b, int sum)
{
    auto total = static_cast<std::uint32_t>(sum);
    for (int shift = 0; shift < 32; shift += 8)
        total +=
            static_cast<std::uint32_t>(static_cast<std::int8_t>(a >> shift) * static_cast<std::int8_t>(b >> shift));
    return static_cast<int>(total);
}

struct MmaOperands {
    float *d;
    const std::uint32_t *a;
    const std::uint32_t *b;
};

template<typename T> void multiplyTiles(void **arguments, unsigned)
{
    float a[16][16];
    float b[16][8];
    float d[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto *own = static_cast<MmaOperands *>(arguments[lane]);
        const int row = lane / 4;
        const int pair = lane % 4 * 2;
        for (int half = 0; half < 2; ++half) {
            for (int r = 0; r < 4; ++r)
                a[row + r % 2 * 8][pair + half + r / 2 * 8] = widen<T>(own->a[r] >> 16 * half);
            for (int r = 0; r < 2; ++r)
                b[pair + half + r * 8][row] = widen<T>(own->b[r] >> 16 * half);
        }
        for (int r = 0; r < 4; ++r)
            d[row + r / 2 * 8][pair + r % 2] = own->d[r];
    }
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 16; ++k)
            for (int j = 0; j < 8; ++j)
                d[i][j] += a[i][k] * b[k][j];
    for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < 4; ++r)
            static_cast<MmaOperands *>(arguments[lane])->d[r] = d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

template<typename T>
void mma16816(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const simt::Location &where)
{
    MmaOperands operands{d, a, b};
    simt::warpOperation(~0U, simt::opMma + 100 * std::is_same_v<T, __half>, &operands, multiplyTiles<T>, where);
}

struct IntegerMmaOperands {
    int *d;
    const std::uint32_t *a;
    const std::uint32_t *b;
};

inline void multiplyIntegerTiles(void **arguments, unsigned)
{
    int a[16][32];
    int b[32][8];
    int d[16][8];
    for (int lane = 0; lane < 32; ++lane) {
        const auto *own = static_cast<IntegerMmaOperands *>(arguments[lane]);
        const int row = lane / 4;
        const int quad = lane % 4 * 4;
        for (int byte = 0; byte < 4; ++byte) {
            for (int r = 0; r < 4; ++r)
                a[row + r % 2 * 8][quad + byte + r / 2 * 16] = static_cast<std::int8_t>(own->a[r] >> 8 * byte);
            for (int r = 0; r < 2; ++r)
                b[quad + byte + r * 16][row] = static_cast<std::int8_t>(own->b[r] >> 8 * byte);
        }
        for (int r = 0; r < 4; ++r)
            d[row + r / 2 * 8][lane % 4 * 2 + r % 2] = own->d[r];
    }
    for (int i = 0; i < 16; ++i)
        for (int k = 0; k < 32; ++k)
            for (int j = 0; j < 8; ++j)
                d[i][j] += a[i][k] * b[k][j];
    for (int lane = 0; lane < 32; ++lane)
        for (int r = 0; r < 4; ++r)
            static_cast<IntegerMmaOperands *>(arguments[lane])->d[r] = d[lane / 4 + r / 2 * 8][lane % 4 * 2 + r % 2];
}

inline void mma16832(int (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2], const simt::Location &where)
{
    IntegerMmaOperands operands{d, a, b};
    simt::warpOperation(~0U, simt::opMma + 200, &operands, multiplyIntegerTiles, where);
}

} // namespace ptx::emulated
