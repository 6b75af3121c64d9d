// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/moe_config.h"

#include "engine/models/config_reader.h"
#include "engine/models/model_config.h"
#include "engine/text/utf8.h"

#include <algorithm>

namespace engine {
namespace {

using Scores = kernels::RouterShape::Scores;
using GroupRule = kernels::RouterShape::GroupRule;

constexpr std::int64_t widestExpert = 1 << 23;
constexpr std::int64_t mostShared = 1 << 12;

/// The numbers that files write. Source: gguf-py, ExpertGatingFuncType.
Scores readScores(const ConfigReader &reader, Scores fallback)
{
    switch (reader.countOrZero("expert_gating_func", 1 << 20)) {
    case 0:
        return fallback;
    case 1:
        return Scores::Softmax;
    case 2:
        return Scores::Sigmoid;
    case 3:
        return Scores::SelectedSoftmax;
    default:
        reader.refuse("expert_gating_func", std::to_string(reader.countOrZero("expert_gating_func", 1 << 20)),
                      "1 (softmax), 2 (sigmoid) or 3 (softmax over those selected); others are not supported");
    }
}

/// A file without the rule: groups were ranked by their best expert (DeepSeek-V2) until scores became sigmoids.
GroupRule readGroupRule(const ConfigReader &reader, Scores scores)
{
    const std::string rule = reader.text("expert_group_rule", scores == Scores::Sigmoid ? "top2" : "max");
    if (rule != "max" && rule != "top2")
        reader.refuse("expert_group_rule", utf8::quoted(rule), "max or top2");
    return rule == "max" ? GroupRule::Max : GroupRule::TopTwo;
}

void readGroups(const ConfigReader &reader, kernels::RouterShape &router)
{
    router.groups = static_cast<int>(std::max<std::int64_t>(1, reader.countOrZero("expert_group_count", 1 << 16)));
    router.groupsUsed = static_cast<int>(reader.countOrZero("expert_group_used_count", 1 << 16));
    if (router.groupsUsed == 0)
        router.groupsUsed = router.groups;
    if (router.experts % router.groups != 0)
        reader.refuse("expert_group_count", std::to_string(router.groups),
                      "a number that divides the " + std::to_string(router.experts) + " experts");
    if (router.groupsUsed > router.groups)
        reader.refuse("expert_group_used_count", std::to_string(router.groupsUsed),
                      "at most " + std::to_string(router.groups) + ", the number of groups");
    router.groupRule = readGroupRule(reader, router.scores);
}

float readScale(const ConfigReader &reader)
{
    const double scale = reader.number("expert_weights_scale", 0.0);
    if (scale == 0.0) // the format's way of saying "none"
        return 1.0F;
    return static_cast<float>(reader.positive("expert_weights_scale"));
}

std::vector<bool> layersWithExperts(const ConfigReader &reader, int layers)
{
    if (const auto flags = reader.flagPerLayer("moe_layers", layers))
        return *flags;
    const auto dense = static_cast<std::size_t>(reader.countOrZero("leading_dense_block_count", layers));
    std::vector<bool> flags(static_cast<std::size_t>(layers), true);
    std::fill_n(flags.begin(), dense, false);
    return flags;
}

int readSharedWidth(const ConfigReader &reader, const Checkpoint &checkpoint, const MoeConfig &moe, int firstLayer)
{
    if (reader.has("expert_shared_feed_forward_length"))
        return static_cast<int>(reader.countOrZero("expert_shared_feed_forward_length", widestExpert));
    if (reader.has("expert_shared_count")) {
        const std::int64_t count = reader.countOrZero("expert_shared_count", mostShared);
        if (count * moe.intermediate > widestExpert)
            reader.refuse("expert_shared_count", std::to_string(count), "experts of at most 8388608 together");
        return static_cast<int>(count) * moe.intermediate;
    }
    const TensorInfo *gate = checkpoint.find(layerTensor(firstLayer, "ffn_gate_shexp"));
    return gate != nullptr && gate->shape.size() == 2 && gate->shape[0] <= widestExpert
        ? static_cast<int>(gate->shape[0])
        : 0;
}

ExpertForm formOf(const Checkpoint &checkpoint, int layer)
{
    if (checkpoint.find(layerTensor(layer, "ffn_gate_up_exps")))
        return ExpertForm::Merged;
    return checkpoint.find(layerTensor(layer, "ffn_gate.0")) ? ExpertForm::Single : ExpertForm::Stacked;
}

/// A file that has a tensor for every expert cannot hold more experts than tensors; the list of what is expected
/// must not grow beyond it.
void checkTensorCount(const ConfigReader &reader, const Checkpoint &checkpoint, std::int64_t experts,
                      std::int64_t layers)
{
    const auto tensors = static_cast<std::int64_t>(checkpoint.tensors().size());
    if (3 * experts * layers > tensors)
        reader.refuse("expert_count", std::to_string(experts),
                      "so many that 3 tensors for each in " + std::to_string(layers) + " layers are among the "
                          + std::to_string(tensors) + " of the file");
}

} // namespace

void readMoe(const Checkpoint &checkpoint, ModelConfig &config, const MoeDefaults &defaults)
{
    const ConfigReader reader(checkpoint.metadata(), config.architecture);
    MoeConfig &moe = config.moe;
    if (moe.experts == 0)
        reader.refuse("expert_count", "0 or absent", "the number of experts of this architecture");
    const std::vector<bool> with = layersWithExperts(reader, config.layers);
    for (std::size_t i = 0; i < with.size(); ++i)
        config.layer[i].experts = with[i];
    const auto first = static_cast<int>(std::find(with.begin(), with.end(), true) - with.begin());
    moe.intermediate =
        static_cast<int>(reader.count("expert_feed_forward_length", widestExpert, config.layer.front().intermediate));
    moe.sharedIntermediate = readSharedWidth(reader, checkpoint, moe, first);
    moe.sharedGate = defaults.sharedGate && moe.sharedIntermediate > 0;
    moe.router.experts = moe.experts;
    moe.router.expertsUsed = moe.expertsUsed;
    moe.router.scores = readScores(reader, defaults.scores);
    moe.router.normalise = reader.flag("expert_weights_norm", defaults.normalise);
    moe.router.scale = readScale(reader);
    readGroups(reader, moe.router);
    moe.routerBias = checkpoint.find(layerTensor(first, "ffn_gate_inp", "bias")) != nullptr;
    moe.expertBias = checkpoint.find(layerTensor(first, "ffn_down_exps", "bias")) != nullptr;
    moe.selectionBias = checkpoint.find(layerTensor(first, "exp_probs_b", "bias")) != nullptr;
    moe.form = formOf(checkpoint, first);
    if (moe.form == ExpertForm::Single)
        checkTensorCount(reader, checkpoint, moe.experts, std::count(with.begin(), with.end(), true));
}

namespace {

void addExpertMatrices(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    const std::int64_t hidden = config.hidden;
    const MoeConfig &moe = config.moe;
    const std::int64_t inner = moe.intermediate;
    const auto part = [&](const std::string &name, std::int64_t rows, std::int64_t columns) {
        if (moe.form != ExpertForm::Single) {
            all.push_back({layerTensor(layer, (name + "_exps").c_str()), {moe.experts, rows, columns}});
            return;
        }
        for (int e = 0; e < moe.experts; ++e)
            all.push_back({layerTensor(layer, (name + "." + std::to_string(e)).c_str()), {rows, columns}});
    };
    if (moe.form == ExpertForm::Merged) {
        part("ffn_gate_up", 2 * inner, hidden);
    } else {
        part("ffn_gate", inner, hidden);
        part("ffn_up", inner, hidden);
    }
    part("ffn_down", hidden, inner);
    if (!moe.expertBias)
        return;
    const auto bias = [&](const char *name, std::int64_t size) {
        all.push_back({layerTensor(layer, name, "bias"), {moe.experts, size}, TensorUse::Vector});
    };
    if (moe.form == ExpertForm::Merged) {
        bias("ffn_gate_up_exps", 2 * inner);
    } else {
        bias("ffn_gate_exps", inner);
        bias("ffn_up_exps", inner);
    }
    bias("ffn_down_exps", hidden);
}

} // namespace

void addMoeTensors(const ModelConfig &config, int layer, std::vector<ExpectedTensor> &all)
{
    const std::int64_t hidden = config.hidden;
    const MoeConfig &moe = config.moe;
    all.push_back({layerTensor(layer, "ffn_gate_inp"), {moe.experts, hidden}});
    if (moe.routerBias)
        all.push_back({layerTensor(layer, "ffn_gate_inp", "bias"), {moe.experts}, TensorUse::Vector});
    if (moe.selectionBias)
        all.push_back({layerTensor(layer, "exp_probs_b", "bias"), {moe.experts}, TensorUse::Vector});
    addExpertMatrices(config, layer, all);
    if (moe.sharedIntermediate == 0)
        return;
    all.push_back({layerTensor(layer, "ffn_gate_shexp"), {moe.sharedIntermediate, hidden}});
    all.push_back({layerTensor(layer, "ffn_up_shexp"), {moe.sharedIntermediate, hidden}});
    all.push_back({layerTensor(layer, "ffn_down_shexp"), {hidden, moe.sharedIntermediate}});
    if (moe.sharedGate)
        all.push_back({layerTensor(layer, "ffn_gate_inp_shexp"), {1, hidden}});
}

} // namespace engine
