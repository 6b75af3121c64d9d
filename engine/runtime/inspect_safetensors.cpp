// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/inspect_safetensors.h"

#include "engine/core/json.h"
#include "engine/core/printable.h"
#include "engine/io/safetensors_set.h"
#include "engine/io/safetensors_types.h"
#include "engine/models/hf_checkpoint.h"
#include "engine/runtime/template_files.h"

#include <algorithm>
#include <filesystem>
#include <type_traits>

namespace engine {
namespace {

namespace fs = std::filesystem;

std::string dumped(const Json &value)
{
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void addMetadata(const Metadata &metadata, ModelDescription &out)
{
    for (const auto &[key, value] : metadata.entries())
        out.metadataJson.emplace_back(key,
                                      dumped(std::visit([](const auto &content) { return Json(content); }, value)));
}

std::int64_t countOf(const Metadata &metadata, const std::string &key)
{
    return std::max<std::int64_t>(metadata.integer(key).value_or(0), 0);
}

/// Sizes out of the translated configuration.
void describeConfig(const HfModelConfig &model, bool withMetadata, ModelDescription &out)
{
    if (model.family == nullptr) {
        out.architecture = repairUtf8(model.modelType);
        out.warnings.push_back("model_type " + inQuotes(model.modelType) + " is not known: the model cannot be loaded");
        return;
    }
    const Metadata metadata = translateHfConfig(model);
    const std::string prefix = std::string(model.family->architecture) + ".";
    out.architecture = model.family->architecture;
    out.name = repairUtf8(*metadata.text("general.name"));
    out.contextLength = countOf(metadata, prefix + "context_length");
    out.layers = countOf(metadata, prefix + "block_count");
    out.vocabSize = countOf(metadata, prefix + "vocab_size");
    if (withMetadata)
        addMetadata(metadata, out);
}

void describeTensors(const SafetensorsSet &set, bool withTensors, bool withMetadata, ModelDescription &out)
{
    out.fileBytes = set.fileBytes();
    out.warnings.insert(out.warnings.end(), set.warnings().begin(), set.warnings().end());
    for (const SafetensorsSet::Entry &entry : set.entries()) {
        const SafetensorsTensor &tensor = entry.tensor;
        ++out.tensorTypes[tensor.type];
        const auto bits = static_cast<std::uint64_t>(findSafetensorsType(tensor.type)->bits);
        out.parameters += static_cast<std::int64_t>(tensor.bytes * 8 / bits);
        if (withTensors)
            out.tensors.push_back({tensor.name, tensor.type, tensor.shape, tensor.offset, tensor.bytes});
    }
    if (set.entries().empty())
        out.warnings.emplace_back("there are no tensors");
    if (!withMetadata)
        return;
    for (const auto &[key, value] : set.metadata())
        out.metadataJson.emplace_back("__metadata__." + key, dumped(Json(value)));
}

void describeText(const fs::path &folder, ModelDescription &out)
{
    std::error_code ignored;
    if (!fs::exists(folder / "tokenizer.json", ignored) && !fs::exists(folder / "tokenizer.json.xz", ignored))
        out.warnings.emplace_back("tokenizer.json is missing: the folder has no tokenizer that can be read");
    try {
        out.hasChatTemplate = !readFolderTemplates(folder.string()).templates.empty();
    } catch (const Error &error) {
        out.warnings.emplace_back(error.what());
    }
}

void describeFolder(const fs::path &folder, bool withTensors, bool withMetadata, ModelDescription &out)
{
    std::error_code ignored;
    if (const fs::path config = folder / "config.json"; fs::exists(config, ignored)) {
        const HfModelConfig model = readHfModelConfig(config.string());
        describeConfig(model, withMetadata, out);
        if (const auto quantization = model.config.object("quantization_config")) {
            out.warnings.push_back("the weights are quantised (quant_method "
                                   + inQuotes(quantization->text("quant_method").value_or("unnamed")) + ")");
        }
    } else {
        out.warnings.emplace_back("config.json is missing: the model cannot be loaded");
    }
    const std::unique_ptr<SafetensorsSet> set = SafetensorsSet::openFolder(folder.string());
    if (set->entries().empty() && !fs::exists(folder / "config.json", ignored))
        throw Error(ErrorCode::Refused,
                    inQuotes(folder.string())
                        + " is a folder with neither config.json nor .safetensors files, wanted a Hugging Face folder");
    describeTensors(*set, withTensors, withMetadata, out);
    describeText(folder, out);
}

bool isIndex(const fs::path &path)
{
    return path.filename().string().ends_with(".index.json");
}

bool isConfig(const fs::path &path)
{
    return path.filename().string().ends_with("config.json");
}

} // namespace

bool isSafetensorsPath(const std::string &path)
{
    std::error_code ignored;
    return fs::is_directory(path, ignored) || fs::path(path).extension() == ".safetensors" || isIndex(path)
        || isConfig(path);
}

ModelDescription inspectSafetensors(const std::string &path, bool withTensors, bool withMetadata)
{
    ModelDescription result;
    result.format = "safetensors";
    std::error_code ignored;
    if (fs::is_directory(path, ignored))
        describeFolder(path, withTensors, withMetadata, result);
    else if (isConfig(path))
        describeConfig(readHfModelConfig(path), withMetadata, result);
    else
        describeTensors(isIndex(path) ? *SafetensorsSet::openIndex(path) : *SafetensorsSet::openFile(path), withTensors,
                        withMetadata, result);
    return result;
}

} // namespace engine
