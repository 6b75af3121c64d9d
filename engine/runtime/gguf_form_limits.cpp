// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/gguf_form_limits.h"

#include <algorithm>
#include <array>

namespace engine {
namespace {

class Limits {
public:
    explicit Limits(const Checkpoint &model)
        : m_model(model)
        , m_metadata(model.metadata())
    {
        if (const std::string *name = m_metadata.text("general.architecture"))
            m_architecture = *name;
    }

    std::vector<std::string> all()
    {
        window();
        experts();
        if (m_architecture == "deepseek2")
            latent();
        yarn();
        longRope();
        attention();
        return std::move(m_found);
    }

private:
    [[nodiscard]] std::string key(const char *name) const { return m_architecture + '.' + name; }
    [[nodiscard]] std::int64_t count(const char *name) const { return m_metadata.integer(key(name)).value_or(0); }
    template<std::size_t size> [[nodiscard]] bool isOneOf(const std::array<std::string_view, size> &names) const
    {
        return std::ranges::find(names, m_architecture) != names.end();
    }
    void ignored(const char *name, const std::string &effect)
    {
        m_found.push_back("llama.cpp does not read " + key(name) + " and " + effect);
    }

    void window()
    {
        constexpr std::array<std::string_view, 6> readers = {"cohere2", "exaone4", "gemma2",
                                                             "gemma3",  "gpt-oss", "olmo2"};
        const std::int64_t tokens = count("attention.sliding_window");
        if (tokens > 0 && tokens < count("context_length") && !isOneOf(readers))
            ignored("attention.sliding_window",
                    "lets every layer see the whole text, which differs beyond " + std::to_string(tokens) + " tokens");
    }

    void experts()
    {
        if (m_architecture == "qwen3moe" && !m_metadata.boolean(key("expert_weights_norm")).value_or(true))
            ignored("expert_weights_norm", "norms the weights of the experts, which changes every result");
        const std::string *first = nullptr;
        for (const TensorInfo &tensor : m_model.tensors()) {
            if (tensor.name.ends_with(".ffn_gate.weight"))
                first = &tensor.name;
        }
        if (first != nullptr && count("expert_count") > 0
            && (m_architecture == "qwen3moe" || m_architecture == "qwen2moe"))
            m_found.push_back("llama.cpp does not load " + m_architecture
                              + " models that have layers without experts, such as " + *first);
    }

    void latent()
    {
        constexpr std::array<std::int64_t, 3> direct = {26, 27, 48};
        const std::int64_t layers = count("block_count");
        if (count("attention.q_lora_rank") == 0 && std::ranges::find(direct, layers) == direct.end())
            m_found.push_back("llama.cpp loads deepseek2 models without " + key("attention.q_lora_rank")
                              + " only if they have 26, 27 or 48 layers, this one has " + std::to_string(layers));
        const std::string *rule = m_metadata.text(key("expert_group_rule"));
        if (rule != nullptr && *rule == "max" && count("expert_group_count") > 1)
            ignored("expert_group_rule", "ranks groups of experts by their two best, not by their best");
    }

    void yarn()
    {
        const std::string *type = m_metadata.text(key("rope.scaling.type"));
        if (type == nullptr || *type != "yarn")
            return;
        if (!m_metadata.boolean(key("rope.scaling.yarn_truncate")).value_or(true))
            ignored("rope.scaling.yarn_truncate", "begins and ends the ramp of frequencies at whole pairs");
    }

    void longRope()
    {
        const std::string *type = m_metadata.text(key("rope.scaling.type"));
        if (type != nullptr && *type == "longrope")
            m_found.push_back(
                "llama.cpp takes the long factors of the rotary embedding for every text when its context is"
                " larger than "
                + key("rope.scaling.original_context_length") + ", "
                + std::to_string(count("rope.scaling.original_context_length"))
                + ", where the model takes them for texts longer than that");
    }

    void attention()
    {
        if (m_metadata.number(key("attention.clamp_kqv")).value_or(0.0) > 0.0 && m_architecture == "olmoe")
            ignored("attention.clamp_kqv", "does not limit queries, keys and values, which changes every result");
        if (const std::string *name = m_metadata.text(key("hidden_activation")); name != nullptr && isOther(*name))
            ignored("hidden_activation", "computes another activation than " + *name + ", which changes every result");
        for (const TensorInfo &tensor : m_model.tensors()) {
            const bool headNorm = tensor.name == "blk.0.attn_q_norm.0.weight";
            const bool phiNorm = m_architecture == "phi2" && tensor.name == "blk.0.attn_q_norm.weight";
            if (headNorm || phiNorm || tensor.name == "blk.0.attn_kv_a_mqa.bias")
                m_found.push_back("llama.cpp does not load " + m_architecture + " models with the tensor "
                                  + tensor.name);
        }
    }

    /// Not what the architecture computes by itself.
    [[nodiscard]] bool isOther(std::string_view name) const
    {
        constexpr std::array<std::string_view, 5> gelu = {"gemma", "gemma2", "gemma3", "phi2", "starcoder2"};
        return isOneOf(gelu) ? name != "gelu_new" && name != "gelu_pytorch_tanh" : name != "silu" && name != "swish";
    }

    const Checkpoint &m_model;
    const Metadata &m_metadata;
    std::string m_architecture;
    std::vector<std::string> m_found;
};

} // namespace

std::vector<std::string> limitsOfOtherReaders(const Checkpoint &model)
{
    return Limits(model).all();
}

} // namespace engine
