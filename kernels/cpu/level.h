// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

/// The seam between the portable part of the CPU backend and the functions of one instruction level.
///
/// Files of a level are compiled with that level's flags, so this header holds plain data and declarations only: an
/// inline function used there could be kept by the linker for everybody and then run on a machine without the level.
/// Every level computes a row with the same sequence of float operations whatever the number of rows; scalar, avx2
/// and the avx512 levels agree bit for bit in matrix products.
namespace kernels {

constexpr int panelRows = 16;          ///< output features of one panel
constexpr int blockWidth = 32;         ///< k of one block of quants and of one activation scale
constexpr int tileRows = 128;          ///< activation rows that meet one panel while it is in the first cache
constexpr int lineBytes = 64;          ///< 16 rows x 4 consecutive k, one byte each
constexpr int quantSliceBlocks = 64;   ///< blocks that are unpacked at once
constexpr int floatSliceColumns = 512; ///< columns of a float panel that are widened at once

/// What the stored numbers of a panel mean.
enum class PanelValues : std::uint8_t {
    Small,     ///< 0..15, the nibbles themselves; `integerOffset` or a minimum shifts them
    Unsigned,  ///< 0..127
    Signed,    ///< -128..127, or a smaller number after `integerOffset` is taken off
    Iq4Table,  ///< nibbles index the IQ4 table
    E2m1Table, ///< nibbles index the doubled E2M1 numbers
    Half,      ///< fp16, [columns, 16]
    Brain,     ///< bf16, [columns, 16]
    Float,     ///< fp32, [columns, 16]
    Coded,     ///< floats in blocks of `rawType`, widened when they are used
};

/// How the scales of a panel are stored. `Super*` are K-quants: an fp16 scale for 256 k and 8-bit factors.
/// `Raw`: numbers and scales stand in the file's own blocks, and are unpacked together. `Single`: fp32, and a minimum
/// is an integer zero, so that a weight is scale x (number - zero).
enum class PanelScales : std::uint8_t { None, Half, Super, Exponent, Raw, Single };

/// Where everything lies in a panel: what its super-blocks share, then block after block, so that whoever multiplies it
/// reads one run of bytes from its beginning to its end.
struct PanelLayout {
    PanelValues values;
    PanelScales scales;
    bool hasMin;
    std::uint8_t groupWidth;    ///< k of one scale: 32 or 16
    std::uint8_t integerOffset; ///< taken off every stored number
    std::uint8_t byteLines;     ///< 8 when quants are bytes, else 0
    std::uint8_t nibbleLines;   ///< 4 when quants have a nibble, else 0
    std::uint8_t bitLines;      ///< lines of single bits above the nibble; bit i of byte j belongs to byte j of line i
    std::uint8_t rawType;       ///< Raw, Coded: the DType
    std::uint8_t rawParts;      ///< Raw, Coded: blocks of 32 in one of the file's blocks
    std::uint8_t rawBytes;      ///< Raw, Coded: bytes of one of the file's blocks; they stand as [blocks, 16 rows]
    std::int32_t columns;
    std::int32_t blocks;      ///< columns / 32; 0 for floats
    std::int32_t blockBytes;  ///< from one block to the next: lines, scales, minimums; not a multiple of a line
    std::int32_t scaleAt;     ///< in a block. Half: fp16; Super: int8; Exponent: E8M0; Single: fp32; each [groups, 16]
    std::int32_t minAt;       ///< in a block. Half: fp16; Super, Single: uint8; each [groups, 16]
    std::size_t superScaleAt; ///< fp16 [blocks / 8, 16]
    std::size_t superMinAt;   ///< fp16 [blocks / 8, 16], taken off
    std::size_t linesAt;      ///< the first block
    std::size_t panelBytes;
};

/// One block of 32 activations next to its int8 numbers.
struct BlockRecord {
    float scale;
    float scaledSum;       ///< scale x sum of the numbers
    std::int32_t minus128; ///< -128 x sum
    std::int32_t minus8;   ///< -8 x sum
};

/// Half a block of activations, for scales of 16.
struct HalfRecord {
    float scaledSum;
    std::int32_t minus128;
};

constexpr int groupRows = 8; ///< activation rows that lie side by side for kernels of many rows

/// One block of groupRows rows, so that what they meet a line of weights with is one run of bytes.
struct alignas(lineBytes) GroupBlock {
    std::int8_t numbers[groupRows][blockWidth];
    float scales[groupRows];
    float scaledSums[groupRows];
    std::int32_t minus128[groupRows];
    std::int32_t minus8[groupRows];
};

/// The HalfRecords of a GroupBlock.
struct alignas(lineBytes) GroupHalves {
    float scaledSums[2][groupRows];
    std::int32_t minus128[2][groupRows];
};

/// Quantized activations of some rows. `halves` may be null when no weight needs them.
struct QuantRows {
    const std::int8_t *numbers; ///< [rows, stride]
    const BlockRecord *blocks;  ///< [rows, blocks]
    const HalfRecord *halves;   ///< [rows, 2 x blocks]
    std::int64_t stride;        ///< columns of a row
    std::int64_t blocksPerRow;
    const GroupBlock *groups = nullptr; ///< [rows / groupRows, blocks] of whole groups; null where the level takes none
    const GroupHalves *groupHalves = nullptr; ///< the same; null with `halves`
};

/// Activations of a tile that count as zero in their blocks' numbers, so that the others are rounded in finer steps.
struct Outliers {
    const std::int32_t *columns; ///< [columnCount] that any row has, ascending
    int columnCount;
    const std::int32_t *counts; ///< [rows], outliers of each
    const std::int32_t *places; ///< [rows, mostPerRow], which of `columns`; ascending
    const float *values;        ///< [rows, mostPerRow]
    std::int64_t mostPerRow;
};

/// What is still to be added of the outliers of a tile.
struct OutlierWalk {
    int column;                  ///< the next of Outliers::columns
    std::int32_t next[tileRows]; ///< of each row
};

/// Per-thread memory of the matrix kernels, 64-byte aligned, and how to read weights.
struct PanelScratch {
    std::uint8_t *lines; ///< [quantSliceBlocks, 8, 64]
    float *scales;       ///< [2 x quantSliceBlocks, 16]
    float *mins;         ///< [2 x quantSliceBlocks, 16]
    float *columns;      ///< [floatSliceColumns, 16]
    int fetchBytes;      ///< how far ahead of its use a kernel of one row fetches its panels; 0: not at all
};

/// A slice of a panel ready for the tile kernels.
struct PanelSlice {
    const std::uint8_t *lines; ///< bytes [8, 64] or nibbles [4, 64] of each block
    const float *scales;       ///< [groups, 16]
    const float *mins;         ///< [groups, 16] or null
    int blocks;
    int bytesPerBlock; ///< from the lines of one block to those of the next
    int offsetShift;   ///< numbers lie 128 >> offsetShift above those that are meant, unless a minimum sees to that
};

/// How single numbers of a slice are read.
struct SliceNumbers {
    bool nibbles;      ///< else bytes
    bool isSigned;     ///< of bytes
    bool storedScales; ///< scales, and minimums, are fp16 behind a block's lines
    bool hasMin;
    int offset; ///< taken off every number
    int groups; ///< scales of a block
};

constexpr int kvTileKeys = 64; ///< positions of one tile of attention
constexpr int kvGroupKeys = 8; ///< positions that surely lie in one block of the cache
constexpr int directRows = 4;  ///< query rows that read stored keys and values without loading them first

/// How a stored key or value is read.
enum class KvValues : std::uint8_t { Float, Half, Brain, Quant8, E4m3 };

/// Stored keys or values of one head at up to 64 positions in a row.
struct KvTile {
    const void *groups[kvTileKeys / kvGroupKeys]; ///< the first row of each 8 positions; null after the last ones
    std::int64_t rowBytes;
    KvValues values;
};

/// out = act(gate) x up, or act(gate) when `up` is null; out may be gate
using GatedRow = void (*)(const float *gate, const float *up, float *out, int n);
constexpr int activationKinds = 5; ///< of kernels::Activation

/// Functions of one level.
struct LevelKernels {
    /// Rounds a row to int8 with a scale for each block. A block with an infinity or NaN gets a NaN scale.
    void (*quantizeRow)(const float *x, int columns, std::int8_t *numbers, BlockRecord *blocks, HalfRecord *halves);
    /// Rounds x [32] with its largest element, the first of such, as zero, and returns the place of that. \pre finite
    int (*roundRest)(const float *x, std::int8_t *numbers, BlockRecord &record, HalfRecord *halves);
    /// tile [rows, 16] = activations x panelᵀ; the outliers of a slice follow its blocks: f = fma(weight, value, f),
    /// the weight being scale x number, or fma(scale, number, minimum)
    void (*quantPanel)(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x,
                       const Outliers &outliers, int rows, const PanelScratch &scratch, float *tile);
    int fetchBytes = 0;       ///< for PanelScratch
    bool takesGroups = false; ///< whether quantPanel and quantPanelPair want QuantRows::groups
    /// The same for two panels of one layout, each with memory and a tile of its own: the same bits. Returns false, and
    /// has done nothing, where one after the other is better. Null: always.
    bool (*quantPanelPair)(const PanelLayout &layout, const std::uint8_t *const (&panels)[2], const QuantRows &x,
                           const Outliers &outliers, int rows, const PanelScratch (&scratch)[2],
                           float *const (&tiles)[2]) = nullptr;
    /// The same for float panels; x [rows, columns] with `stride` floats between rows
    void (*floatPanel)(const PanelLayout &layout, const std::uint8_t *panel, const float *x, std::int64_t stride,
                       int rows, const PanelScratch &scratch, float *tile);
    /// tile [rows, 16] = activations x [rows, stride] x panelᵀ, both in bfloat16, for panels of any type; stride is
    /// even, and columns behind the last one are 0. Null where there is none.
    void (*bfloatPanel)(const PanelLayout &layout, const std::uint8_t *panel, const std::uint16_t *x,
                        std::int64_t stride, int rows, const PanelScratch &scratch, float *tile) = nullptr;
    /// target [n] = x [n] in bfloat16, to the nearest, even ones first
    void (*roundBfloat)(const float *x, std::int64_t n, std::uint16_t *target) = nullptr;
    /// out[r, 0..16) (+)= sum over k of a[r, k] x w[k, 0..16), k ascending, one fma each
    void (*outerProducts)(const float *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride,
                          int rows, float *out, std::int64_t outStride, bool accumulate);

    /// Rows of a tile to target, `stride` floats apart: the first `count` of 16 numbers each. bias [count] or null;
    /// `accumulate` adds what the target holds, last.
    void (*finishRows)(const float *tile, int rows, const float *bias, int count, bool accumulate, float *target,
                       std::int64_t stride);
    /// Rotates pairs (2i, 2i + 1) by the angles of which cosines and sines are given, [pairs] each.
    void (*rotatePairs)(float *head, const float *cosines, const float *sines, int pairs);
    void (*addRow)(const float *x, float *inout, std::int64_t n);
    GatedRow gatedRows[activationKinds]; ///< in the order of kernels::Activation; the last one needs `up`
    /// weight may be null: 1
    void (*rmsNormRow)(const float *x, const float *weight, float epsilon, float *out, std::int64_t n);
    /// weight may be null: 1; bias may be null: 0
    void (*layerNormRow)(const float *x, const float *weight, const float *bias, float epsilon, float *out,
                         std::int64_t n);

    /// Stores a row of keys or values as storeKvRow() of kv_layer.h does.
    void (*storeKv)(KvValues values, const float *x, int n, void *target);
    /// Keys of the first `groups` groups to target[i x kvTileKeys + position] for i < n; elements up to the next
    /// multiple of 8 become 0.
    void (*loadKeys)(const KvTile &tile, int groups, int n, float *target);
    /// Values of the first `count` positions to target [count, stride]; elements from n to `stride` become 0.
    void (*loadValues)(const KvTile &tile, int count, int n, float *target, std::int64_t stride);
    /// scores[r x kvTileKeys + position] = sum over i of queries[r x n + i] x key element i, as outerProducts does from
    /// loaded keys, for at most directRows rows. Null: no way without loading. Meanwhile `ahead` is fetched.
    /// \pre n % 16 == 0, keys are not Float
    void (*scoreKeys)(const KvTile &tile, const KvTile &ahead, int groups, int n, const float *queries, int rows,
                      float *scores);
    /// out[r x stride + c] += sum over positions [begin, end) of weights[r x kvTileKeys + position] x value element c,
    /// as outerProducts does from loaded values. Null: no way without loading. Meanwhile `ahead` is fetched.
    /// \pre rows of at least `stride` elements, stride % 16 == 0
    void (*sumValues)(const KvTile &tile, const KvTile &ahead, int begin, int end, const float *weights, int rows,
                      float *out, std::int64_t stride);
    /// Largest of scores[0, n); n a multiple of 16
    float (*largest)(const float *scores, int n);
    /// scores[i] = exp(scores[i] - shift); returns the sum; n a multiple of 16
    float (*exponentials)(float *scores, float shift, int n);
    /// scores[i] = cap x tanh(scores[i] / cap)
    void (*softCap)(float *scores, float cap, int n);
    void (*scaleRow)(float *row, float factor, std::int64_t n);
    /// Run the instructions of products with integers, or with floats, on registers alone, and return how many
    /// operations (two for each product) they did.
    double (*integerPeak)(std::int64_t rounds);
    double (*floatPeak)(std::int64_t rounds);
    /// row = row x a + other x b
    void (*blendRow)(float *row, float a, const float *other, float b, std::int64_t n);
};

/// Unpacks blocks [first, first + count) of a Raw panel to signed bytes [count, 8, 64] and scales [2 x count, 16].
void unpackRawPanel(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, std::uint8_t *lines,
                    float *scales);

/// Widens columns [first, first + count) of a Coded panel to [count, 16]; both multiples of 32.
void widenCodedColumns(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, float *target);

[[nodiscard]] LevelKernels scalarKernels();
/// Sets storeKv, loadKeys and loadValues.
void addKvKernelsScalar(LevelKernels &kernels);
#if defined(__x86_64__)
[[nodiscard]] LevelKernels avx2Kernels();
/// The level below with what AVX-512 F, BW, VL, DQ improve.
[[nodiscard]] LevelKernels avx512Kernels();
/// The level below with integer products by VNNI.
[[nodiscard]] LevelKernels avx512VnniKernels();
/// The level below with integer products of many rows by tiles.
[[nodiscard]] LevelKernels amxKernels();
/// The same source over tiles in plain C++, in test builds; needs the level below.
[[nodiscard]] LevelKernels emulatedAmxKernels();

/// Unpacks blocks [first, first + count) of a panel to bytes and float scales. Numbers made of bits keep their offset.
/// `lines` may be null: scales only.
void unpackPanelAvx2(const PanelLayout &layout, const std::uint8_t *panel, int first, int count, std::uint8_t *lines,
                     float *scales, float *mins);
/// Goes on summing a tile [rows, 16] with the outliers whose columns are in the slice, of which the first block is
/// `firstBlock` of the panel; weights [floatSliceColumns, 16] is scratch.
void addOutliersAvx2(const PanelSlice &slice, const SliceNumbers &form, int firstBlock, const Outliers &outliers,
                     OutlierWalk &walk, int rows, float *weights, float *tile);
void addOutliersAvx512(const PanelSlice &slice, const SliceNumbers &form, int firstBlock, const Outliers &outliers,
                       OutlierWalk &walk, int rows, float *weights, float *tile);
/// Sets scoreKeys and sumValues.
void addKvKernelsAvx512(LevelKernels &kernels);
/// Sets bfloatPanel and roundBfloat, of AVX512-BF16.
void addBfloatKernels(LevelKernels &kernels);
/// Sets bfloatPanel, of AMX-BF16. \pre the above
void addBfloatTiles(LevelKernels &kernels);
/// The same over tiles in plain C++, in test builds.
void addEmulatedBfloatTiles(LevelKernels &kernels);
/// Widens `count` columns of a float panel.
void widenColumnsAvx2(PanelValues values, const void *source, int count, float *target);
#endif

} // namespace kernels
