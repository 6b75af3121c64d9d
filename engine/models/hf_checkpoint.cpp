// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/hf_checkpoint.h"

#include "engine/core/printable.h"
#include "engine/io/safetensors_set.h"
#include "engine/models/hf_keys.h"
#include "engine/models/hf_modules.h"
#include "engine/models/hf_names.h"
#include "engine/models/hf_tensors.h"
#include "engine/models/hf_translate.h"
#include "engine/models/model_config.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

namespace engine {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string &path, const std::string &problem)
{
    throw Error(ErrorCode::Refused, inQuotes(path) + " " + problem);
}

/// Layers behind the last one, which some models have for speculative decoding, are not read.
std::int64_t extraLayers(const HfConfig &config)
{
    return config.count("num_nextn_predict_layers", 1000, 0, 0);
}

class HfCheckpoint final : public Checkpoint {
public:
    HfCheckpoint(std::string folder, const HfModelConfig &model)
        : m_folder(std::move(folder))
        , m_config(model.config)
        , m_metadata(translateHfConfig(model)) // refuses an unknown family
        , m_names(model.family->hf.names)
        , m_set(SafetensorsSet::openFolder(m_folder))
        , m_warnings(m_set->warnings())
    {
        if (m_set->entries().empty())
            refuse(m_folder, "has no .safetensors file with weights; other formats of weights are not read");
        addTensors(model);
        addNames();
        noteTiedHead(model.config);
        checkBiases(model.config);
        checkVocabulary(model.config);
    }

    [[nodiscard]] const std::string &path() const override { return m_folder; }
    [[nodiscard]] const Metadata &metadata() const override { return m_metadata; }
    [[nodiscard]] const std::vector<TensorInfo> &tensors() const override { return m_infos; }
    [[nodiscard]] std::span<const std::int32_t> columnOrder(const TensorInfo &tensor) const override
    {
        return sourceOf(tensor).columnOrder;
    }
    [[nodiscard]] float activationScale(const TensorInfo &tensor) const override
    {
        return sourceOf(tensor).activationScale;
    }
    [[nodiscard]] std::uint64_t fileBytes() const override { return m_set->fileBytes(); }
    [[nodiscard]] std::vector<std::string> warnings() const override { return m_warnings; }
    [[nodiscard]] std::string checkUnchanged() const override { return m_set->checkUnchanged(); }

    [[nodiscard]] const TensorInfo *find(std::string_view name) const override
    {
        const auto found = m_byName.find(name);
        return found == m_byName.end() ? nullptr : &m_infos[found->second];
    }

    [[nodiscard]] std::string nameInFiles(std::string_view name) const override
    {
        const std::string prefix = architectureOf(*this) + '.';
        if (name.starts_with(prefix))
            return configKeyOf(m_config, name.substr(prefix.size()));
        const auto found = m_byName.find(name);
        return found == m_byName.end() ? hfNameOf(name, m_names) : m_tensors[found->second].source->tensor.name;
    }

    [[nodiscard]] std::span<const std::byte> bytes(const TensorInfo &tensor) const override
    {
        const HfTensor &source = sourceOf(tensor);
        if (!tensor.computable)
            refuse(m_set->filePath(*source.source),
                   "holds the tensor " + inQuotes(source.source->tensor.name) + " of the type " + tensor.typeName
                       + ", which cannot be computed");
        if (!source.make)
            return m_set->bytes(*source.source).subspan(source.offset, tensor.bytes);
        const std::lock_guard lock(m_madeMutex);
        const auto [made, isNew] = m_made.try_emplace(&source);
        if (isNew)
            made->second = source.make();
        CHECK(made->second.size() == tensor.bytes);
        return made->second;
    }

    void releasePages(const TensorInfo &tensor) const override
    {
        const HfTensor &source = sourceOf(tensor);
        m_set->releasePages(*source.source);
        const std::lock_guard lock(m_madeMutex);
        m_made.erase(&source);
    }

private:
    [[nodiscard]] const HfTensor &sourceOf(const TensorInfo &tensor) const
    {
        return m_tensors[m_byName.at(tensor.name)];
    }

    void addTensors(const HfModelConfig &model)
    {
        const std::int64_t layers =
            m_metadata.integer(std::string(model.family->architecture) + ".block_count").value_or(0);
        const bool skipsBeyond = extraLayers(model.config) > 0;
        std::size_t beyond = 0;
        HfModules modules(*m_set, model, m_folder);
        for (const SafetensorsSet::Entry &entry : m_set->entries()) {
            const std::string &name = entry.tensor.name;
            if (isDerivedHfTensor(name) || modules.take(entry))
                continue;
            const auto match = matchHfName(name, model.family->hf.names);
            if (match && skipsBeyond && match->layer >= layers)
                ++beyond;
            else if (match)
                addHfTensors(*m_set, entry, *match, m_tensors);
            else
                m_tensors.push_back(plainHfTensor(*m_set, entry, name));
        }
        beyond += modules.addTensors(skipsBeyond ? layers : -1, m_tensors, m_warnings);
        if (beyond > 0)
            m_warnings.push_back(
                std::to_string(beyond)
                + " tensors of layers for speculative decoding (num_nextn_predict_layers) are not read");
    }

    void addNames()
    {
        for (std::size_t i = 0; i < m_tensors.size(); ++i)
            m_infos.push_back(m_tensors[i].info);
        for (std::size_t i = 0; i < m_infos.size(); ++i) {
            const auto [other, isNew] = m_byName.emplace(m_infos[i].name, i);
            if (!isNew)
                refuse(m_folder,
                       "holds the tensors " + inQuotes(m_tensors[other->second].source->tensor.name) + " and "
                           + inQuotes(m_tensors[i].source->tensor.name) + ", which are duplicates: both mean "
                           + inQuotes(m_infos[i].name));
        }
    }

    /// The tensors decide: files whose flag disagrees are common.
    void noteTiedHead(const HfConfig &config)
    {
        const auto tied = config.boolean("tie_word_embeddings");
        const bool hasHead = find("output.weight") != nullptr;
        if (tied == true && hasHead)
            m_warnings.emplace_back("config.json ties the output head to the embedding (tie_word_embeddings), but the"
                                    " weights hold a head of their own, lm_head.weight, which is used");
        if (tied == false && !hasHead)
            m_warnings.emplace_back("config.json has tie_word_embeddings false, but the weights hold no lm_head.weight:"
                                    " the embedding is used as output head");
    }

    /// A bias that the configuration promises and the weights lack would be left out of every result.
    void checkBiases(const HfConfig &config) const
    {
        const auto check = [&](const char *key, std::initializer_list<const char *> biases) {
            const bool held =
                std::any_of(biases.begin(), biases.end(), [this](const char *name) { return find(name) != nullptr; });
            if (!held && config.boolean(key) == true)
                config.refuse(key, "true",
                              "false, or weights with the tensor " + inQuotes(nameInFiles(*biases.begin())));
        };
        check("attention_bias", {"blk.0.attn_q.bias", "blk.0.attn_qkv.bias", "blk.0.attn_kv_a_mqa.bias"});
        check("mlp_bias", {"blk.0.ffn_up.bias"});
    }

    void checkVocabulary(const HfConfig &config) const
    {
        const TensorInfo *table = find("token_embd.weight");
        const std::int64_t tokens = config.integer("vocab_size").value_or(0);
        if (table != nullptr && table->shape.size() == 2 && table->shape[0] != tokens)
            config.refuse("vocab_size", std::to_string(tokens),
                          std::to_string(table->shape[0]) + ", the rows of the tensor "
                              + inQuotes(nameInFiles("token_embd.weight")));
    }

    std::string m_folder;
    HfConfig m_config;
    Metadata m_metadata;
    std::span<const HfName> m_names;
    std::unique_ptr<SafetensorsSet> m_set;
    std::vector<HfTensor> m_tensors;
    std::vector<TensorInfo> m_infos;                            ///< of m_tensors
    std::unordered_map<std::string_view, std::size_t> m_byName; ///< views into m_infos
    std::vector<std::string> m_warnings;
    mutable std::mutex m_madeMutex;
    mutable std::unordered_map<const HfTensor *, std::vector<std::byte>> m_made; ///< until releasePages
};

template<typename Names> bool holds(const Names &names, const std::string &name)
{
    return std::find(names.begin(), names.end(), name) != names.end();
}

const ModelFamily *familyOfType(const std::optional<std::string> &modelType,
                                const std::vector<std::string> &architectures)
{
    for (const ModelFamily &family : modelFamilies()) {
        if (modelType && holds(family.hf.modelTypes, *modelType))
            return &family;
    }
    for (const ModelFamily &family : modelFamilies()) {
        const bool listed = std::any_of(architectures.begin(), architectures.end(), [&family](const std::string &name) {
            return holds(family.hf.architectures, name);
        });
        if (!modelType && listed)
            return &family;
    }
    return nullptr;
}

std::string knownTypes()
{
    std::string known;
    for (const ModelFamily &family : modelFamilies()) {
        for (const std::string_view type : family.hf.modelTypes)
            known += (known.empty() ? "" : ", ") + std::string(type);
    }
    return known;
}

std::string folderName(const std::string &configPath)
{
    std::error_code ignored;
    const fs::path folder = fs::weakly_canonical(fs::absolute(fs::path(configPath), ignored).parent_path(), ignored);
    return folder.filename().string();
}

/// What the library's class of a type fills in goes before what those of all the family's types do.
HfConfig withFamilyDefaults(const HfConfig &config, const HfFamily &family)
{
    HfConfig filled = config;
    for (const HfTypeDefaults &each : family.typeDefaults) {
        if (config.text("model_type") == each.modelType)
            filled = filled.withDefaults(each.defaults);
    }
    return filled.withDefaults(family.defaults);
}

} // namespace

HfModelConfig readHfModelConfig(const std::string &path)
{
    return modelConfigOf(HfConfig::read(path));
}

HfModelConfig modelConfigOf(const HfConfig &whole)
{
    HfModelConfig model{whole.textModel(), nullptr, {}};
    const auto architectures = whole.texts("architectures").value_or(std::vector<std::string>{});
    auto type = model.config.text("model_type");
    model.family = familyOfType(type, architectures);
    if (model.family == nullptr) // a model that holds a text model may give it no type of its own
        model.family = familyOfType(whole.text("model_type"), architectures);
    if (model.family != nullptr)
        model.config = withFamilyDefaults(model.config, model.family->hf);
    if (!type && !architectures.empty())
        type = architectures.front();
    model.modelType = type.value_or("");
    return model;
}

Metadata translateHfConfig(const HfModelConfig &model)
{
    if (model.family == nullptr)
        model.config.refuse("model_type", model.modelType.empty() ? "missing" : inQuotes(model.modelType),
                            "a supported one; known types are " + knownTypes());
    const std::string architecture(model.family->architecture);
    Metadata metadata;
    metadata.setSource(model.config.path());
    metadata.add("general.architecture", architecture);
    metadata.add("general.name", folderName(model.config.path()));
    HfKeys keys(metadata, architecture);
    translateCommonKeys(model.config, model.family->hf, keys);
    if (model.family->hf.translate != nullptr)
        model.family->hf.translate(model.config, keys);
    const fs::path generation = fs::path(model.config.path()).parent_path() / "generation_config.json";
    std::error_code ignored;
    if (fs::is_regular_file(generation, ignored)) {
        const HfConfig values = HfConfig::read(generation.string());
        translateGeneration(&values, model.config, metadata);
    } else {
        translateGeneration(nullptr, model.config, metadata);
    }
    return metadata;
}

std::unique_ptr<Checkpoint> openHfCheckpoint(const std::string &folder)
{
    const fs::path config = fs::path(folder) / "config.json";
    std::error_code ignored;
    if (!fs::exists(config, ignored))
        refuse(folder, "is a folder without config.json, wanted a .gguf file or a Hugging Face folder");
    return std::make_unique<HfCheckpoint>(folder, readHfModelConfig(config.string()));
}

} // namespace engine
