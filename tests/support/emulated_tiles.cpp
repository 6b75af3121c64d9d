// SPDX-License-Identifier: GPL-3.0-or-later
// Tile instructions in plain C++, for kernels/cpu/amx_tiles.h. What a processor would answer with a fault is an
// exception that says what was wrong.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, operation of each instruction.
#include "tests/support/emulated_tiles.h"

#include "kernels/cpu/amx_tiles.h"
#include "kernels/dtype.h"

#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <string>

namespace {

constexpr int tileCount = 8;
constexpr int mostRows = 16;
constexpr int mostBytes = 64;

struct Tile {
    int rows = 0;
    int rowBytes = 0;
    std::array<std::array<std::uint8_t, mostBytes>, mostRows> data{};
};

struct State {
    bool configured = false;
    std::array<Tile, tileCount> tiles;
};

thread_local State state;
bool breaksProducts = false;

void require(bool condition, const std::string &fault)
{
    if (!condition)
        throw std::logic_error("tiles: " + fault);
}

/// A register that the instruction may use.
Tile &usable(int tile)
{
    require(state.configured, "used without a configuration");
    require(tile >= 0 && tile < tileCount, "register " + std::to_string(tile) + " does not exist");
    Tile &used = state.tiles[static_cast<std::size_t>(tile)];
    require(used.rows > 0 && used.rowBytes > 0, "register " + std::to_string(tile) + " has no shape");
    return used;
}

template<typename Value> Value read(const std::uint8_t *bytes)
{
    Value value{};
    std::memcpy(&value, bytes, sizeof(value));
    return value;
}

float bfloat(const std::uint8_t *bytes)
{
    return kernels::bf16ToFloat(read<std::uint16_t>(bytes));
}

/// Three registers whose shapes make a product of rows of 4 bytes.
struct Operands {
    Tile &sums;
    const Tile &left;
    const Tile &right;
};

Operands operandsOf(int sums, int a, int b)
{
    const Operands operands{usable(sums), usable(a), usable(b)};
    require(sums != a && sums != b && a != b, "operands are not three registers");
    require(operands.sums.rowBytes % 4 == 0 && operands.left.rowBytes % 4 == 0 && operands.right.rowBytes % 4 == 0,
            "rows are not whole numbers");
    require(operands.sums.rows == operands.left.rows && operands.sums.rowBytes == operands.right.rowBytes
                && operands.right.rows == operands.left.rowBytes / 4,
            "shapes do not fit");
    return operands;
}

} // namespace

namespace kernels::emulated_tiles {

void breakProducts(bool broken)
{
    breaksProducts = broken;
}

bool released()
{
    return !state.configured;
}

void configure(const TileConfig &config)
{
    require(config.palette == 1, "palette " + std::to_string(config.palette) + " is no palette with tiles");
    require(config.startRow == 0, "start row " + std::to_string(config.startRow));
    for (const std::uint8_t byte : config.reserved)
        require(byte == 0, "a reserved byte is set");
    state = {};
    for (std::size_t t = 0; t < 16; ++t) {
        const int rows = config.rows[t];
        const int rowBytes = config.rowBytes[t];
        if (t >= tileCount) {
            require(rows == 0 && rowBytes == 0, "a register that does not exist has a shape");
            continue;
        }
        require(rows <= mostRows && rowBytes <= mostBytes && (rows == 0) == (rowBytes == 0), "a wrong shape");
        state.tiles[t].rows = rows;
        state.tiles[t].rowBytes = rowBytes;
    }
    state.configured = true;
}

void release()
{
    state = {};
}

void zero(int tile)
{
    usable(tile).data = {};
}

void load(int tile, const void *base, std::ptrdiff_t stride)
{
    Tile &target = usable(tile);
    target.data = {};
    for (int row = 0; row < target.rows; ++row)
        std::memcpy(target.data[static_cast<std::size_t>(row)].data(),
                    static_cast<const std::uint8_t *>(base) + row * stride, static_cast<std::size_t>(target.rowBytes));
}

void store(int tile, void *base, std::ptrdiff_t stride)
{
    const Tile &source = usable(tile);
    for (int row = 0; row < source.rows; ++row)
        std::memcpy(static_cast<std::uint8_t *>(base) + row * stride, source.data[static_cast<std::size_t>(row)].data(),
                    static_cast<std::size_t>(source.rowBytes));
}

void addSignedProducts(int sums, int a, int b)
{
    const Operands operands = operandsOf(sums, a, b);
    for (int m = 0; m < operands.sums.rows; ++m) {
        const std::uint8_t *left = operands.left.data[static_cast<std::size_t>(m)].data();
        for (int n = 0; n < operands.sums.rowBytes / 4; ++n) {
            std::uint8_t *place = operands.sums.data[static_cast<std::size_t>(m)].data() + 4 * n;
            auto sum = read<std::int32_t>(place);
            for (int k = 0; k < operands.right.rows; ++k) {
                const std::uint8_t *right = operands.right.data[static_cast<std::size_t>(k)].data() + 4 * n;
                for (int i = 0; i < 4; ++i)
                    sum += static_cast<std::int8_t>(left[4 * k + i]) * static_cast<std::int8_t>(right[i]);
            }
            if (breaksProducts)
                ++sum;
            std::memcpy(place, &sum, sizeof(sum));
        }
    }
}

/// Even and odd columns are summed apart, with fma, and then added.
void addBfloatProducts(int sums, int a, int b)
{
    const Operands operands = operandsOf(sums, a, b);
    for (int m = 0; m < operands.sums.rows; ++m) {
        const std::uint8_t *left = operands.left.data[static_cast<std::size_t>(m)].data();
        for (int n = 0; n < operands.sums.rowBytes / 4; ++n) {
            std::uint8_t *place = operands.sums.data[static_cast<std::size_t>(m)].data() + 4 * n;
            float parts[2] = {};
            for (int k = 0; k < operands.right.rows; ++k) {
                const std::uint8_t *right = operands.right.data[static_cast<std::size_t>(k)].data() + 4 * n;
                for (int i = 0; i < 2; ++i)
                    parts[i] = std::fma(bfloat(left + 4 * k + 2 * i), bfloat(right + 2 * i), parts[i]);
            }
            const float sum = read<float>(place) + (parts[0] + parts[1]) + (breaksProducts ? 1.0F : 0.0F);
            std::memcpy(place, &sum, sizeof(sum));
        }
    }
}

} // namespace kernels::emulated_tiles
