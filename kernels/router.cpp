// SPDX-License-Identifier: GPL-3.0-or-later
#include "kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

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

/// The first `count` indexes by falling value, the lower one among equal values. NaN counts as the lowest value.
std::vector<int> topIndexes(std::span<const float> values, int count)
{
    const auto key = [&](int i) {
        const float value = values[static_cast<std::size_t>(i)];
        return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
    };
    std::vector<int> indexes(values.size());
    std::iota(indexes.begin(), indexes.end(), 0);
    std::partial_sort(indexes.begin(), indexes.begin() + count, indexes.end(), [&](int a, int b) {
        const float first = key(a);
        const float second = key(b);
        return first != second ? first > second : a < b;
    });
    indexes.resize(static_cast<std::size_t>(count));
    return indexes;
}

float groupScore(std::span<const float> choice, RouterShape::GroupRule rule)
{
    const std::vector<int> best = topIndexes(choice, std::min(2, static_cast<int>(choice.size())));
    const float first = choice[static_cast<std::size_t>(best[0])];
    if (rule == RouterShape::GroupRule::Max || best.size() == 1)
        return first;
    return first + choice[static_cast<std::size_t>(best[1])];
}

/// Experts outside of the best groups count 0, which is what transformers does: an expert of a chosen group that
/// its bias takes below zero comes after them.
void maskGroups(std::vector<float> &choice, const RouterShape &shape)
{
    const auto size = choice.size() / static_cast<std::size_t>(shape.groups);
    std::vector<float> scores;
    for (std::size_t g = 0; g < static_cast<std::size_t>(shape.groups); ++g)
        scores.push_back(groupScore(std::span<const float>(choice).subspan(g * size, size), shape.groupRule));
    std::vector<bool> kept(scores.size());
    for (const int g : topIndexes(scores, shape.groupsUsed))
        kept[static_cast<std::size_t>(g)] = true;
    for (std::size_t e = 0; e < choice.size(); ++e)
        choice[e] = kept[e / size] ? choice[e] : 0.0F;
}

std::vector<float> scoresOf(const float *logits, const RouterShape &shape)
{
    std::vector<float> scores(logits, logits + shape.experts);
    if (shape.scores == Scores::Softmax)
        softmax(scores);
    if (shape.scores == Scores::Sigmoid)
        std::transform(scores.begin(), scores.end(), scores.begin(),
                       [](float logit) { return 1.0F / (1.0F + std::exp(-logit)); });
    return scores;
}

} // namespace

void routeHostToken(const float *logits, const RouterShape &shape, std::int32_t *ids, float *weights)
{
    const std::vector<float> scores = scoresOf(logits, shape);
    // Scores keep the order of logits, but rounded to float32 they tie where logits do not.
    const bool plain = shape.selectionBias == nullptr && shape.groupsUsed == shape.groups;
    std::vector<float> choice = plain ? std::vector<float>(logits, logits + shape.experts) : scores;
    for (std::size_t e = 0; e < choice.size() && shape.selectionBias != nullptr; ++e)
        choice[e] += shape.selectionBias[e];
    if (shape.groupsUsed < shape.groups)
        maskGroups(choice, shape);
    const std::vector<int> selected = topIndexes(choice, shape.expertsUsed);
    std::vector<float> found;
    for (const int e : selected)
        found.push_back(scores[static_cast<std::size_t>(e)]);
    if (shape.scores == Scores::SelectedSoftmax)
        softmax(found);
    if (shape.normalise) {
        const float sum = std::accumulate(found.begin(), found.end(), 0.0F) + 1e-20F;
        for (float &weight : found)
            weight /= sum;
    }
    for (float &weight : found)
        weight *= shape.scale;
    std::vector<int> order(found.size());
    std::iota(order.begin(), order.end(), 0);
    // `selected` is not ascending, so equal weights are ordered by id here.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        const auto x = static_cast<std::size_t>(a);
        const auto y = static_cast<std::size_t>(b);
        return found[x] > found[y] || (found[x] == found[y] && selected[x] < selected[y]);
    });
    for (std::size_t r = 0; r < order.size(); ++r) {
        ids[r] = selected[static_cast<std::size_t>(order[r])];
        weights[r] = found[static_cast<std::size_t>(order[r])];
    }
}

} // namespace kernels
