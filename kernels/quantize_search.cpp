// SPDX-License-Identifier: GPL-3.0-or-later
// Every search tries a row of steps around the one that just reaches the largest value, fits the scale to the numbers
// that each gives (least squares), and goes on from the best until rounding gives the same numbers again.
#include "kernels/quantize_search.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kernels::search {

namespace {

constexpr float smallest = 1e-30F;
constexpr int mostRefinements = 4;

// Four values at once: sums of floats have an order that the compiler may not change by itself.
using Four = float __attribute__((vector_size(16)));
constexpr int lanes = 4;

inline __attribute__((always_inline)) Four load(const float *source)
{
    Four four;
    std::memcpy(&four, source, sizeof four);
    return four;
}

inline __attribute__((always_inline)) double total(const Four &four)
{
    return static_cast<double>(four[0]) + four[1] + four[2] + four[3];
}

/// Nearest whole numbers, even on a tie, within bounds; |values| < 2^22. Adding 1.5 x 2^23 leaves no place for a
/// fraction.
inline __attribute__((always_inline)) Four nearest(const Four &values, float low, float high)
{
    constexpr float shift = 12582912.0F;
    const Four whole = (values + shift) - shift;
    const Four bottom = Four{} + low;
    const Four top = Four{} + high;
    const Four raised = whole < bottom ? bottom : whole;
    return raised > top ? top : raised;
}

/// Weighted sums of numbers q and values x.
struct Sums {
    double qx = 0.0;
    double qq = 0.0;
    double q = 0.0;
};

Sums sumsAt(const Group &group, float inverse, float min, float low, float high)
{
    Four qx{};
    Four qq{};
    Four q{};
    for (int i = 0; i < group.count; i += lanes) {
        const Four x = load(group.x + i);
        const Four number = nearest((x - min) * inverse, low, high);
        const Four weighted = load(group.weights + i) * number;
        qx += weighted * x;
        qq += weighted * number;
        q += weighted;
    }
    return {total(qx), total(qq), total(q)};
}

/// Weighted sums that do not depend on the numbers.
struct Constants {
    double w = 0.0;
    double x = 0.0;
    double xx = 0.0;
};

Constants constantsOf(const Group &group)
{
    Constants sums;
    for (int i = 0; i < group.count; ++i) {
        const double weighted = static_cast<double>(group.weights[i]) * group.x[i];
        sums.w += group.weights[i];
        sums.x += weighted;
        sums.xx += weighted * group.x[i];
    }
    return sums;
}

/// Least squares for scale and min at given numbers, and the error that is left.
struct Fit {
    ScaleAndMin values;
    double error = 0.0;
};

Fit fitShifted(const Sums &s, const Constants &c, bool minBelowZero)
{
    const double determinant = c.w * s.qq - s.q * s.q;
    double scale = 0.0;
    double min = c.w > 0 ? c.x / c.w : 0.0;
    if (determinant > 1e-12 * c.w * s.qq) {
        scale = (c.w * s.qx - c.x * s.q) / determinant;
        min = (s.qq * c.x - s.q * s.qx) / determinant;
    }
    if (minBelowZero && min > 0) {
        min = 0.0;
        scale = s.qq > 0 ? s.qx / s.qq : 0.0;
    }
    scale = std::max(scale, 0.0);
    const double error =
        c.xx + scale * scale * s.qq + min * min * c.w + 2 * (scale * min * s.q - scale * s.qx - min * c.x);
    return {{static_cast<float>(scale), static_cast<float>(min)}, error};
}

float largestSigned(const Group &group)
{
    float largest = 0.0F;
    for (int i = 0; i < group.count; ++i) {
        if (std::fabs(group.x[i]) > std::fabs(largest))
            largest = group.x[i];
    }
    return largest;
}

/// What least squares gains over a scale of 0.
double gain(const Sums &s)
{
    return s.qq > 0 ? s.qx * s.qx / s.qq : 0.0;
}

/// The entry that is nearest to `value`; the lower one of two.
int nearestEntry(const std::array<std::int8_t, 16> &table, float value)
{
    int number = 0;
    for (std::size_t i = 1; i < table.size(); ++i) // borders lie in the middle between neighbours
        number += value * 2.0F > static_cast<float>(table[i - 1] + table[i]) ? 1 : 0;
    return number;
}

Sums tableSums(const Group &group, float inverse, const std::array<std::int8_t, 16> &table)
{
    Sums sums;
    for (int i = 0; i < group.count; ++i) {
        const int number = nearestEntry(table, group.x[i] * inverse);
        const double entry = table[static_cast<std::size_t>(number)];
        const double weighted = group.weights[i] * entry;
        sums.qx += weighted * group.x[i];
        sums.qq += weighted * entry;
    }
    return sums;
}

} // namespace

float scaleOf(const Group &group, int low, int high)
{
    const float largest = largestSigned(group);
    if (std::fabs(largest) < smallest)
        return 0.0F;
    const auto bottom = static_cast<float>(low);
    const auto top = static_cast<float>(high);
    double best = -1.0;
    float scale = 0.0F;
    const auto attempt = [&](float inverse) {
        const Sums sums = sumsAt(group, inverse, 0.0F, bottom, top);
        const double gained = gain(sums);
        if (gained <= best)
            return false;
        best = gained;
        scale = static_cast<float>(sums.qq > 0 ? sums.qx / sums.qq : 0.0);
        return true;
    };
    const float reach = std::min(0.3F * -bottom, 1.0F);
    for (int step = -10; step <= 10; ++step)
        (void)attempt((bottom + 0.1F * reach * static_cast<float>(step)) / largest);
    (void)attempt(top / largest);
    for (int i = 0; i < mostRefinements && std::fabs(scale) > smallest; ++i) {
        if (!attempt(1.0F / scale))
            break;
    }
    return scale;
}

ScaleAndMin scaleAndMinOf(const Group &group, int high, bool minBelowZero)
{
    const auto [lowest, highest] = std::minmax_element(group.x, group.x + group.count);
    const float start = minBelowZero ? std::min(*lowest, 0.0F) : *lowest;
    const float span = *highest - start;
    if (span < smallest)
        return {0.0F, start};
    const Constants constants = constantsOf(group);
    const auto top = static_cast<float>(high);
    Fit best = fitShifted({}, constants, minBelowZero);
    const auto attempt = [&](float inverse, float min) {
        const Fit fit = fitShifted(sumsAt(group, inverse, min, 0.0F, top), constants, minBelowZero);
        if (fit.error >= best.error)
            return false;
        best = fit;
        return true;
    };
    const float reach = std::min(1.0F, 0.35F * top);
    for (int step = -10; step <= 10; ++step)
        (void)attempt((top + 0.1F * reach * static_cast<float>(step)) / span, start);
    for (int i = 0; i < mostRefinements && best.values.scale > smallest; ++i) {
        if (!attempt(1.0F / best.values.scale, best.values.min))
            break;
    }
    return best.values;
}

float roundNumbers(const Group &group, ScaleAndMin fit, int low, int high, std::int8_t *numbers)
{
    const float inverse = fit.scale != 0.0F ? 1.0F / fit.scale : 0.0F;
    const auto bottom = static_cast<float>(low);
    const auto top = static_cast<float>(high);
    Four error{};
    for (int i = 0; i < group.count; i += lanes) {
        const Four x = load(group.x + i);
        const Four number = nearest((x - fit.min) * inverse, bottom, top);
        const Four difference = number * fit.scale + fit.min - x;
        error += load(group.weights + i) * difference * difference;
        for (int l = 0; l < lanes; ++l)
            numbers[i + l] = static_cast<std::int8_t>(number[l]);
    }
    return static_cast<float>(total(error));
}

float roundToTable(const Group &group, float scale, const std::array<std::int8_t, 16> &table, std::int8_t *numbers)
{
    const float inverse = scale != 0.0F ? 1.0F / scale : 0.0F;
    float error = 0.0F;
    for (int i = 0; i < group.count; ++i) {
        const int number = nearestEntry(table, group.x[i] * inverse);
        const float difference = scale * static_cast<float>(table[static_cast<std::size_t>(number)]) - group.x[i];
        numbers[i] = static_cast<std::int8_t>(number);
        error += group.weights[i] * difference * difference;
    }
    return error;
}

float scaleOfTable(const Group &group, const std::array<std::int8_t, 16> &table)
{
    const float largest = largestSigned(group);
    if (std::fabs(largest) < smallest)
        return 0.0F;
    double best = -1.0;
    float scale = 0.0F;
    const auto attempt = [&](float inverse) {
        const Sums sums = tableSums(group, inverse, table);
        const double gained = gain(sums);
        if (gained <= best)
            return false;
        best = gained;
        scale = static_cast<float>(sums.qq > 0 ? sums.qx / sums.qq : 0.0);
        return true;
    };
    for (int step = -9; step <= 9; ++step) { // either end of the table may take the largest value
        (void)attempt((static_cast<float>(table.front()) + 2.0F * static_cast<float>(step)) / largest);
        (void)attempt((static_cast<float>(table.back()) + 2.0F * static_cast<float>(step)) / largest);
    }
    for (int i = 0; i < mostRefinements && std::fabs(scale) > smallest; ++i) {
        if (!attempt(1.0F / scale))
            break;
    }
    return scale;
}

} // namespace kernels::search
