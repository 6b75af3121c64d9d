// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/cpu/level.h"
#include "kernels/cpu/panel_unpack.h"
#include "kernels/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace kernels {

namespace {

// Below this 127 / largest is not a finite float any more; such a block counts as zero.
constexpr float smallestBlock = 1e-36F;

void fillRecords(const std::int8_t *numbers, float scale, BlockRecord &record, HalfRecord *halves)
{
    int sums[2] = {0, 0};
    for (int i = 0; i < blockWidth; ++i)
        sums[i / 16] += numbers[i];
    const int sum = sums[0] + sums[1];
    record = {scale, scale * static_cast<float>(sum), -128 * sum, -8 * sum};
    for (int h = 0; h < 2 && halves != nullptr; ++h)
        halves[h] = {scale * static_cast<float>(sums[h]), -128 * sums[h]};
}

void quantizeBlock(const float *x, std::int8_t *numbers, BlockRecord &record, HalfRecord *halves)
{
    float largest = 0.0F;
    bool finite = true;
    for (int i = 0; i < blockWidth; ++i) {
        finite = finite && std::isfinite(x[i]);
        largest = std::max(largest, std::fabs(x[i]));
    }
    const bool zero = !finite || largest < smallestBlock;
    const float inverse = zero ? 0.0F : 127.0F / largest;
    const float scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0F : largest / 127.0F;
    for (int i = 0; i < blockWidth; ++i)
        numbers[i] = zero ? std::int8_t{0} : static_cast<std::int8_t>(std::nearbyint(x[i] * inverse));
    fillRecords(numbers, scale, record, halves);
}

void quantizeRow(const float *x, int columns, std::int8_t *numbers, BlockRecord *blocks, HalfRecord *halves)
{
    for (int b = 0; b < columns / blockWidth; ++b)
        quantizeBlock(x + b * blockWidth, numbers + b * blockWidth, blocks[b],
                      halves != nullptr ? halves + 2 * b : nullptr);
}

int roundRest(const float *x, std::int8_t *numbers, BlockRecord &record, HalfRecord *halves)
{
    float rest[blockWidth];
    std::copy_n(x, blockWidth, rest);
    const auto *largest =
        std::max_element(rest, rest + blockWidth, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    const auto place = static_cast<int>(largest - rest);
    rest[place] = 0.0F;
    quantizeBlock(rest, numbers, record, halves);
    return place;
}

/// Activations that meet one block of a panel.
struct BlockRows {
    QuantRows x; ///< from that block on
    int rows;
};

QuantRows blocksFrom(const QuantRows &x, std::int64_t first)
{
    return {x.numbers + first * blockWidth, x.blocks + first, x.halves != nullptr ? x.halves + first * 2 : nullptr,
            x.stride, x.blocksPerRow};
}

/// One group (16 or 32 elements) of one output row against all activation rows.
void groupProducts(const PanelLayout &layout, const std::uint8_t *panel, int group, int row, const BlockRows &rows,
                   float *tile)
{
    const int start = group * layout.groupWidth % blockWidth;
    const PanelGroup stored = readPanelGroup(layout, panel, group, row);
    const int *numbers = stored.numbers.data();
    const QuantRows &x = rows.x;
    for (int m = 0; m < rows.rows; ++m) {
        const std::int8_t *activations = x.numbers + m * x.stride + start;
        int sum = 0;
        for (int i = 0; i < layout.groupWidth; ++i)
            sum += numbers[i] * activations[i];
        const BlockRecord &record = x.blocks[m * x.blocksPerRow];
        float &target = tile[m * panelRows + row];
        target = std::fma(static_cast<float>(sum), stored.scale * record.scale, target);
        if (layout.hasMin)
            target = std::fma(stored.min,
                              layout.groupWidth == 32 ? record.scaledSum
                                                      : x.halves[m * x.blocksPerRow * 2 + start / 16].scaledSum,
                              target);
    }
}

void blockProducts(const PanelLayout &layout, const std::uint8_t *panel, int block, const BlockRows &rows, float *tile)
{
    const int groups = blockWidth / layout.groupWidth;
    for (int group = block * groups; group < (block + 1) * groups; ++group) {
        for (int row = 0; row < panelRows; ++row)
            groupProducts(layout, panel, group, row, rows, tile);
    }
}

/// Column `k` of a panel.
void readColumn(const PanelLayout &layout, const std::uint8_t *panel, int k, float *weights)
{
    for (int row = 0; row < panelRows; ++row) {
        const PanelGroup stored = readPanelGroup(layout, panel, k / layout.groupWidth, row);
        const auto number = static_cast<float>(stored.numbers[static_cast<std::size_t>(k % layout.groupWidth)]);
        weights[row] = layout.hasMin ? std::fma(stored.scale, number, stored.min) : stored.scale * number;
    }
}

/// Outliers of columns before `end`.
void addOutliers(const PanelLayout &layout, const std::uint8_t *panel, int end, const Outliers &outliers,
                 OutlierWalk &walk, int rows, float *tile)
{
    for (; walk.column < outliers.columnCount && outliers.columns[walk.column] < end; ++walk.column) {
        float weights[panelRows];
        readColumn(layout, panel, outliers.columns[walk.column], weights);
        for (int m = 0; m < rows; ++m) {
            const std::int64_t at = m * outliers.mostPerRow + walk.next[m];
            if (walk.next[m] == outliers.counts[m] || outliers.places[at] != walk.column)
                continue;
            ++walk.next[m];
            for (int row = 0; row < panelRows; ++row) {
                float &target = tile[m * panelRows + row];
                target = std::fma(weights[row], outliers.values[at], target);
            }
        }
    }
}

void quantPanel(const PanelLayout &layout, const std::uint8_t *panel, const QuantRows &x, const Outliers &outliers,
                int rows, const PanelScratch &, float *tile)
{
    std::fill(tile, tile + rows * panelRows, 0.0F);
    OutlierWalk walk{};
    for (int first = 0; first < layout.blocks; first += quantSliceBlocks) {
        const int end = std::min(first + quantSliceBlocks, layout.blocks);
        for (int b = first; b < end; ++b)
            blockProducts(layout, panel, b, {blocksFrom(x, b), rows}, tile);
        addOutliers(layout, panel, end * blockWidth, outliers, walk, rows, tile);
    }
}

void outerProducts(const float *w, std::int64_t wStride, int count, const float *a, std::int64_t aStride, int rows,
                   float *out, std::int64_t outStride, bool accumulate)
{
    for (int r = 0; r < rows; ++r) {
        float *target = out + r * outStride;
        if (!accumulate)
            std::fill(target, target + panelRows, 0.0F);
        for (int k = 0; k < count; ++k) {
            for (int c = 0; c < panelRows; ++c)
                target[c] = std::fma(w[k * wStride + c], a[r * aStride + k], target[c]);
        }
    }
}

void floatPanel(const PanelLayout &layout, const std::uint8_t *panel, const float *x, std::int64_t stride, int rows,
                const PanelScratch &scratch, float *tile)
{
    for (int start = 0; start < layout.columns; start += floatSliceColumns) {
        const int count = std::min(floatSliceColumns, layout.columns - start);
        if (layout.values == PanelValues::Coded)
            widenCodedColumns(layout, panel, start, count, scratch.columns);
        for (int i = 0; i < count * panelRows && layout.values != PanelValues::Coded; ++i)
            scratch.columns[i] = panelFloat(layout.values, panel, static_cast<std::int64_t>(start) * panelRows + i);
        outerProducts(scratch.columns, panelRows, count, x + start, stride, rows, tile, panelRows, start > 0);
    }
}

void finishRows(const float *tile, int rows, const float *bias, int count, bool accumulate, float *target,
                std::int64_t stride)
{
    for (int r = 0; r < rows; ++r) {
        float *row = target + r * stride;
        for (int c = 0; c < count; ++c) {
            float value = tile[r * panelRows + c];
            if (bias != nullptr)
                value += bias[c];
            row[c] = accumulate ? value + row[c] : value;
        }
    }
}

void rotatePairs(float *head, const float *cosines, const float *sines, int pairs)
{
    for (int i = 0; i < pairs; ++i) {
        const float a = head[2 * i];
        const float b = head[2 * i + 1];
        head[2 * i] = a * cosines[i] - b * sines[i];
        head[2 * i + 1] = a * sines[i] + b * cosines[i];
    }
}

void addRow(const float *x, float *inout, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        inout[i] += x[i];
}

float silu(float x)
{
    return x / (1.0F + std::exp(-x));
}

float geluTanh(float x)
{
    constexpr float rootOfTwoOverPi = 0.7978845608F;
    return 0.5F * x * (1.0F + std::tanh(rootOfTwoOverPi * (x + 0.044715F * x * x * x)));
}

float geluErf(float x)
{
    return 0.5F * x * (1.0F + std::erf(x / std::numbers::sqrt2_v<float>));
}

float relu(float x)
{
    return x < 0.0F ? 0.0F : x; // NaN stays
}

template<float (*Function)(float)> void gatedRow(const float *gate, const float *up, float *out, int n)
{
    for (int i = 0; i < n; ++i)
        out[i] = up != nullptr ? Function(gate[i]) * up[i] : Function(gate[i]);
}

void swigluClampedRow(const float *gate, const float *up, float *out, int n)
{
    for (int i = 0; i < n; ++i) {
        const float limited = gate[i] > 7.0F ? 7.0F : gate[i];
        const float factor = up[i] > 7.0F ? 7.0F : up[i] < -7.0F ? -7.0F : up[i];
        out[i] = (factor + 1.0F) * (limited / (1.0F + std::exp(-1.702F * limited)));
    }
}

void rmsNormRow(const float *x, const float *weight, float epsilon, float *out, std::int64_t n)
{
    double squares = 0.0;
    for (std::int64_t i = 0; i < n; ++i)
        squares += static_cast<double>(x[i]) * x[i];
    const auto factor =
        static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(epsilon)));
    for (std::int64_t i = 0; i < n; ++i)
        out[i] = x[i] * factor * (weight != nullptr ? weight[i] : 1.0F);
}

void layerNormRow(const float *x, const float *weight, const float *bias, float epsilon, float *out, std::int64_t n)
{
    double mean = 0.0;
    for (std::int64_t i = 0; i < n; ++i)
        mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(n);
    double squares = 0.0;
    for (std::int64_t i = 0; i < n; ++i) {
        const double distance = static_cast<double>(x[i]) - mean;
        squares += distance * distance;
    }
    const double factor = 1.0 / std::sqrt(squares / static_cast<double>(n) + static_cast<double>(epsilon));
    for (std::int64_t i = 0; i < n; ++i) {
        const auto value = static_cast<float>((static_cast<double>(x[i]) - mean) * factor);
        out[i] = value * (weight != nullptr ? weight[i] : 1.0F) + (bias != nullptr ? bias[i] : 0.0F);
    }
}

float largest(const float *scores, int n)
{
    return *std::max_element(scores, scores + n);
}

float exponentials(float *scores, float shift, int n)
{
    float sum = 0.0F;
    for (int i = 0; i < n; ++i) {
        scores[i] = std::exp(scores[i] - shift);
        sum += scores[i];
    }
    return sum;
}

void softCap(float *scores, float cap, int n)
{
    for (int i = 0; i < n; ++i)
        scores[i] = cap * std::tanh(scores[i] / cap);
}

void scaleRow(float *row, float factor, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        row[i] *= factor;
}

void blendRow(float *row, float a, const float *other, float b, std::int64_t n)
{
    for (std::int64_t i = 0; i < n; ++i)
        row[i] = row[i] * a + other[i] * b;
}

// Scalar products have no instructions of their own kind, so the peak is what the compiler makes of plain loops.
double integerPeak(std::int64_t rounds)
{
    constexpr int lanes = 64;
    std::int8_t a[lanes];
    std::int32_t sums[lanes] = {};
    for (int i = 0; i < lanes; ++i)
        a[i] = static_cast<std::int8_t>(i);
    for (std::int64_t round = 0; round < rounds; ++round) {
        for (int i = 0; i < lanes; ++i)
            sums[i] += a[i] * a[lanes - 1 - i];
        a[round % lanes] = static_cast<std::int8_t>(sums[round % lanes]);
    }
    __asm__ volatile("" : : "r"(sums) : "memory"); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * lanes * 2;
}

double floatPeak(std::int64_t rounds)
{
    constexpr int lanes = 32;
    float a[lanes];
    float sums[lanes] = {};
    for (int i = 0; i < lanes; ++i)
        a[i] = static_cast<float>(i) * 1e-6F;
    for (std::int64_t round = 0; round < rounds; ++round) {
        for (int i = 0; i < lanes; ++i)
            sums[i] += a[i] * a[lanes - 1 - i];
        a[round % lanes] = sums[round % lanes] * 1e-6F;
    }
    __asm__ volatile("" : : "r"(sums) : "memory"); // sums that nobody wants would not be worked out
    return static_cast<double>(rounds) * lanes * 2;
}

} // namespace

LevelKernels scalarKernels()
{
    LevelKernels kernels{};
    kernels.quantizeRow = quantizeRow;
    kernels.roundRest = roundRest;
    kernels.quantPanel = quantPanel;
    kernels.floatPanel = floatPanel;
    kernels.outerProducts = outerProducts;
    kernels.finishRows = finishRows;
    kernels.rotatePairs = rotatePairs;
    kernels.addRow = addRow;
    kernels.gatedRows[0] = gatedRow<silu>;
    kernels.gatedRows[1] = gatedRow<geluTanh>;
    kernels.gatedRows[2] = gatedRow<geluErf>;
    kernels.gatedRows[3] = gatedRow<relu>;
    kernels.gatedRows[4] = swigluClampedRow;
    kernels.rmsNormRow = rmsNormRow;
    kernels.layerNormRow = layerNormRow;
    kernels.integerPeak = integerPeak;
    kernels.floatPeak = floatPeak;
    addKvKernelsScalar(kernels);
    kernels.largest = largest;
    kernels.exponentials = exponentials;
    kernels.softCap = softCap;
    kernels.scaleRow = scaleRow;
    kernels.blendRow = blendRow;
    return kernels;
}

} // namespace kernels
