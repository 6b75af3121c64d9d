// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/lab/bench_operations.h"

#include <algorithm>
#include <charconv>

namespace engine {
namespace {

double metadataNumber(const ModelDescription &model, const std::string &suffix, double otherwise)
{
    for (const auto &[key, json] : model.metadataJson) {
        double number = 0;
        if (key.ends_with(suffix) && std::from_chars(json.data(), json.data() + json.size(), number).ec == std::errc())
            return number;
    }
    return otherwise;
}

TokenOperations operationsOf(const InspectedTensor &tensor)
{
    double weights = 1;
    for (const std::int64_t size : tensor.shape)
        weights *= static_cast<double>(size);
    const bool floats = tensor.type == "F32" || tensor.type == "F16" || tensor.type == "BF16";
    return floats ? TokenOperations{0, 2 * weights} : TokenOperations{2 * weights, 0};
}

bool multiplied(const InspectedTensor &tensor)
{
    return tensor.shape.size() >= 2 && tensor.name != "position_embd.weight" && tensor.name != "token_types.weight"
        && tensor.name.ends_with(".weight");
}

} // namespace

TokenOperations &TokenOperations::operator+=(const TokenOperations &other)
{
    integer += other.integer;
    floating += other.floating;
    return *this;
}

TokenOperations TokenOperations::operator*(double factor) const
{
    return {integer * factor, floating * factor};
}

std::optional<ModelOperations> countOperations(const ModelDescription &model)
{
    if (model.format != "gguf")
        return std::nullopt;
    const double experts = metadataNumber(model, ".expert_count", 1);
    const double used = metadataNumber(model, ".expert_used_count", 1);
    const bool tied = std::ranges::none_of(
        model.tensors, [](const InspectedTensor &tensor) { return tensor.name == "output.weight"; });
    const std::string head = tied ? "token_embd.weight" : "output.weight";
    ModelOperations operations;
    for (const InspectedTensor &tensor : model.tensors) {
        if (!multiplied(tensor))
            continue;
        if (tensor.name == head)
            operations.head += operationsOf(tensor);
        else if (tensor.name.find("_exps.") != std::string::npos && experts > 0)
            operations.body += operationsOf(tensor) * (used / experts);
        else if (tensor.name != "token_embd.weight")
            operations.body += operationsOf(tensor);
    }
    return operations;
}

} // namespace engine
