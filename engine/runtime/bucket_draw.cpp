// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/bucket_draw.h"

#include "engine/api/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace engine {
namespace {

constexpr int buckets = 2048; // their masses fit into the first cache
/// As a share: what two sums of the same terms in different orders may differ by, for as many as 2^22 terms.
constexpr double doubt = 1e-9;

/// How a sum compares with what it is to reach.
enum class Reached { No, Perhaps, Yes };

Reached reached(double sum, double goal)
{
    if (sum >= goal * (1.0 + doubt))
        return Reached::Yes;
    return sum <= goal * (1.0 - doubt) ? Reached::No : Reached::Perhaps;
}

/// Four at a time, or each minimum would wait for the one before.
double leastOf(std::span<const double> values)
{
    std::array<double, 4> least;
    least.fill(values[0]);
    std::size_t i = 0;
    for (; i + least.size() <= values.size(); i += least.size())
        for (std::size_t k = 0; k < least.size(); ++k)
            least[k] = std::min(least[k], values[i + k]);
    for (; i < values.size(); ++i)
        least[0] = std::min(least[0], values[i]);
    return *std::ranges::min_element(least);
}

} // namespace

int BucketDraw::bucketOf(double logit) const
{
    return static_cast<int>(std::clamp((m_peak - logit) * m_scale, 0.0, buckets - 1.0));
}

void BucketDraw::fill(const SamplingParams &params, std::span<const double> known)
{
    const std::size_t count = m_list.tokens.size();
    const double *values = m_list.logits.data();
    const kernels::LogitScans &scans = m_logits->scans();
    m_peak = m_logits->peak();
    const double least = leastOf(m_list.logits);
    m_scale = m_peak > least ? buckets / (m_peak - least) : 0.0;
    m_places.resize(std::max(m_places.size(), count));
    m_inBucket.resize(m_places.size());
    scans.places(values, count, m_peak, m_scale, buckets - 1, m_places.data());
    m_masses.assign(buckets, {});
    const bool isSame = params.topP >= 1.0 || params.temperature == 1.0;
    const double *drawn = known.data();
    if (!isSame || known.empty()) {
        m_drawn.resize(m_places.size());
        scans.exponentials(values, count, m_peak, 1.0 / params.temperature, m_drawn.data());
        drawn = m_drawn.data();
    }
    for (std::size_t i = 0; i < count; ++i)
        m_masses[static_cast<std::size_t>(m_places[i])].drawn += drawn[i];
    for (std::size_t i = 0; !isSame && i < count; ++i)
        m_masses[static_cast<std::size_t>(m_places[i])].cut += known[i];
    if (isSame)
        std::ranges::for_each(m_masses, [](Mass &mass) { mass.cut = mass.drawn; });
}

void BucketDraw::sortBucket(int bucket, std::vector<int> &sorted)
{
    const std::size_t count =
        m_logits->scans().positions(m_places.data(), m_list.tokens.size(), bucket, m_inBucket.data());
    sorted.clear();
    for (std::size_t i = 0; i < count; ++i)
        sorted.push_back(m_list.tokens[static_cast<std::size_t>(m_inBucket[i])]);
    m_logits->sort(sorted);
}

/// Keeps the best down to the first with which their share of the whole reaches top_p. False where that is doubtful.
bool BucketDraw::cutByMass(double topP)
{
    const double goal = topP * m_logits->preciseSumOfExponentials(1.0);
    double sum = 0;
    for (m_end = 0; m_end < buckets; ++m_end) {
        const double whole = sum + m_masses[static_cast<std::size_t>(m_end)].cut;
        if (reached(whole, goal) == Reached::No) {
            sum = whole;
            continue;
        }
        sortBucket(m_end, m_tail);
        for (std::size_t i = 0; i < m_tail.size(); ++i) {
            sum += std::exp((*m_logits)[m_tail[i]] - m_peak);
            const Reached passed = reached(sum, goal);
            if (passed == Reached::Perhaps)
                return false;
            if (passed == Reached::Yes) {
                m_tail.resize(i + 1);
                return true;
            }
        }
    }
    return false;
}

/// Keeps, of what is kept, logits of at least `least`. False where rounding may decide about one of them.
bool BucketDraw::cutByLogit(double least)
{
    constexpr double near = 1e-9; // as a difference of logits; min_p compares quotients that are right to 1e-15
    const int bucket = bucketOf(least);
    if (bucketOf(least + near) != bucket || bucketOf(least - near) != bucket)
        return false;
    if (bucket > m_end)
        return true;
    if (bucket < m_end)
        sortBucket(bucket, m_tail);
    m_end = bucket;
    for (std::size_t i = 0; i < m_tail.size(); ++i) {
        const double logit = (*m_logits)[m_tail[i]];
        if (std::abs(logit - least) < near)
            return false;
        if (logit < least)
            m_tail.resize(i);
    }
    return true;
}

/// The first token with which the running sum of what is kept passes `goal`.
std::optional<int> BucketDraw::find(double temperature, double goal)
{
    double sum = 0;
    std::optional<int> found;
    const auto passes = [&](const std::vector<int> &sorted) { // or may pass
        for (const int token : sorted) {
            sum += std::exp(((*m_logits)[token] - m_peak) / temperature);
            const Reached passed = reached(sum, goal);
            if (passed == Reached::Yes && sum > goal)
                found = token;
            if (passed != Reached::No)
                return true;
        }
        return false;
    };
    for (int bucket = 0; bucket < m_end; ++bucket) {
        const double whole = sum + m_masses[static_cast<std::size_t>(bucket)].drawn;
        if (reached(whole, goal) == Reached::No) {
            sum = whole;
            continue;
        }
        sortBucket(bucket, m_inner);
        if (passes(m_inner))
            return found;
    }
    static_cast<void>(passes(m_tail));
    return found;
}

std::optional<int> BucketDraw::draw(const RankedLogits &logits, const RankedLogits::Gathered &list,
                                    std::span<const double> exponentials, const SamplingParams &params, double u)
{
    m_logits = &logits;
    m_list = list;
    CHECK(params.topP >= 1.0 || exponentials.size() == list.tokens.size());
    fill(params, exponentials);
    m_end = buckets;
    m_tail.clear();
    if (params.topP < 1.0 && !cutByMass(params.topP))
        return std::nullopt;
    if (params.minP > 0.0 && !cutByLogit(m_peak + std::log(params.minP)))
        return std::nullopt;
    if (params.topP >= 1.0 && params.minP <= 0.0)
        return find(params.temperature, u * logits.preciseSumOfExponentials(params.temperature));
    double kept = 0;
    for (int bucket = 0; bucket < m_end; ++bucket)
        kept += m_masses[static_cast<std::size_t>(bucket)].drawn;
    for (const int token : m_tail)
        kept += std::exp((logits[token] - m_peak) / params.temperature);
    return find(params.temperature, u * kept);
}

} // namespace engine
