// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace kernels {

namespace {

using Scores = RouterShape::Scores;

/// exp(x - largest) / sum, in place.
void softmax(std::span<float> values)
{
    const float largest = *std::max_element(values.begin(), values.end());
    float sum = 0.0F;
    for (float &value : values) {
        value = std::exp(value - largest);
        sum += value;
    }
    for (float &value : values)
        value /= sum;
}

/// Makes `indexes` the first `count` of values by falling value, the lower one among equal values. NaN counts as the
/// lowest value.
void topIndexes(std::span<const float> values, int count, std::vector<int> &indexes)
{
    const auto key = [&](int i) {
        const float value = values[static_cast<std::size_t>(i)];
        return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
    };
    indexes.resize(values.size());
    std::iota(indexes.begin(), indexes.end(), 0);
    std::partial_sort(indexes.begin(), indexes.begin() + count, indexes.end(), [&](int a, int b) {
        const float first = key(a);
        const float second = key(b);
        return first != second ? first > second : a < b;
    });
    indexes.resize(static_cast<std::size_t>(count));
}

float groupScore(std::span<const float> choice, RouterShape::GroupRule rule, std::vector<int> &best)
{
    topIndexes(choice, std::min(2, static_cast<int>(choice.size())), best);
    const float first = choice[static_cast<std::size_t>(best[0])];
    if (rule == RouterShape::GroupRule::Max || best.size() == 1)
        return first;
    return first + choice[static_cast<std::size_t>(best[1])];
}

} // namespace

/// Experts outside of the best groups count 0, which is what transformers does: an expert of a chosen group that
/// its bias takes below zero comes after them.
void HostRouter::maskGroups(const RouterShape &shape)
{
    const auto size = m_choice.size() / static_cast<std::size_t>(shape.groups);
    m_groupScores.clear();
    for (std::size_t g = 0; g < static_cast<std::size_t>(shape.groups); ++g)
        m_groupScores.push_back(
            groupScore(std::span<const float>(m_choice).subspan(g * size, size), shape.groupRule, m_selected));
    topIndexes(m_groupScores, shape.groupsUsed, m_selected);
    m_kept.assign(m_groupScores.size(), 0);
    for (const int g : m_selected)
        m_kept[static_cast<std::size_t>(g)] = 1;
    for (std::size_t e = 0; e < m_choice.size(); ++e)
        m_choice[e] = m_kept[e / size] != 0 ? m_choice[e] : 0.0F;
}

void HostRouter::score(const float *logits, const RouterShape &shape)
{
    m_scores.assign(logits, logits + shape.experts);
    if (shape.scores == Scores::Softmax)
        softmax(m_scores);
    if (shape.scores == Scores::Sigmoid)
        std::transform(m_scores.begin(), m_scores.end(), m_scores.begin(),
                       [](float logit) { return 1.0F / (1.0F + std::exp(-logit)); });
}

/// Fills m_selected with the chosen experts and m_found with their weights.
void HostRouter::choose(const float *logits, const RouterShape &shape)
{
    // Scores keep the order of logits, but rounded to float32 they tie where logits do not.
    const bool plain = shape.selectionBias == nullptr && shape.groupsUsed == shape.groups;
    if (plain)
        m_choice.assign(logits, logits + shape.experts);
    else
        m_choice = m_scores;
    for (std::size_t e = 0; e < m_choice.size() && shape.selectionBias != nullptr; ++e)
        m_choice[e] += shape.selectionBias[e];
    if (shape.groupsUsed < shape.groups)
        maskGroups(shape);
    topIndexes(m_choice, shape.expertsUsed, m_selected);
    m_found.clear();
    for (const int e : m_selected)
        m_found.push_back(m_scores[static_cast<std::size_t>(e)]);
    if (shape.scores == Scores::SelectedSoftmax)
        softmax(m_found);
    if (shape.normalise) {
        const float sum = std::accumulate(m_found.begin(), m_found.end(), 0.0F) + 1e-20F;
        for (float &weight : m_found)
            weight /= sum;
    }
    for (float &weight : m_found)
        weight *= shape.scale;
}

void HostRouter::route(const float *logits, const RouterShape &shape, std::int32_t *ids, float *weights)
{
    score(logits, shape);
    choose(logits, shape);
    // By falling weight, equal ones by id, as `m_selected` is not ascending. Insertions: they are few, and
    // std::stable_sort allocates.
    for (std::size_t next = 0; next < m_found.size(); ++next) {
        const float weight = m_found[next];
        const std::int32_t id = m_selected[next];
        std::size_t at = next;
        for (; at > 0 && (weight > weights[at - 1] || (weight == weights[at - 1] && id < ids[at - 1])); --at) {
            ids[at] = ids[at - 1];
            weights[at] = weights[at - 1];
        }
        ids[at] = id;
        weights[at] = weight;
    }
}

} // namespace kernels
