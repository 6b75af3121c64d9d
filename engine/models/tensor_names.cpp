// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/tensor_names.h"

#include "engine/text/utf8.h"

#include <charconv>
#include <optional>
#include <unordered_set>

namespace engine {
namespace {

/// The N of "blk.N.rest".
std::optional<std::int64_t> layerOf(std::string_view name)
{
    constexpr std::string_view prefix = "blk.";
    if (!name.starts_with(prefix))
        return std::nullopt;
    std::int64_t layer = 0;
    const char *first = name.data() + prefix.size();
    const auto [end, fault] = std::from_chars(first, name.data() + name.size(), layer);
    if (fault != std::errc() || end == first)
        return std::nullopt;
    return layer;
}

void checkType(const Checkpoint &checkpoint, const TensorInfo &found, const ExpectedTensor &wanted,
               const std::function<bool(kernels::DType)> &supportsWeight)
{
    // A type that cannot be computed keeps its own name beside a stand-in DType.
    const bool known = kernels::info(found.type).name == found.typeName || found.typeName.empty();
    const bool plain =
        found.type == kernels::DType::F32 || found.type == kernels::DType::F16 || found.type == kernels::DType::BF16;
    const bool usable = wanted.use == TensorUse::Matrix ? supportsWeight(found.type) : plain;
    if (!known || !usable)
        throw Error(ErrorCode::Refused,
                    tensorPlace(checkpoint, wanted.name) + " has type " + found.typeName + ", which is not supported "
                        + (wanted.use == TensorUse::Matrix ? "for a weight matrix" : "here; wanted F32, F16 or BF16"));
}

void checkTensor(const Checkpoint &checkpoint, const ExpectedTensor &wanted,
                 const std::function<bool(kernels::DType)> &supportsWeight)
{
    const TensorInfo *found = checkpoint.find(wanted.name);
    if (!found) {
        if (wanted.optional)
            return;
        throw Error(ErrorCode::Refused, tensorPlace(checkpoint, wanted.name) + " is missing");
    }
    if (found->shape != wanted.shape)
        throw Error(ErrorCode::Refused,
                    tensorPlace(checkpoint, wanted.name) + " has shape " + describeShape(found->shape) + "; expected "
                        + describeShape(wanted.shape));
    checkType(checkpoint, *found, wanted, supportsWeight);
}

} // namespace

std::string layerTensor(int layer, const char *part, const char *suffix)
{
    return layerPrefix(layer, part) + "." + suffix;
}

std::string layerPrefix(int layer, const char *part)
{
    return "blk." + std::to_string(layer) + "." + part;
}

std::string tensorPlace(const Checkpoint &checkpoint, const std::string &name)
{
    const std::string spelled = checkpoint.nameInFiles(name);
    return "tensor " + (spelled == name ? name : utf8::quoted(spelled));
}

std::string describeShape(const std::vector<std::int64_t> &shape)
{
    std::string text = "[";
    for (std::size_t i = shape.size(); i-- > 0;)
        text += std::to_string(shape[i]) + (i > 0 ? ", " : "");
    return text + "]";
}

namespace {

/// NVFP4 files may hold a factor of a whole matrix beside it; leaving it out would change every result.
void refuseMatrixScale(const Checkpoint &checkpoint, const TensorInfo &tensor)
{
    constexpr std::string_view suffix = ".scale";
    const std::string_view name = tensor.name;
    if (!name.ends_with(suffix))
        return;
    const std::string matrix = std::string(name.substr(0, name.size() - suffix.size())) + ".weight";
    if (checkpoint.find(matrix) != nullptr)
        throw Error(ErrorCode::Refused,
                    "tensor " + utf8::quoted(tensor.name) + " is a factor of the whole matrix " + utf8::quoted(matrix)
                        + ", which is not supported; wanted a matrix that holds all its scales itself");
}

} // namespace

void checkTensors(const Checkpoint &checkpoint, std::span<const ExpectedTensor> expected, int layers,
                  const std::function<bool(kernels::DType)> &supportsWeight)
{
    for (const ExpectedTensor &wanted : expected)
        checkTensor(checkpoint, wanted, supportsWeight);
    for (const TensorInfo &tensor : checkpoint.tensors()) {
        refuseMatrixScale(checkpoint, tensor);
        if (layerOf(tensor.name).value_or(0) >= layers)
            throw Error(ErrorCode::Refused,
                        "tensor " + utf8::quoted(checkpoint.nameInFiles(tensor.name))
                            + " belongs to a layer beyond the last: block_count (num_hidden_layers of config.json) is "
                            + std::to_string(layers));
    }
}

std::vector<std::string> unusedTensors(const Checkpoint &checkpoint, std::span<const ExpectedTensor> expected)
{
    std::unordered_set<std::string_view> known;
    for (const ExpectedTensor &each : expected)
        known.insert(each.name);
    std::vector<std::string> unused;
    for (const TensorInfo &tensor : checkpoint.tensors()) {
        if (!known.contains(tensor.name))
            unused.push_back(checkpoint.nameInFiles(tensor.name));
    }
    return unused;
}

} // namespace engine
