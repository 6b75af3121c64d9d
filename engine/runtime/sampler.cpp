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

/// Cuts a list, best first, behind the first token where the sum of probabilities passes `limit` (or reaches it, when
/// `reaching`). The sum over all is taken roughly unless that leaves a doubt.
class BestUntil {
public:
    BestUntil(const RankedLogits &logits, double temperature, double limit, bool reaching, double roughTotal)
        : m_logits(logits)
        , m_temperature(temperature)
        , m_limit(limit)
        , m_reaching(reaching)
        , m_total(roughTotal)
    {
    }

    /// Makes the list as long as it has to be; all that can be drawn when the limit is never passed. Lists grow in
    /// rounds, as a whole vocabulary need seldom be sorted.
    void find(std::vector<int> &order)
    {
        constexpr std::size_t shortList = 256;
        constexpr double firstReach = 1.5; // in units of temperature, below the last of the short list
        constexpr double farthest = 700.0; // exp(-700) is still a number above 0
        m_logits.best(shortList, order);
        const double last = m_logits[order.back()];
        const double end = m_logits.peak() - farthest * m_temperature;
        bool all = order.size() == m_logits.size();
        for (double reach = firstReach; !cut(order) && !all; reach *= 2) {
            const double limit = std::max(last - reach * m_temperature, end);
            m_logits.above(limit, order);
            all = limit == end || order.size() == m_logits.size();
        }
    }

    /// Shortens the list to where the limit is passed; false when it is not.
    [[nodiscard]] bool cut(std::vector<int> &order)
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

private:
    [[nodiscard]] Verdict verdict(double sum) const
    {
        const auto passes = [&](double x) { return m_reaching ? x >= m_limit : x > m_limit; };
        const double slack = m_isRough ? 2 * RankedLogits::roughly : 0.0;
        if (passes(sum * (1.0 - slack)))
            return Verdict::Yes;
        return passes(sum * (1.0 + slack)) ? Verdict::Close : Verdict::No;
    }

    const RankedLogits &m_logits;
    double m_temperature;
    double m_limit;
    bool m_reaching;
    bool m_isRough = true;
    double m_total;
};

/// Logits of at least that much have a probability of at least `minP` of the largest, or so near that rounding decides.
double leastAbove(const RankedLogits &logits, double minP)
{
    constexpr double slack = 1e-6; // far above rounding; keepMinP cuts exactly
    return logits.peak() + std::log(minP) - slack;
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
    const auto at = std::ranges::find_if(logits, [](float x) { return !(x <= std::numeric_limits<float>::max()); });
    if (at != logits.end())
        return "the model computed a logit of " + std::string(std::isnan(*at) ? "not-a-number" : "+infinity")
            + " for token " + std::to_string(at - logits.begin()) + " of " + std::to_string(logits.size())
            + ", finite ones are wanted";
    if (std::ranges::all_of(logits, [](float x) { return x == -std::numeric_limits<float>::infinity(); }))
        return "the model computed -infinity for all " + std::to_string(logits.size())
            + " logits, at least one finite is wanted";
    return {};
}

/// Fills m_changed; false where penalties change nothing. Repetition once per distinct token, then frequency by count
/// and presence once.
bool Sampler::findChanged(std::span<const float> logits, const SamplingParams &params, std::span<const int> history)
{
    m_changed.clear();
    if (!penalises(params))
        return false;
    if (history.size() > m_history.capacity())
        m_history.reserve(2 * history.size()); // or each token would make it anew
    m_history.assign(history.begin(), history.end());
    std::ranges::sort(m_history);
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
    return !m_changed.empty();
}

std::vector<Candidate> Sampler::distribution(std::span<const float> logits, const SamplingParams &params,
                                             std::span<const int> history)
{
    if (findChanged(logits, params, history))
        m_ranked.set(logits, m_changed);
    else
        static_cast<void>(m_ranked.set(logits));
    keepBest(params);
    listCandidates(params);
    return m_candidates;
}

/// Fills m_kept from m_ranked as the definition reads: what top_k leaves, else top_p, else about what min_p does.
void Sampler::keepBest(const SamplingParams &params)
{
    const auto topK = static_cast<std::size_t>(std::max(params.topK, 0));
    if (topK > 0 && topK < m_ranked.size())
        m_ranked.best(topK, m_kept);
    else if (params.topP < 1.0)
        BestUntil(m_ranked, 1.0, params.topP, true, m_ranked.roughSumOfExponentials(1.0)).find(m_kept);
    else if (params.minP > 0.0)
        m_ranked.above(leastAbove(m_ranked, params.minP), m_kept);
    else
        m_ranked.best(m_ranked.size(), m_kept);
}

/// Makes m_candidates of m_kept, with the cuts that are still to be made.
void Sampler::listCandidates(const SamplingParams &params)
{
    const auto topK = static_cast<std::size_t>(std::max(params.topK, 0));
    std::vector<Candidate> &candidates = m_candidates;
    candidates.clear();
    for (const int token : m_kept)
        candidates.push_back({token, m_ranked[token], 0.0});
    if (params.topP < 1.0 && topK > 0 && topK < m_ranked.size())
        keepTopP(candidates, params.topP);
    if (params.minP > 0.0)
        keepMinP(candidates, params.minP);
    const double peak = candidates.front().logit;
    for (Candidate &candidate : candidates) // less the peak first: a tiny temperature must not make infinities
        candidate.logit = (candidate.logit - peak) / params.temperature;
    normalise(candidates);
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

/// The best tokens, all down to some logit, that surely hold what top_p and min_p leave, or without them what `u` falls
/// into. In no order that counts; valid as RankedLogits::gather() says. \pre as BucketDraw::draw
RankedLogits::Gathered Sampler::enough(const SamplingParams &params, double u)
{
    constexpr double leastReach = 2.0; // in units of temperature, below the peak
    constexpr double growth = 1.3;     // of the reach, until it is enough
    constexpr double farthest = 700.0;
    const bool cutsByMass = params.topP < 1.0;
    m_known = {};
    if (!cutsByMass && params.minP > 0.0)
        return m_ranked.gather(leastAbove(m_ranked, params.minP));
    const double temperature = cutsByMass ? 1.0 : params.temperature;
    const double share = cutsByMass ? params.topP : u;
    m_roughTotal = m_ranked.roughSumOfExponentials(temperature);
    const double goal = share * m_roughTotal * (1.0 + 2 * RankedLogits::roughly);
    double reach = std::max(leastReach, m_ranked.guessReach(temperature, m_roughTotal, 1.0 - share));
    while (true) {
        const RankedLogits::Gathered found = m_ranked.gather(m_ranked.peak() - reach * temperature);
        const std::size_t count = found.tokens.size();
        m_exponentials.resize(std::max(m_exponentials.size(), count));
        const double sum = m_ranked.scans().exponentials(found.logits.data(), count, m_ranked.peak(), 1.0 / temperature,
                                                         m_exponentials.data());
        if (sum > goal || reach >= farthest || count == m_ranked.size()) {
            m_known = std::span(m_exponentials).first(count);
            return found;
        }
        reach = std::min(reach * growth, farthest);
    }
}

/// From m_kept, which holds enough; nothing where that was not so by a hair.
std::optional<int> Sampler::pickFromShortList(const SamplingParams &params, double u)
{
    m_ranked.sort(m_kept);
    if (params.topP < 1.0) {
        if (!BestUntil(m_ranked, 1.0, params.topP, true, m_roughTotal).cut(m_kept))
            return std::nullopt;
    } else if (params.minP <= 0.0) { // nothing is cut: as far as the draw falls
        if (!BestUntil(m_ranked, params.temperature, u, false, m_roughTotal).cut(m_kept))
            return std::nullopt;
        return m_kept.back();
    }
    listCandidates(params);
    return draw(m_candidates, u);
}

/// A token of m_ranked.
int Sampler::pick(const SamplingParams &params, double u)
{
    constexpr std::size_t shortList = 1024;
    if (params.topK == 0 && params.temperature >= RankedLogits::leastTemperature) {
        const RankedLogits::Gathered list = enough(params, u);
        std::optional<int> found;
        if (list.tokens.size() > shortList) {
            found = m_buckets.draw(m_ranked, list, m_known, params, u);
        } else {
            m_kept.reserve(shortList);
            m_kept.assign(list.tokens.begin(), list.tokens.end());
            found = pickFromShortList(params, u);
        }
        if (found)
            return *found;
    }
    if (params.topK > 0 || params.topP < 1.0 || params.minP > 0.0) {
        keepBest(params);
        listCandidates(params);
        return draw(m_candidates, u);
    }
    BestUntil(m_ranked, params.temperature, u, false, m_ranked.roughSumOfExponentials(params.temperature)).find(m_kept);
    return m_kept.back();
}

/// From the raw logits.
void Sampler::addLogprobs(std::span<const float> logits, int count, Sampled &sampled)
{
    static_cast<void>(m_ranked.set(logits));
    const double logSum = m_ranked.peak() + std::log(m_ranked.sumOfExponentials(1.0));
    sampled.logprob = m_ranked[sampled.token] - logSum;
    m_ranked.best(static_cast<std::size_t>(count), m_kept);
    for (const int token : m_kept)
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
    if (!m_ranked.set(logits)) {
        sampled.error = checkLogits(logits);
        return sampled;
    }
    const std::span<const float> choice = masked(logits, allowed, params.logitBias);
    if (choice.data() != logits.data() && !m_ranked.set(choice) && !allowed.empty()) {
        sampled.error = nothingAllowed();
        return sampled;
    }
    if (findChanged(choice, params, history))
        m_ranked.set(choice, m_changed);
    sampled.token =
        params.temperature > 0.0 ? pick(params, CounterRandom::uniform(seed, history.size())) : m_ranked.first();
    if (params.logprobs >= 0)
        addLogprobs(logits, params.logprobs, sampled);
    return sampled;
}

} // namespace engine
