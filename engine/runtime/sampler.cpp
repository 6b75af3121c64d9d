// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/sampler.h"

#include "engine/runtime/random.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace engine {
namespace {

/// What a sum of probabilities that is known to within a share of itself says of a limit.
enum class Verdict { No, Yes, Close };

/// The best tokens down to the first where the sum of their probabilities passes `limit` (or reaches it, when
/// `reaching`); all that can be drawn when none does. Lists grow in rounds, as a whole vocabulary need seldom be
/// sorted, and the sum over all is taken roughly unless that leaves a doubt.
class BestUntil {
public:
    BestUntil(const RankedLogits &logits, double temperature, double limit, bool reaching)
        : m_logits(logits)
        , m_temperature(temperature)
        , m_limit(limit)
        , m_reaching(reaching)
    {
    }

    std::vector<int> find()
    {
        constexpr std::size_t shortList = 256;
        constexpr double firstReach = 1.5; // in units of temperature, below the last of the short list
        constexpr double farthest = 700.0; // exp(-700) is still a number above 0
        m_total = m_logits.roughSumOfExponentials(m_temperature);
        std::vector<int> order = m_logits.best(shortList);
        const double last = m_logits[order.back()];
        const double end = m_logits.peak() - farthest * m_temperature;
        bool all = order.size() == m_logits.size();
        for (double reach = firstReach; !cut(order) && !all; reach *= 2) {
            const double limit = std::max(last - reach * m_temperature, end);
            order = m_logits.above(limit);
            all = limit == end || order.size() == m_logits.size();
        }
        return order;
    }

private:
    [[nodiscard]] Verdict verdict(double sum) const
    {
        const auto passes = [&](double x) { return m_reaching ? x >= m_limit : x > m_limit; };
        const double slack = m_isRough ? 2 * RankedLogits::roughly : 0.0;
        if (passes(sum * (1.0 - slack)))
            return Verdict::Yes;
        return passes(sum * (1.0 + slack)) ? Verdict::Close : Verdict::No;
    }

    /// Shortens the list to where the limit is passed; false when it is not.
    bool cut(std::vector<int> &order)
    {
        double sum = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            sum += std::exp((m_logits[order[i]] - m_logits.peak()) / m_temperature) / m_total;
            const Verdict passed = verdict(sum);
            if (passed == Verdict::No)
                continue;
            if (passed == Verdict::Yes) {
                order.resize(i + 1);
                return true;
            }
            m_isRough = false;
            m_total = m_logits.sumOfExponentials(m_temperature);
            return cut(order);
        }
        return false;
    }

    const RankedLogits &m_logits;
    double m_temperature;
    double m_limit;
    bool m_reaching;
    bool m_isRough = true;
    double m_total = 0;
};

/// The tokens whose probability is at least `minP` of the largest, or so near that rounding decides; sorted.
std::vector<int> bestAbove(const RankedLogits &logits, double minP)
{
    constexpr double slack = 1e-6; // far above rounding; keepMinP cuts exactly
    return logits.above(logits.peak() + std::log(minP) - slack);
}

/// exp(logit - peak) / sum into `probability`; entries are sorted, so the first holds the peak.
void normalise(std::vector<Candidate> &candidates)
{
    const double peak = candidates.front().logit;
    double sum = 0;
    for (Candidate &candidate : candidates) {
        candidate.probability = std::exp(candidate.logit - peak);
        sum += candidate.probability;
    }
    for (Candidate &candidate : candidates)
        candidate.probability /= sum;
}

void keepTopP(std::vector<Candidate> &candidates, double topP)
{
    normalise(candidates);
    double sum = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        sum += candidates[i].probability;
        if (sum >= topP) {
            candidates.resize(i + 1);
            return;
        }
    }
}

void keepMinP(std::vector<Candidate> &candidates, double minP)
{
    normalise(candidates);
    const double largest = candidates.front().probability;
    std::erase_if(candidates, [=](const Candidate &candidate) { return !(candidate.probability / largest >= minP); });
}

} // namespace

std::string Sampler::nothingAllowed()
{
    return "no token that the model can choose leads on to an answer of the form that was asked for";
}

bool Sampler::penalises(const SamplingParams &params)
{
    return params.repetitionPenalty != 1.0 || params.presencePenalty != 0.0 || params.frequencyPenalty != 0.0;
}

std::string Sampler::checkLogits(std::span<const float> logits)
{
    const auto [peak, bad] = RankedLogits::scan(logits);
    if (bad) {
        const auto at = std::ranges::find_if(logits, [](float x) { return !(x <= std::numeric_limits<float>::max()); });
        return "the model computed a logit of " + std::string(std::isnan(*at) ? "not-a-number" : "+infinity")
            + " for token " + std::to_string(at - logits.begin()) + " of " + std::to_string(logits.size())
            + ", finite ones are wanted";
    }
    if (peak == -std::numeric_limits<float>::infinity())
        return "the model computed -infinity for all " + std::to_string(logits.size())
            + " logits, at least one finite is wanted";
    return {};
}

/// Fills m_ranked. Repetition once per distinct token, then frequency by count and presence once.
void Sampler::applyPenalties(std::span<const float> logits, const SamplingParams &params, std::span<const int> history)
{
    m_changed.clear();
    if (penalises(params)) {
        m_history.assign(history.begin(), history.end());
        std::ranges::sort(m_history);
    } else {
        m_history.clear();
    }
    for (std::size_t i = 0; i < m_history.size();) {
        const int token = m_history[i];
        std::size_t count = 0;
        for (; i < m_history.size() && m_history[i] == token; ++i)
            ++count;
        double logit = static_cast<double>(logits[static_cast<std::size_t>(token)]);
        logit = logit > 0 ? logit / params.repetitionPenalty : logit * params.repetitionPenalty;
        logit -= static_cast<double>(count) * params.frequencyPenalty + params.presencePenalty;
        m_changed.push_back({token, logit});
    }
    m_ranked.set(logits, m_changed);
}

std::vector<Candidate> Sampler::distribution(std::span<const float> logits, const SamplingParams &params,
                                             std::span<const int> history)
{
    applyPenalties(logits, params, history);
    return cutRanked(params);
}

/// The distribution of m_ranked.
std::vector<Candidate> Sampler::cutRanked(const SamplingParams &params) const
{
    const auto topK = static_cast<std::size_t>(std::max(params.topK, 0));
    const bool cutsByCount = topK > 0 && topK < m_ranked.size();
    const bool cutsByMass = params.topP < 1.0;
    std::vector<int> kept;
    if (cutsByCount)
        kept = m_ranked.best(topK);
    else if (cutsByMass)
        kept = BestUntil(m_ranked, 1.0, params.topP, true).find();
    else
        kept = params.minP > 0.0 ? bestAbove(m_ranked, params.minP) : m_ranked.best(m_ranked.size());
    std::vector<Candidate> candidates;
    candidates.reserve(kept.size());
    for (const int token : kept)
        candidates.push_back({token, m_ranked[token], 0.0});
    if (cutsByMass && cutsByCount)
        keepTopP(candidates, params.topP);
    if (params.minP > 0.0)
        keepMinP(candidates, params.minP);
    const double peak = candidates.front().logit;
    for (Candidate &candidate : candidates) // less the peak first: a tiny temperature must not make infinities
        candidate.logit = (candidate.logit - peak) / params.temperature;
    normalise(candidates);
    return candidates;
}

int Sampler::draw(std::span<const Candidate> candidates, double u)
{
    double sum = 0;
    int last = candidates.front().token;
    for (const Candidate &candidate : candidates) {
        sum += candidate.probability;
        if (sum > u)
            return candidate.token;
        if (candidate.probability > 0)
            last = candidate.token;
    }
    return last; // rounding left the sum below u
}

/// A token of m_ranked.
int Sampler::pick(const SamplingParams &params, double u) const
{
    if (params.topK > 0 || params.topP < 1.0 || params.minP > 0.0)
        return draw(cutRanked(params), u);
    // Nothing is cut: sort only as far as the draw falls.
    return BestUntil(m_ranked, params.temperature, u, false).find().back();
}

/// From the raw logits.
void Sampler::addLogprobs(std::span<const float> logits, int count, Sampled &sampled)
{
    m_ranked.set(logits, {});
    const double logSum = m_ranked.peak() + std::log(m_ranked.sumOfExponentials(1.0));
    sampled.logprob = m_ranked[sampled.token] - logSum;
    for (const int token : m_ranked.best(static_cast<std::size_t>(count)))
        sampled.top.emplace_back(token, m_ranked[token] - logSum);
}

std::span<const float> Sampler::masked(std::span<const float> logits, std::span<const std::uint64_t> allowed,
                                       std::span<const LogitBias> biases)
{
    constexpr std::size_t wordBits = 64;
    if (allowed.empty() && biases.empty())
        return logits;
    if (allowed.empty())
        m_masked.assign(logits.begin(), logits.end());
    else
        m_masked.assign(logits.size(), -std::numeric_limits<float>::infinity());
    for (std::size_t word = 0; word < allowed.size(); ++word) {
        for (std::uint64_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
            const std::size_t token = word * wordBits + static_cast<std::size_t>(std::countr_zero(bits));
            m_masked[token] = logits[token];
        }
    }
    for (const LogitBias &one : biases)
        if (one.token >= 0 && static_cast<std::size_t>(one.token) < m_masked.size())
            m_masked[static_cast<std::size_t>(one.token)] += static_cast<float>(one.bias);
    return m_masked;
}

Sampled Sampler::sample(std::span<const float> logits, const SamplingParams &params, std::span<const int> history,
                        std::uint64_t seed, std::span<const std::uint64_t> allowed)
{
    Sampled sampled;
    sampled.error = checkLogits(logits);
    const std::span<const float> choice = sampled.error.empty() ? masked(logits, allowed, params.logitBias) : logits;
    if (sampled.error.empty() && !allowed.empty() && !checkLogits(choice).empty())
        sampled.error = nothingAllowed();
    if (!sampled.error.empty())
        return sampled;
    applyPenalties(choice, params, history);
    sampled.token =
        params.temperature > 0.0 ? pick(params, CounterRandom::uniform(seed, history.size())) : m_ranked.first();
    if (params.logprobs >= 0)
        addLogprobs(logits, params.logprobs, sampled);
    return sampled;
}

} // namespace engine
