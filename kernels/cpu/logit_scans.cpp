// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/logit_scans.h"

#include "kernels/cpu/isa.h"
#include "kernels/cpu/logit_scan_levels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace kernels {

namespace {

// Vectors as GCC and clang have them on every processor: loops over lanes are unrolled before they become vectors.
constexpr std::size_t lanes = 4;
using Four = float __attribute__((vector_size(lanes * sizeof(float))));
using FourIntegers = std::int32_t __attribute__((vector_size(lanes * sizeof(float))));

Four load(const float *from)
{
    Four values;
    std::memcpy(&values, from, sizeof(values));
    return values;
}

/// The largest of x [n], NaN aside; adds to `faults` what is NaN or +infinity.
float peakOf(const float *x, std::size_t n, FourIntegers &faults)
{
    constexpr std::size_t chains = 4; // or each maximum would wait for the one before
    constexpr float highest = std::numeric_limits<float>::max();
    Four peaks[chains];
    for (Four &peak : peaks)
        peak = Four{} - std::numeric_limits<float>::infinity();
    std::size_t i = 0;
    for (; i + chains * lanes <= n; i += chains * lanes) {
#pragma GCC unroll 4
        for (std::size_t chain = 0; chain < chains; ++chain) {
            const Four next = load(x + i + chain * lanes);
            peaks[chain] = next > peaks[chain] ? next : peaks[chain];
            faults |= ~(next <= highest);
        }
    }
    float found = -std::numeric_limits<float>::infinity();
    for (const Four &peak : peaks)
        for (std::size_t lane = 0; lane < lanes; ++lane)
            found = std::max(found, peak[lane]);
    for (; i < n; ++i) {
        found = x[i] > found ? x[i] : found;
        faults[0] |= x[i] <= highest ? 0 : -1;
    }
    return found;
}

bool peaksScalar(const float *x, std::size_t n, float *peaks)
{
    FourIntegers faults{};
    for (std::size_t first = 0; first < n; first += LogitScans::chunk)
        *peaks++ = peakOf(x + first, std::min(LogitScans::chunk, n - first), faults);
    return faults[0] != 0 || faults[1] != 0 || faults[2] != 0 || faults[3] != 0;
}

/// exp(x) for x <= 0 to some 2e-7 of itself; 0 below -86.
/// Source: the scheme of Cephes' expf, whose polynomial this is.
Four roughExponentials(Four x)
{
    const Four least = Four{} - 86.0F;
    constexpr float toInteger = 12582912.0F; // 1.5 x 2^23: adding it rounds
    const Four bounded = x > least ? x : least;
    const Four shifted = bounded * 1.44269504F + toInteger;
    const Four power = shifted - toInteger;
    const Four rest = (bounded - power * 0.693359375F) + power * 2.12194440e-4F;
    Four sum = rest * 1.9875691500e-4F + 1.3981999507e-3F;
    sum = sum * rest + 8.3334519073e-3F;
    sum = sum * rest + 4.1665795894e-2F;
    sum = sum * rest + 1.6666665459e-1F;
    sum = sum * rest + 5.0000001201e-1F;
    sum = sum * rest * rest + rest + 1.0F;
    const FourIntegers exponent =
        (reinterpret_cast<FourIntegers>(shifted) - std::bit_cast<std::int32_t>(toInteger) + 127) << 23;
    return x > least ? sum * reinterpret_cast<Four>(exponent) : Four{};
}

double roughSumScalar(const float *x, std::size_t n, float peak, float factor)
{
    double sum = 0;
    for (std::size_t first = 0; first < n; first += LogitScans::chunk) {
        const std::size_t end = std::min(n, first + LogitScans::chunk);
        Four sums{};
        std::size_t i = first;
        for (; i + lanes <= end; i += lanes)
            sums += roughExponentials((load(x + i) - peak) * factor);
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sum += static_cast<double>(sums[lane]);
        for (; i < end; ++i)
            sum += static_cast<double>(std::exp((x[i] - peak) * factor));
    }
    return sum;
}

double preciseSumScalar(const float *x, std::size_t n, double peak, double factor)
{
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i)
        sum += std::exp((static_cast<double>(x[i]) - peak) * factor);
    return sum;
}

double exponentialsScalar(const double *x, std::size_t n, double peak, double factor, double *out)
{
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = std::exp((x[i] - peak) * factor);
        sum += out[i];
    }
    return sum;
}

void placesScalar(const double *x, std::size_t n, double peak, double scale, int last, int *places)
{
    for (std::size_t i = 0; i < n; ++i)
        places[i] = static_cast<int>(std::min((peak - x[i]) * scale, static_cast<double>(last)));
}

std::size_t positionsScalar(const int *places, std::size_t n, int place, int *found)
{
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
        if (places[i] == place)
            found[count++] = static_cast<int>(i);
    }
    return count;
}

/// Writes every index and keeps those that are wanted, so that nothing is predicted.
std::size_t gatherScalar(const float *x, std::size_t n, float limit, int first, int *found, double *values)
{
    std::size_t count = 0;
    for (std::size_t i = 0; i < n; ++i) {
        found[count] = first + static_cast<int>(i);
        values[count] = static_cast<double>(x[i]);
        count += x[i] >= limit ? 1 : 0;
    }
    return count;
}

LogitScans scansOf(Isa isa)
{
    LogitScans scans{};
    setLogitScansScalar(scans);
#if defined(__x86_64__)
    if (isa >= Isa::Avx2)
        setLogitScansAvx2(scans);
    if (isa >= Isa::Avx512)
        setLogitScansAvx512(scans);
#else
    static_cast<void>(isa);
#endif
    return scans;
}

} // namespace

void setLogitScansScalar(LogitScans &scans)
{
    scans = {peaksScalar,  roughSumScalar,  preciseSumScalar, exponentialsScalar,
             placesScalar, positionsScalar, gatherScalar};
}

const LogitScans &logitScans(std::string_view isa)
{
    static const LogitScans levels[] = {scansOf(Isa::Scalar), scansOf(Isa::Avx2), scansOf(Isa::Avx512)};
    const Isa chosen = chooseIsa(isa);
    return levels[static_cast<std::size_t>(std::min(chosen, Isa::Avx512))];
}

} // namespace kernels
