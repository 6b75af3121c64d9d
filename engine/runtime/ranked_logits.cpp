// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/ranked_logits.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace engine {
namespace {

constexpr std::size_t chunkLogits = kernels::LogitScans::chunk;
constexpr std::size_t sortedByComparing = 200; // above, passes over the bits are faster
constexpr std::size_t mostInHeap = 1024;
constexpr float lowest = -std::numeric_limits<float>::infinity();

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

/// The least float of at least `limit`.
float leastFloat(double limit)
{
    if (limit <= -static_cast<double>(std::numeric_limits<float>::max()))
        return limit == -std::numeric_limits<double>::infinity() ? lowest : -std::numeric_limits<float>::max();
    const auto least = static_cast<float>(limit);
    return static_cast<double>(least) < limit ? std::nextafter(least, std::numeric_limits<float>::infinity()) : least;
}

} // namespace

bool RankedLogits::findPeaks()
{
    m_chunkPeaks.resize((m_logits.size() + chunkLogits - 1) / chunkLogits);
    const bool isBad = m_scans->peaks(m_logits.data(), m_logits.size(), m_chunkPeaks.data());
    const float peak = highestChunk();
    m_peak = static_cast<double>(peak);
    return !isBad && peak != lowest;
}

float RankedLogits::highestChunk() const
{
    float highest = lowest;
    for (const float peak : m_chunkPeaks)
        highest = std::max(highest, peak);
    return highest;
}

bool RankedLogits::set(std::span<const float> logits)
{
    m_changed.clear();
    m_logits = logits;
    return findPeaks();
}

void RankedLogits::set(std::span<const float> logits, std::span<const Changed> changed)
{
    if (changed.size() > m_changed.capacity())
        m_changed.reserve(2 * changed.size()); // or a history that grows would make it anew for every token
    m_changed.assign(changed.begin(), changed.end());
    m_copy.assign(logits.begin(), logits.end());
    for (const Changed &one : changed)
        m_copy[static_cast<std::size_t>(one.token)] = lowest;
    m_logits = m_copy;
    static_cast<void>(findPeaks()); // all that is left may be impossible
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

void RankedLogits::best(std::size_t count, std::vector<int> &kept) const
{
    count = std::min(count, m_logits.size());
    if (count > mostInHeap) {
        above(-std::numeric_limits<double>::infinity(), kept);
        kept.resize(count);
        return;
    }
    if (bestByPeaks(count, kept))
        return;
    const auto before = [this](int a, int b) { return ranksBefore(a, b); };
    kept.clear(); // a heap, of which the front is the worst
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
}

/// As there are `count` chunks whose peaks reach the one of that rank, nothing below it is among the best. False where
/// that leaves too much.
bool RankedLogits::bestByPeaks(std::size_t count, std::vector<int> &kept) const
{
    if (count == 0 || count > m_chunkPeaks.size())
        return false;
    m_highest = m_chunkPeaks;
    const auto last = m_highest.begin() + static_cast<std::ptrdiff_t>(count - 1);
    std::ranges::nth_element(m_highest, last, std::ranges::greater());
    if (*last == lowest)
        return false;
    const std::span<const int> found = gather(static_cast<double>(*last)).tokens;
    if (found.size() > 4 * mostInHeap)
        return false;
    kept.assign(found.begin(), found.end());
    sort(kept);
    kept.resize(count);
    return true;
}

void RankedLogits::above(double limit, std::vector<int> &tokens) const
{
    const std::span<const int> found = gather(limit).tokens;
    tokens.assign(found.begin(), found.end());
    sort(tokens);
}

RankedLogits::Gathered RankedLogits::gather(double limit) const
{
    const float least = leastFloat(limit);
    const bool takesAll = least == lowest; // also what stands where logits are changed
    const std::size_t most = m_logits.size() + m_changed.size() + kernels::LogitScans::roomBehind;
    m_found.resize(std::max(m_found.size(), most));
    m_foundLogits.resize(m_found.size());
    std::size_t count = 0;
    for (std::size_t c = 0; c < m_chunkPeaks.size(); ++c) {
        const std::size_t first = c * chunkLogits;
        if (m_chunkPeaks[c] >= least)
            count += m_scans->gather(&m_logits[first], chunkEnd(c) - first, least, static_cast<int>(first),
                                     &m_found[count], &m_foundLogits[count]);
    }
    for (const Changed &one : m_changed) {
        if (!takesAll && one.logit >= limit) {
            m_foundLogits[count] = one.logit;
            m_found[count++] = one.token;
        }
    }
    for (std::size_t i = 0; takesAll && !m_changed.empty() && i < count; ++i)
        m_foundLogits[i] = (*this)[m_found[i]];
    return {std::span(m_found).first(count), std::span(m_foundLogits).first(count)};
}

double RankedLogits::guessReach(double temperature, double sum, double share) const
{
    constexpr std::size_t sampledChunks = 16;
    constexpr std::size_t steps = 64;
    constexpr double perUnit = 2.0;
    std::array<int, steps> counts{}; // of the sample, by how far they are below the peak
    const std::size_t stride = std::max<std::size_t>(1, m_chunkPeaks.size() / sampledChunks);
    const auto factor = static_cast<float>(perUnit / temperature);
    const auto peak = static_cast<float>(m_peak);
    std::size_t sampled = 0;
    for (std::size_t c = stride / 2; c < m_chunkPeaks.size(); c += stride) {
        for (std::size_t i = c * chunkLogits; i < chunkEnd(c); ++i)
            ++counts[static_cast<std::size_t>(std::clamp((peak - m_logits[i]) * factor, 0.0F, steps - 1.0F))];
        sampled += chunkEnd(c) - c * chunkLogits;
    }
    const double weight = static_cast<double>(size()) / static_cast<double>(std::max<std::size_t>(sampled, 1));
    double below = 0;
    std::size_t step = steps;
    while (step > 1) {
        below += counts[step - 1] * weight * std::exp(-(static_cast<double>(step) - 0.5) / perUnit);
        if (below > share * sum)
            break;
        --step;
    }
    return static_cast<double>(step) / perUnit;
}

void RankedLogits::sort(std::span<int> tokens) const
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
void RankedLogits::sortByBits(std::span<int> tokens) const
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
    const float peak = highestChunk();
    if (temperature < leastTemperature || peak == lowest)
        return sumOfExponentials(temperature);
    double sum = m_scans->roughSum(m_logits.data(), m_logits.size(), peak, static_cast<float>(1.0 / temperature));
    sum *= exponentOf(static_cast<double>(peak), m_peak, temperature);
    for (const Changed &one : m_changed)
        sum += exponentOf(one.logit, m_peak, temperature);
    return sum;
}

double RankedLogits::preciseSumOfExponentials(double temperature) const
{
    double sum = m_scans->preciseSum(m_logits.data(), m_logits.size(), m_peak, 1.0 / temperature);
    for (const Changed &one : m_changed)
        sum += exponentOf(one.logit, m_peak, temperature);
    return sum;
}

} // namespace engine
