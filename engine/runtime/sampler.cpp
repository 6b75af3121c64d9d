// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/sampler.h"

#include "engine/runtime/random.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace engine {
namespace {

/// The order of every list: higher logit first, equal ones by lower id.
template<typename Value> bool ranksBefore(const std::span<const Value> logits, int a, int b)
{
    const Value left = logits[static_cast<std::size_t>(a)];
    const Value right = logits[static_cast<std::size_t>(b)];
    return left != right ? left > right : a < b;
}

/// The largest logit, NaN aside; `bad` tells of NaN and +inf. In lanes, so that compilers use vectors for it.
float peakOf(std::span<const float> logits, bool &bad)
{
    constexpr std::size_t lanes = 16;
    constexpr float lowest = -std::numeric_limits<float>::infinity();
    constexpr float highest = std::numeric_limits<float>::max();
    std::array<float, lanes> peaks;
    std::array<int, lanes> faults{};
    peaks.fill(lowest);
    const std::size_t whole = logits.size() / lanes * lanes;
    for (std::size_t i = 0; i < whole; i += lanes) {
        for (std::size_t lane = 0; lane < lanes; ++lane) {
            const float logit = logits[i + lane];
            peaks[lane] = logit > peaks[lane] ? logit : peaks[lane];
            faults[lane] |= static_cast<int>(!(logit <= highest));
        }
    }
    for (std::size_t i = whole; i < logits.size(); ++i) {
        peaks[0] = logits[i] > peaks[0] ? logits[i] : peaks[0];
        faults[0] |= static_cast<int>(!(logits[i] <= highest));
    }
    bad = std::ranges::any_of(faults, [](int fault) { return fault != 0; });
    return std::ranges::max(peaks);
}

/// The `count` best tokens, sorted. A scan with a bounded heap for short lists, else a partial sort.
template<typename Value> std::vector<int> best(std::span<const Value> logits, std::size_t count)
{
    constexpr std::size_t heapLimit = 512; // above, the heap's moves cost more than selecting
    const auto before = [logits](int a, int b) { return ranksBefore(logits, a, b); };
    count = std::min(count, logits.size());
    std::vector<int> order;
    if (count > heapLimit) {
        order.resize(logits.size());
        std::iota(order.begin(), order.end(), 0);
        if (count < order.size())
            std::ranges::nth_element(order, order.begin() + static_cast<std::ptrdiff_t>(count), before);
        order.resize(count);
        std::ranges::sort(order, before);
        return order;
    }
    order.reserve(count);
    for (std::size_t i = 0; i < count; ++i)
        order.push_back(static_cast<int>(i));
    if (count == 0)
        return order;
    std::ranges::make_heap(order, before); // its front is the worst of the kept
    Value worst = logits[static_cast<std::size_t>(order.front())];
    for (std::size_t i = count; i < logits.size(); ++i) {
        if (logits[i] <= worst) // an equal one has a higher id, so it ranks behind
            continue;
        std::ranges::pop_heap(order, before);
        order.back() = static_cast<int>(i);
        std::ranges::push_heap(order, before);
        worst = logits[static_cast<std::size_t>(order.front())];
    }
    std::ranges::sort_heap(order, before);
    return order;
}

/// Sum of exp(logit - peak) over all. Terms under 2^-86 of the peak cannot change a float64 sum of a vocabulary.
template<typename Value> double sumOfExponentials(std::span<const Value> logits, double peak, double temperature = 1.0)
{
    constexpr double negligible = -60.0;
    double sum = 0;
    for (const Value logit : logits) {
        const double difference = (static_cast<double>(logit) - peak) / temperature;
        if (difference > negligible)
            sum += std::exp(difference);
    }
    return sum;
}

/// The best tokens down to the first where `reached(running sum of probabilities)`; all when none does.
/// The list is grown in rounds, as a whole vocabulary need seldom be sorted.
template<typename Reached>
std::vector<int> bestUntil(std::span<const double> logits, double temperature, const Reached &reached)
{
    const double peak = *std::ranges::max_element(logits);
    const double total = sumOfExponentials(logits, peak, temperature);
    for (std::size_t count = 256;; count *= 8) {
        std::vector<int> order = best(logits, count);
        double sum = 0;
        for (std::size_t i = 0; i < order.size(); ++i) {
            sum += std::exp((logits[static_cast<std::size_t>(order[i])] - peak) / temperature) / total;
            if (reached(sum)) {
                order.resize(i + 1);
                return order;
            }
        }
        if (order.size() == logits.size())
            return order;
    }
}

/// The tokens whose probability is at least `minP` of the largest, or so near that rounding decides; sorted.
std::vector<int> bestAbove(std::span<const double> logits, double minP)
{
    constexpr double slack = 1e-6; // far above rounding; keepMinP cuts exactly
    const double limit = *std::ranges::max_element(logits) + std::log(minP) - slack;
    std::vector<int> order;
    for (std::size_t i = 0; i < logits.size(); ++i)
        if (logits[i] >= limit)
            order.push_back(static_cast<int>(i));
    std::ranges::sort(order, [logits](int a, int b) { return ranksBefore(logits, a, b); });
    return order;
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
    bool bad = false;
    const float peak = peakOf(logits, bad);
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

/// Fills m_logits. Repetition once per distinct token, then frequency by count and presence once.
void Sampler::applyPenalties(std::span<const float> logits, const SamplingParams &params, std::span<const int> history)
{
    m_logits.assign(logits.begin(), logits.end());
    if (!penalises(params) || history.empty())
        return;
    m_history.assign(history.begin(), history.end());
    std::ranges::sort(m_history);
    for (std::size_t i = 0; i < m_history.size();) {
        const int token = m_history[i];
        std::size_t count = 0;
        for (; i < m_history.size() && m_history[i] == token; ++i)
            ++count;
        double &logit = m_logits[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / params.repetitionPenalty : logit * params.repetitionPenalty;
        logit -= static_cast<double>(count) * params.frequencyPenalty + params.presencePenalty;
    }
}

int Sampler::argmax(std::span<const float> logits, const SamplingParams &params, std::span<const int> history)
{
    if (!penalises(params) || history.empty()) {
        bool bad = false;
        return static_cast<int>(std::ranges::find(logits, peakOf(logits, bad)) - logits.begin());
    }
    applyPenalties(logits, params, history);
    return static_cast<int>(std::ranges::max_element(m_logits) - m_logits.begin());
}

std::vector<Candidate> Sampler::distribution(std::span<const float> logits, const SamplingParams &params,
                                             std::span<const int> history)
{
    applyPenalties(logits, params, history);
    const std::span<const double> penalised(m_logits);
    const auto topK = static_cast<std::size_t>(std::max(params.topK, 0));
    const bool cutsByCount = topK > 0 && topK < penalised.size();
    const bool cutsByMass = params.topP < 1.0;
    std::vector<int> kept;
    if (cutsByCount)
        kept = best(penalised, topK);
    else if (cutsByMass)
        kept = bestUntil(penalised, 1.0, [&params](double sum) { return sum >= params.topP; });
    else
        kept = params.minP > 0.0 ? bestAbove(penalised, params.minP) : best(penalised, penalised.size());
    std::vector<Candidate> candidates;
    candidates.reserve(kept.size());
    for (const int token : kept)
        candidates.push_back({token, penalised[static_cast<std::size_t>(token)], 0.0});
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

int Sampler::pick(std::span<const float> logits, const SamplingParams &params, std::span<const int> history, double u)
{
    if (params.topK > 0 || params.topP < 1.0 || params.minP > 0.0)
        return draw(distribution(logits, params, history), u);
    applyPenalties(logits, params, history); // nothing is cut: sort only as far as the draw falls
    return bestUntil(m_logits, params.temperature, [u](double sum) { return sum > u; }).back();
}

void Sampler::addLogprobs(std::span<const float> logits, int count, Sampled &sampled)
{
    const double peak = *std::ranges::max_element(logits);
    const double logSum = peak + std::log(sumOfExponentials(logits, peak));
    sampled.logprob = static_cast<double>(logits[static_cast<std::size_t>(sampled.token)]) - logSum;
    for (const int token : best(logits, static_cast<std::size_t>(count)))
        sampled.top.emplace_back(token, static_cast<double>(logits[static_cast<std::size_t>(token)]) - logSum);
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
    if (params.temperature > 0.0) {
        sampled.token = pick(choice, params, history, CounterRandom::uniform(seed, history.size()));
    } else {
        sampled.token = argmax(choice, params, history);
    }
    if (params.logprobs >= 0)
        addLogprobs(logits, params.logprobs, sampled);
    return sampled;
}

} // namespace engine
