// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/ranked_logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace engine {
namespace {

constexpr std::size_t chunkLogits = 256;
constexpr std::size_t sortedByComparing = 1024; // above, passes over the bits are faster
constexpr float lowest = -std::numeric_limits<float>::infinity();

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

/// Smaller for higher logits; -0 and 0 are one.
std::uint32_t rankBits(float logit)
{
    constexpr std::uint32_t sign = 0x80000000U;
    const auto bits = std::bit_cast<std::uint32_t>(logit + 0.0F);
    return (bits & sign) != 0 ? bits : ~(bits | sign);
}

double exponentOf(double logit, double peak, double temperature)
{
    constexpr double negligible = -60.0;
    const double difference = (logit - peak) / temperature;
    return difference > negligible ? std::exp(difference) : 0.0;
}

} // namespace

RankedLogits::Scan RankedLogits::scan(std::span<const float> logits)
{
    constexpr std::size_t chains = 4; // or each maximum would wait for the one before
    constexpr float highest = std::numeric_limits<float>::max();
    std::array<Four, chains> peaks;
    peaks.fill(Four{} + lowest);
    std::array<FourIntegers, chains> faults{};
    std::size_t i = 0;
    for (; i + chains * lanes <= logits.size(); i += chains * lanes) {
#pragma GCC unroll 4
        for (std::size_t chain = 0; chain < chains; ++chain) {
            const Four next = load(&logits[i + chain * lanes]);
            peaks[chain] = next > peaks[chain] ? next : peaks[chain];
            faults[chain] |= ~(next <= highest);
        }
    }
    Scan found{lowest, false};
    for (std::size_t chain = 0; chain < chains; ++chain) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            found.peak = std::max(found.peak, peaks[chain][lane]);
            found.bad = found.bad || faults[chain][lane] != 0;
        }
    }
    for (; i < logits.size(); ++i) {
        found.peak = logits[i] > found.peak ? logits[i] : found.peak;
        found.bad = found.bad || !(logits[i] <= highest);
    }
    return found;
}

void RankedLogits::set(std::span<const float> logits, std::span<const Changed> changed)
{
    m_changed.assign(changed.begin(), changed.end());
    m_logits = logits;
    if (!changed.empty()) {
        m_copy.assign(logits.begin(), logits.end());
        for (const Changed &one : changed)
            m_copy[static_cast<std::size_t>(one.token)] = lowest;
        m_logits = m_copy;
    }
    m_chunkPeaks.resize((logits.size() + chunkLogits - 1) / chunkLogits);
    for (std::size_t c = 0; c < m_chunkPeaks.size(); ++c)
        m_chunkPeaks[c] = scan(m_logits.subspan(c * chunkLogits, chunkEnd(c) - c * chunkLogits)).peak;
    m_peak = static_cast<double>(scan(m_chunkPeaks).peak);
    for (const Changed &one : changed)
        m_peak = std::max(m_peak, one.logit);
}

std::size_t RankedLogits::chunkEnd(std::size_t chunk) const
{
    return std::min(m_logits.size(), (chunk + 1) * chunkLogits);
}

bool RankedLogits::isChanged(int token) const
{
    return std::ranges::binary_search(m_changed, token, {}, &Changed::token);
}

double RankedLogits::changedOr(int token) const
{
    const float logit = m_logits[static_cast<std::size_t>(token)];
    if (logit != lowest)
        return static_cast<double>(logit);
    const auto found = std::ranges::lower_bound(m_changed, token, {}, &Changed::token);
    return found != m_changed.end() && found->token == token ? found->logit : static_cast<double>(logit);
}

bool RankedLogits::ranksBefore(int a, int b) const
{
    const double left = (*this)[a];
    const double right = (*this)[b];
    return left != right ? left > right : a < b;
}

int RankedLogits::first() const
{
    int found = static_cast<int>(m_logits.size());
    for (const Changed &one : m_changed) {
        if (one.logit == m_peak)
            found = std::min(found, one.token);
    }
    const auto chunk =
        std::ranges::find_if(m_chunkPeaks, [&](float peak) { return static_cast<double>(peak) == m_peak; });
    if (chunk == m_chunkPeaks.end())
        return found;
    const auto begin = m_logits.begin() + (chunk - m_chunkPeaks.begin()) * static_cast<std::ptrdiff_t>(chunkLogits);
    return std::min(found, static_cast<int>(std::find(begin, m_logits.end(), *chunk) - m_logits.begin()));
}

std::vector<int> RankedLogits::best(std::size_t count) const
{
    count = std::min(count, m_logits.size());
    if (count > sortedByComparing) {
        std::vector<int> all = above(-std::numeric_limits<double>::infinity());
        all.resize(count);
        return all;
    }
    const auto before = [this](int a, int b) { return ranksBefore(a, b); };
    std::vector<int> kept; // a heap, of which the front is the worst
    kept.reserve(count + 1);
    double worst = 0;
    const auto offer = [&](int token, double logit) {
        if (kept.size() == count && (count == 0 || logit < worst || !before(token, kept.front())))
            return;
        kept.push_back(token);
        std::ranges::push_heap(kept, before);
        if (kept.size() > count) {
            std::ranges::pop_heap(kept, before);
            kept.pop_back();
        }
        worst = (*this)[kept.front()];
    };
    for (const Changed &one : m_changed)
        offer(one.token, one.logit);
    for (std::size_t c = 0; c < m_chunkPeaks.size(); ++c) {
        if (kept.size() == count && static_cast<double>(m_chunkPeaks[c]) < worst)
            continue;
        for (std::size_t i = c * chunkLogits; i < chunkEnd(c); ++i) {
            const auto logit = static_cast<double>(m_logits[i]);
            if ((kept.size() < count || logit >= worst) && (m_logits[i] != lowest || !isChanged(static_cast<int>(i))))
                offer(static_cast<int>(i), logit);
        }
    }
    std::ranges::sort_heap(kept, before);
    return kept;
}

std::vector<int> RankedLogits::above(double limit) const
{
    std::vector<int> tokens;
    for (std::size_t c = 0; c < m_chunkPeaks.size(); ++c) {
        if (static_cast<double>(m_chunkPeaks[c]) < limit)
            continue;
        for (std::size_t i = c * chunkLogits; i < chunkEnd(c); ++i) {
            if (static_cast<double>(m_logits[i]) >= limit && (m_logits[i] != lowest || !isChanged(static_cast<int>(i))))
                tokens.push_back(static_cast<int>(i));
        }
    }
    for (const Changed &one : m_changed) {
        if (one.logit >= limit)
            tokens.push_back(one.token);
    }
    sort(tokens);
    return tokens;
}

void RankedLogits::sort(std::vector<int> &tokens) const
{
    const auto before = [this](int a, int b) { return ranksBefore(a, b); };
    if (tokens.size() <= sortedByComparing) {
        std::ranges::sort(tokens, before);
        return;
    }
    sortByBits(tokens);
    if (m_changed.empty())
        return;
    // Replaced logits are finer than their bits, and stand behind the others of the same bits.
    const auto bitsOf = [this](int token) { return rankBits(static_cast<float>((*this)[token])); };
    for (auto run = tokens.begin(); run != tokens.end();) {
        const std::uint32_t bits = bitsOf(*run);
        const auto end = std::find_if(run, tokens.end(), [&](int token) { return bitsOf(token) != bits; });
        if (end - run > 1)
            std::sort(run, end, before);
        run = end;
    }
}

/// Stable passes from the lowest bits on, so that what came first stays in front of its equals.
void RankedLogits::sortByBits(std::vector<int> &tokens) const
{
    constexpr unsigned digitBits = 11;
    constexpr std::size_t digits = std::size_t{1} << digitBits;
    m_keys.resize(tokens.size());
    m_sorted.resize(tokens.size());
    std::array<std::array<std::uint32_t, digits>, 3> places{};
    for (std::size_t i = 0; i < tokens.size(); ++i) {
        const std::uint64_t bits = rankBits(static_cast<float>((*this)[tokens[i]]));
        m_keys[i] = bits << 32U | static_cast<std::uint32_t>(tokens[i]);
        for (unsigned pass = 0; pass < 3; ++pass)
            ++places[pass][bits >> (pass * digitBits) & (digits - 1)];
    }
    for (unsigned pass = 0; pass < 3; ++pass) {
        std::uint32_t next = 0;
        bool isOne = false; // all keys have one digit here
        for (std::uint32_t &place : places[pass]) {
            isOne = isOne || place == tokens.size();
            next += std::exchange(place, next);
        }
        if (isOne)
            continue;
        for (const std::uint64_t key : m_keys)
            m_sorted[places[pass][key >> (32U + pass * digitBits) & (digits - 1)]++] = key;
        m_keys.swap(m_sorted);
    }
    for (std::size_t i = 0; i < tokens.size(); ++i)
        tokens[i] = static_cast<int>(static_cast<std::uint32_t>(m_keys[i]));
}

double RankedLogits::sumOfExponentials(double temperature) const
{
    double sum = 0;
    for (const float logit : m_logits)
        sum += exponentOf(static_cast<double>(logit), m_peak, temperature);
    for (const Changed &one : m_changed)
        sum += exponentOf(one.logit, m_peak, temperature);
    return sum;
}

double RankedLogits::roughSumOfExponentials(double temperature) const
{
    constexpr double leastTemperature = 1e-3; // its reciprocal is far from float's end
    const float peak = scan(m_chunkPeaks).peak;
    if (temperature < leastTemperature || peak == lowest)
        return sumOfExponentials(temperature);
    const auto factor = static_cast<float>(1.0 / temperature);
    double sum = 0;
    for (std::size_t c = 0; c < m_chunkPeaks.size(); ++c) {
        Four sums{};
        std::size_t i = c * chunkLogits;
        for (; i + lanes <= chunkEnd(c); i += lanes)
            sums += roughExponentials((load(&m_logits[i]) - peak) * factor);
        for (std::size_t lane = 0; lane < lanes; ++lane)
            sum += static_cast<double>(sums[lane]);
        for (; i < chunkEnd(c); ++i)
            sum += exponentOf(static_cast<double>(m_logits[i]), static_cast<double>(peak), temperature);
    }
    sum *= exponentOf(static_cast<double>(peak), m_peak, temperature);
    for (const Changed &one : m_changed)
        sum += exponentOf(one.logit, m_peak, temperature);
    return sum;
}

} // namespace engine
