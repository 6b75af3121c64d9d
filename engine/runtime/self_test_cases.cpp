// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/self_test_side.h"
#include "kernels/quantize.h"

#include <array>
#include <cmath>
#include <utility>

namespace engine {

namespace {

using kernels::Activation;
using kernels::DType;
using kernels::TensorView;

// Limits of the NMSE. Products: activations may be rounded to eight bits in blocks. Attention: keys and values are the
// same stored bits on both sides, weights of a softmax may be rounded to halves. Rows: rounding of float32 alone.
constexpr double productLimit = 1e-4;
constexpr double attentionLimit = 1e-6;
constexpr double rowLimit = 1e-10;

constexpr DType weightTypes[] = {DType::F32,  DType::F16,    DType::BF16,   DType::Q4_0,  DType::Q4_1,  DType::Q5_0,
                                 DType::Q5_1, DType::Q8_0,   DType::Q2_K,   DType::Q3_K,  DType::Q4_K,  DType::Q5_K,
                                 DType::Q6_K, DType::IQ4_NL, DType::IQ4_XS, DType::MXFP4, DType::TQ1_0, DType::TQ2_0};
constexpr DType kvTypes[] = {DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::E4M3};

std::string nameOf(DType type)
{
    return type == DType::E4M3 ? "fp8" : std::string(kernels::info(type).name);
}

std::string sizes(std::initializer_list<std::int64_t> numbers)
{
    std::string text;
    for (const std::int64_t number : numbers)
        text += (text.empty() ? "" : "x") + std::to_string(number);
    return text;
}

using Cases = std::vector<SelfTestCase>;
using Run = std::function<std::vector<float>(SelfTestSide &, TestNumbers &)>;

void addProducts(Cases &cases, const kernels::Ops &device, DType type)
{
    constexpr std::int64_t columns = 512;
    constexpr std::int64_t rows = 96;
    const std::string skipped = device.supportsWeight(type) ? "" : "the device takes no weights of this type";
    const auto add = [&](const char *op, std::int64_t tokens, Run run) {
        cases.push_back({op, nameOf(type), sizes({tokens, columns, rows}), productLimit, std::move(run), skipped});
    };
    for (const std::int64_t tokens : {1, 7, 40})
        add("linear", tokens, [=](SelfTestSide &side, TestNumbers &random) {
            const auto &weight = side.weight(random, type, {rows}, columns);
            const TensorView out = side.empty(tokens, rows);
            const float *bias = side.randomRow(random, rows);
            side.ops().linear(weight, side.random(random, tokens, columns), out, bias, side.stream());
            return side.values(out);
        });
    add("linearAdd", 3, [=](SelfTestSide &side, TestNumbers &random) {
        const auto &weight = side.weight(random, type, {rows}, columns);
        const TensorView out = side.random(random, 3, rows);
        side.ops().linearAdd(weight, side.random(random, 3, columns), out, nullptr, side.stream());
        return side.values(out);
    });
    add("linearGated", 5, [=](SelfTestSide &side, TestNumbers &random) {
        const auto &weight = side.weight(random, type, {rows / 2, rows / 2}, columns);
        const TensorView out = side.empty(5, rows / 2);
        side.ops().linearGated(weight, Activation::Silu, side.random(random, 5, columns), out, nullptr, side.stream());
        return side.values(out);
    });
    add("embed", 4, [=](SelfTestSide &side, TestNumbers &random) {
        const auto &weight = side.weight(random, type, {rows}, columns);
        const std::array<int, 4> ids{0, 95, 17, 17};
        const TensorView out = side.empty(4, columns);
        side.ops().embed(weight, ids, out, side.stream());
        return side.values(out);
    });
}

/// An operation that changes [tokens, n] in place.
void addInPlace(Cases &cases, const std::string &op,
                const std::function<void(SelfTestSide &, TestNumbers &, const TensorView &)> &work)
{
    cases.push_back({op,
                     "F32",
                     sizes({5, 192}),
                     rowLimit,
                     [work](SelfTestSide &side, TestNumbers &random) {
                         const TensorView x = side.random(random, 5, 192);
                         work(side, random, x);
                         return side.values(x);
                     },
                     {}});
}

void addActivations(Cases &cases)
{
    const std::pair<Activation, const char *> kinds[] = {{Activation::Silu, "activate silu"},
                                                         {Activation::GeluTanh, "activate gelu tanh"},
                                                         {Activation::GeluErf, "activate gelu erf"},
                                                         {Activation::Relu, "activate relu"}};
    for (const auto &[kind, name] : kinds)
        addInPlace(cases, name, [kind](SelfTestSide &side, TestNumbers &, const TensorView &x) {
            side.ops().activate(kind, x, side.stream());
        });
}

void addRows(Cases &cases)
{
    addActivations(cases);
    addInPlace(cases, "add", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        side.ops().add(side.random(random, 5, 192), x, side.stream());
    });
    addInPlace(cases, "gatedAdd", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        const TensorView more = side.random(random, 5, 192);
        side.ops().gatedAdd(more, side.random(random, 5, 1), x, side.stream());
    });
    addInPlace(cases, "scale", [](SelfTestSide &side, TestNumbers &, const TensorView &x) {
        side.ops().scale(x, 1.7F, side.stream());
    });
    addInPlace(cases, "softCap", [](SelfTestSide &side, TestNumbers &, const TensorView &x) {
        side.ops().softCap(x, 0.5F, side.stream());
    });
    addInPlace(cases, "clamp", [](SelfTestSide &side, TestNumbers &, const TensorView &x) {
        side.ops().clamp(x, 0.5F, side.stream());
    });
    addInPlace(cases, "copy", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        side.ops().copy(side.random(random, 5, 192), x, side.stream());
    });
    addInPlace(cases, "gatherRows", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        const std::array<int, 5> rows{6, 0, 6, 3, 1};
        side.ops().gatherRows(side.random(random, 7, 192), rows, x, side.stream());
    });
    addInPlace(cases, "rmsNorm", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        const float *weight = side.randomRow(random, 192);
        side.ops().rmsNorm(side.random(random, 5, 192), weight, 1e-5F, x, side.stream());
    });
    addInPlace(cases, "layerNorm", [](SelfTestSide &side, TestNumbers &random, const TensorView &x) {
        const float *weight = side.randomRow(random, 192);
        const float *bias = side.randomRow(random, 192);
        side.ops().layerNorm(side.random(random, 5, 192), weight, bias, 1e-5F, x, side.stream());
    });
    addInPlace(cases, "zero", [](SelfTestSide &side, TestNumbers &, const TensorView &x) {
        const TensorView half = kernels::columns(x, 0, 96);
        side.ops().zero(half, side.stream());
    });
}

void addRope(Cases &cases, bool interleaved)
{
    cases.push_back({interleaved ? "rope interleaved" : "rope",
                     "F32",
                     sizes({3, 4, 64}),
                     rowLimit,
                     [interleaved](SelfTestSide &side, TestNumbers &random) {
                         kernels::RopeTable table;
                         table.rotaryDim = 48;
                         table.interleaved = interleaved;
                         for (int i = 0; i < 24; ++i)
                             table.inverseFrequencies.push_back(std::pow(10000.0, -i / 24.0));
                         const TensorView heads = side.random(random, 3, 4, 64);
                         const std::array<int, 3> positions{0, 77, 4001};
                         side.ops().rope(heads, positions, table, side.stream());
                         return side.values(heads);
                     },
                     {}});
}

kernels::RouterShape router(SelfTestSide &side, TestNumbers &random, bool grouped)
{
    kernels::RouterShape shape;
    shape.experts = 8;
    shape.expertsUsed = 2;
    shape.normalise = true;
    if (grouped) {
        shape.scores = kernels::RouterShape::Scores::Sigmoid;
        shape.groups = 4;
        shape.groupsUsed = 2;
        shape.groupRule = kernels::RouterShape::GroupRule::TopTwo;
        shape.selectionBias = side.randomRow(random, 8);
    }
    return shape;
}

void addExperts(Cases &cases, const kernels::Ops &device)
{
    for (const bool grouped : {false, true})
        cases.push_back({grouped ? "route in groups" : "route",
                         "F32",
                         sizes({9, 8}),
                         rowLimit,
                         [grouped](SelfTestSide &side, TestNumbers &random) {
                             const kernels::RouterShape shape = router(side, random, grouped);
                             const TensorView ids = kernels::makeView(side.memory(72), DType::I32, 9, 2);
                             const TensorView weights = side.empty(9, 2);
                             side.ops().route(side.random(random, 9, 8), shape, ids, weights, side.stream());
                             std::vector<float> all = side.values(weights);
                             for (const float id : side.numbers(ids))
                                 all.push_back(id);
                             return all;
                         },
                         {}});
    const std::string skipped = device.supportsWeight(DType::Q8_0) ? "" : "the device takes no weights of this type";
    cases.push_back({"experts", "Q8_0", sizes({6, 128, 64}), productLimit,
                     [](SelfTestSide &side, TestNumbers &random) {
                         std::vector<const kernels::PackedWeight *> gateUp;
                         std::vector<const kernels::PackedWeight *> down;
                         for (int expert = 0; expert < 8; ++expert) {
                             gateUp.push_back(&side.weight(random, DType::Q8_0, {64, 64}, 128));
                             down.push_back(&side.weight(random, DType::Q8_0, {128}, 64));
                         }
                         const TensorView ids = kernels::makeView(side.memory(48), DType::I32, 6, 2);
                         const TensorView weights = side.empty(6, 2);
                         side.ops().route(side.random(random, 6, 8), router(side, random, false), ids, weights,
                                          side.stream());
                         const TensorView inner = side.empty(12, 64);
                         const TensorView sum = side.random(random, 6, 128);
                         side.ops().expertsGated(gateUp, Activation::Silu, side.random(random, 6, 128), ids, {}, inner,
                                                 side.stream());
                         side.ops().expertsCombine(down, inner, ids, weights, {}, sum, side.stream());
                         return side.values(sum);
                     },
                     skipped});
    cases.push_back({"linearHeads", "Q8_0", sizes({5, 4, 64}), productLimit,
                     [](SelfTestSide &side, TestNumbers &random) {
                         std::vector<const kernels::PackedWeight *> heads;
                         for (int head = 0; head < 4; ++head)
                             heads.push_back(&side.weight(random, DType::Q8_0, {32}, 64));
                         const TensorView x = side.random(random, 5, 4, 64);
                         const TensorView flat = side.empty(5 * 4, 32);
                         side.ops().linearHeads(heads, x, kernels::makeView(flat.data, DType::F32, 5, 4, 32),
                                                side.stream());
                         return side.values(flat);
                     },
                     skipped});
}

struct AttentionCase {
    const char *op;
    int queries; ///< of the first sequence; the second has one
    int headDim;
    kernels::AttentionShape shape;
    bool sinks = false;
    bool copies = false; ///< the last block is a copy
};

std::vector<float> attend(const AttentionCase &what, DType type, SelfTestSide &side, TestNumbers &random)
{
    constexpr int blockTokens = 16;
    constexpr int kvHeads = 2;
    constexpr int context = 75; // five blocks; those of the two sequences lie among each other
    kernels::KvLayer layer{nullptr, type, type, 11, kvHeads, blockTokens, what.headDim, false};
    layer.data = side.memory(layer.blockBytes() * static_cast<std::size_t>(layer.blocks));
    std::vector<int> tables;
    for (int block = 0; block < 5; ++block)
        tables.push_back(2 * block);
    for (int block = 0; block < 5; ++block)
        tables.push_back(2 * block + 1);
    std::vector<int> slots;
    for (int sequence = 0; sequence < 2; ++sequence)
        for (int token = 0; token < context; ++token)
            slots.push_back(tables[static_cast<std::size_t>(sequence * 5 + token / blockTokens)] * blockTokens
                            + token % blockTokens);
    const TensorView keys = side.random(random, 2 * context, kvHeads, what.headDim);
    side.ops().kvStore(keys, side.random(random, 2 * context, kvHeads, what.headDim), layer, slots, side.stream());
    if (what.copies) {
        side.ops().copyBlock(layer, tables[4], 10, side.stream());
        tables[4] = 10;
    }
    const std::array<int, 3> starts{0, what.queries, what.queries + 1};
    const std::array<int, 2> lengths{context, context};
    kernels::AttentionShape shape = what.shape;
    shape.headDim = what.headDim;
    shape.sinks = what.sinks ? side.randomRow(random, shape.heads) : nullptr;
    const int rows = what.queries + 1;
    const TensorView q = side.random(random, rows, shape.heads, what.headDim);
    const TensorView out = side.empty(rows, std::int64_t{shape.heads} * what.headDim);
    side.ops().pagedAttention(q, layer, {starts, lengths, tables, 5, blockTokens}, shape,
                              kernels::makeView(out.data, DType::F32, rows, shape.heads, what.headDim), side.stream());
    return side.values(out);
}

void addAttention(Cases &cases, const kernels::Ops &device, DType type)
{
    kernels::AttentionShape plain;
    plain.heads = 8;
    plain.kvHeads = 2;
    plain.scale = 0.125F;
    kernels::AttentionShape window = plain;
    window.window = 24;
    kernels::AttentionShape capped = plain;
    capped.softCap = 2.0F;
    const AttentionCase all[] = {
        {"attention of one query", 1, 64, plain},     {"attention of a prompt", 33, 128, plain},
        {"attention in a window", 33, 64, window},    {"attention, capped", 5, 64, capped},
        {"attention with sinks", 5, 64, plain, true}, {"attention over a copied block", 1, 64, plain, false, true}};
    for (const AttentionCase &one : all)
        cases.push_back(
            {one.op, nameOf(type), sizes({one.queries + 1, one.shape.heads, one.headDim}), attentionLimit,
             [one, type](SelfTestSide &side, TestNumbers &random) { return attend(one, type, side, random); },
             device.supportsKv(type) ? "" : "the device stores no keys and values of this type"});
}

} // namespace

std::vector<SelfTestCase> selfTestCases(const kernels::Ops &device)
{
    Cases cases;
    for (const DType type : weightTypes)
        addProducts(cases, device, type);
    addRows(cases);
    addRope(cases, false);
    addRope(cases, true);
    addExperts(cases, device);
    addInt8Cases(cases, device);
    for (const DType type : kvTypes)
        addAttention(cases, device, type);
    return cases;
}

} // namespace engine
