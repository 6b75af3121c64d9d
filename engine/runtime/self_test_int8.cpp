// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/self_test_side.h"

#include <array>
#include <utility>

namespace engine {

namespace {

using kernels::Activation;
using kernels::DType;
using kernels::TensorView;

constexpr std::int64_t columns = 256;
constexpr std::int64_t partRows = 48;
constexpr std::int64_t rowsAtOnce[] = {1, 7, 40}; // dot products, and tiles of tensor cores

/// Whole multiples of a power of two up to 127 times it are rounded to themselves, by rows and by blocks.
constexpr float unit = 1.0F / 128;
constexpr int largestOfRow = 127;
/// With a row's own scale these would be rounded; with the file's, which is the unit or a half of it, they are not.
constexpr int largestInFile = 50;

/// NMSE of numbers that rounding leaves as they are: of float sums alone.
constexpr double exactLimit = 1e-10;
/// Where the file's scale is not taken and its numbers are rounded by the block.
constexpr double roundedLimit = 1e-4;

using Run = std::function<std::vector<float>(SelfTestSide &, TestNumbers &)>;

std::vector<float> linear(SelfTestSide &side, TestNumbers &random, std::int64_t tokens, bool fixed)
{
    const auto &weight = fixed ? side.int8Weight(random, {unit, unit / 2}, partRows, columns)
                               : side.int8Weight(random, {0.0F, 0.0F}, partRows, columns);
    const TensorView x = side.multiples(random, tokens, columns, unit, fixed ? largestInFile : largestOfRow);
    const TensorView out = side.empty(tokens, weight.rows());
    side.ops().linear(weight, x, out, nullptr, side.stream());
    return side.values(out);
}

std::vector<float> embed(SelfTestSide &side, TestNumbers &random)
{
    const auto &weight = side.int8Weight(random, {0.0F}, partRows, columns);
    const std::array<int, 4> ids{0, partRows - 1, 17, 17};
    const TensorView out = side.empty(4, columns);
    side.ops().embed(weight, ids, out, side.stream());
    return side.values(out);
}

constexpr std::int64_t tokens = 6;
constexpr std::int64_t perToken = 2;

/// [tokens, perToken] experts and their weights.
std::pair<TensorView, TensorView> routed(SelfTestSide &side, TestNumbers &random, int experts)
{
    kernels::RouterShape shape;
    shape.experts = experts;
    shape.expertsUsed = perToken;
    shape.normalise = true;
    const TensorView ids =
        kernels::makeView(side.memory(tokens * perToken * sizeof(std::int32_t)), DType::I32, tokens, perToken);
    const TensorView weights = side.empty(tokens, perToken);
    side.ops().route(side.random(random, tokens, experts), shape, ids, weights, side.stream());
    return {ids, weights};
}

/// Scales of the activations of each expert.
using Scales = std::vector<float>;

std::vector<float> expertsGated(SelfTestSide &side, TestNumbers &random, const Scales &scales)
{
    std::vector<const kernels::PackedWeight *> experts;
    for (const float scale : scales)
        experts.push_back(&side.int8Weight(random, {scale, scale}, partRows, columns));
    const TensorView ids = routed(side, random, static_cast<int>(scales.size())).first;
    const TensorView x = side.multiples(random, tokens, columns, unit, scales[0] > 0.0F ? largestInFile : largestOfRow);
    const TensorView out = side.empty(tokens * perToken, partRows);
    side.ops().expertsGated(experts, Activation::Silu, x, ids, {}, out, side.stream());
    return side.values(out);
}

std::vector<float> expertsCombine(SelfTestSide &side, TestNumbers &random, const Scales &scales)
{
    std::vector<const kernels::PackedWeight *> experts;
    for (const float scale : scales)
        experts.push_back(&side.int8Weight(random, {scale}, partRows, columns));
    const auto [ids, weights] = routed(side, random, static_cast<int>(scales.size()));
    const TensorView inner =
        side.multiples(random, tokens * perToken, columns, unit, scales[0] > 0.0F ? largestInFile : largestOfRow);
    const TensorView sum = side.random(random, tokens, partRows);
    side.ops().expertsCombine(experts, inner, ids, weights, {}, sum, side.stream());
    return side.values(sum);
}

} // namespace

void addInt8Cases(std::vector<SelfTestCase> &cases, const kernels::Ops &device)
{
    const std::string skipped = device.supportsWeight(DType::W8A8) ? "" : "the device takes no weights of this type";
    const double fixedLimit = device.name() == "cuda" ? exactLimit : roundedLimit; // the CPU rounds by the block
    const auto add = [&](const std::string &op, std::int64_t rows, double limit, Run run) {
        const std::string shape = std::to_string(rows) + "x" + std::to_string(columns);
        cases.push_back({op, "W8A8", shape, limit, std::move(run), skipped});
    };
    for (const std::int64_t rows : rowsAtOnce) {
        add("linear", rows, exactLimit,
            [rows](SelfTestSide &side, TestNumbers &random) { return linear(side, random, rows, false); });
        add("linear, scales of a file", rows, fixedLimit,
            [rows](SelfTestSide &side, TestNumbers &random) { return linear(side, random, rows, true); });
    }
    add("embed", 4, exactLimit, embed);
    const std::pair<const char *, Scales> kinds[] = {{"", Scales(4, 0.0F)},
                                                     {", one scale", Scales(4, unit)},
                                                     {", own scales", Scales{unit, unit / 2, unit, unit / 2}}};
    for (const auto &[kind, scales] : kinds) {
        const double limit = scales[0] > 0.0F ? fixedLimit : exactLimit;
        add(std::string("expertsGated") + kind, tokens, limit,
            [scales = scales](SelfTestSide &side, TestNumbers &random) { return expertsGated(side, random, scales); });
        add(std::string("expertsCombine") + kind, tokens, limit,
            [scales = scales](SelfTestSide &side, TestNumbers &random) {
                return expertsCombine(side, random, scales);
            });
    }
}

} // namespace engine
