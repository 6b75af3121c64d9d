// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/core/printable.h"
#include "engine/models/config_limits.h"
#include "engine/models/hf_translate.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace engine {
namespace {

/// Translates the scaling of one kind of layer. Meaning and defaults of the keys: transformers, modeling_rope_utils.
class RopeTranslator {
public:
    /// `parameters`: rope_scaling, or rope_parameters. `prefix`: "rope.scaling." or "rope.scaling_swa.".
    RopeTranslator(const HfConfig &config, const HfConfig &parameters, std::string prefix, HfKeys &keys)
        : m_config(config)
        , m_parameters(parameters)
        , m_prefix(std::move(prefix))
        , m_keys(keys)
    {
    }

    void translate()
    {
        const std::string type = typeName();
        if (type == "default" || type == "none")
            return;
        set("type", type);
        if (type == "linear")
            set("factor", positive("factor"));
        else if (type == "dynamic")
            dynamic();
        else if (type == "yarn")
            yarn();
        else if (type == "llama3")
            llama3();
        else if (type == "longrope")
            longRope();
        else
            m_parameters.refuse(m_parameters.has("rope_type") ? "rope_type" : "type", inQuotes(type),
                                "default, linear, dynamic, yarn, llama3 or longrope; other types are not supported");
    }

private:
    [[nodiscard]] std::string typeName() const
    {
        const std::string type = m_parameters.text("rope_type").value_or(m_parameters.text("type").value_or("default"));
        return type == "su" ? "longrope" : type; // the name in early Phi-3 files
    }
    void set(const char *key, MetadataValue value) { m_keys.set(m_prefix + key, std::move(value)); }
    [[nodiscard]] double positive(const char *key) const
    {
        const auto value = m_parameters.number(key);
        if (!value || *value <= 0)
            m_parameters.refuseValue(key, "a number above 0");
        return *value;
    }
    [[nodiscard]] double positiveOr(const char *key, double fallback) const
    {
        return m_parameters.has(key) ? positive(key) : fallback;
    }
    [[nodiscard]] std::int64_t contextLength() const
    {
        return m_config.count("max_position_embeddings", longestContext);
    }
    [[nodiscard]] std::int64_t originalContext() const
    {
        constexpr const char *key = "original_max_position_embeddings";
        return (m_parameters.has(key) ? m_parameters : m_config).count(key, longestContext, contextLength());
    }

    /// The base grows beyond max_position_embeddings, so the model goes on there.
    void dynamic()
    {
        const double factor = positive("factor");
        const std::int64_t trained = contextLength();
        set("factor", factor);
        set("original_context_length", trained);
        const double extended = std::floor(static_cast<double>(trained) * std::max(factor, 1.0));
        m_keys.set("context_length",
                   static_cast<std::int64_t>(std::min(extended, static_cast<double>(longestContext))));
    }

    void yarn()
    {
        const double factor = m_parameters.has("factor")
            ? positive("factor")
            : static_cast<double>(contextLength()) / static_cast<double>(originalContext());
        set("factor", factor);
        set("original_context_length", originalContext());
        set("attn_factor", yarnTemperature(factor) / temperature(factor, 1.0));
        set("yarn_beta_fast", positiveOr("beta_fast", 32.0));
        set("yarn_beta_slow", positiveOr("beta_slow", 1.0));
        set("yarn_truncate", m_parameters.boolean("truncate").value_or(true));
        if (const auto all = m_parameters.number("mscale_all_dim"))
            set("yarn_log_multiplier", 0.1 * *all); // as GGUF writes it
    }

    static double temperature(double factor, double scale)
    {
        return factor > 1.0 ? 0.1 * scale * std::log(factor) + 1.0 : 1.0;
    }
    /// What cosines and sines are multiplied by.
    [[nodiscard]] double yarnTemperature(double factor) const
    {
        if (m_parameters.has("attention_factor"))
            return positive("attention_factor");
        const double scale = m_parameters.number("mscale").value_or(0.0);
        const double all = m_parameters.number("mscale_all_dim").value_or(0.0);
        return scale != 0.0 && all != 0.0 ? temperature(factor, scale) / temperature(factor, all)
                                          : temperature(factor, 1.0);
    }

    void llama3()
    {
        set("factor", positive("factor"));
        set("low_freq_factor", positive("low_freq_factor"));
        set("high_freq_factor", positive("high_freq_factor"));
        set("original_context_length", originalContext());
    }

    void longRope()
    {
        set("original_context_length", originalContext());
        for (const auto &[from, to] :
             {std::pair{"short_factor", "short_factors"}, std::pair{"long_factor", "long_factors"}}) {
            if (!m_parameters.has(from))
                m_parameters.refuse(from, "missing", "a list of numbers");
            set(to, m_parameters.numbers(from).value());
        }
        if (m_parameters.has("attention_factor"))
            set("attn_factor", positive("attention_factor"));
        else if (m_parameters.has("factor"))
            set("attn_factor", longTemperature(positive("factor")));
    }
    /// Source: Ding et al. 2024, arXiv:2402.13753.
    [[nodiscard]] double longTemperature(double factor) const
    {
        const auto original = static_cast<double>(originalContext());
        return factor <= 1.0 || original <= 1.0 ? 1.0 : std::sqrt(1.0 + std::log(factor) / std::log(original));
    }

    const HfConfig &m_config;
    const HfConfig &m_parameters;
    std::string m_prefix;
    HfKeys &m_keys;
};

void setBase(const HfConfig &source, const char *key, const char *target, HfKeys &keys)
{
    const auto base = source.number(key);
    if (!base)
        return;
    if (*base <= 0)
        source.refuseValue(key, "a number above 0");
    keys.set(target, *base);
}

void setRotatingPart(const HfConfig &source, HfKeys &keys)
{
    const auto part = source.number("partial_rotary_factor");
    if (!part)
        return;
    if (*part <= 0 || *part > 1)
        source.refuseValue("partial_rotary_factor", "a number above 0 and at most 1");
    const auto headDim = keys.metadata().integer(keys.full("attention.key_length")).value_or(0);
    keys.set("rope.dimension_count", static_cast<std::int64_t>(static_cast<double>(headDim) * *part));
}

} // namespace

void translateRope(const HfConfig &config, HfKeys &keys)
{
    keys.set("rope.interleaved", false);
    setBase(config, "rope_theta", "rope.freq_base", keys);
    setBase(config, "rope_local_base_freq", "rope.freq_base_swa", keys);
    setRotatingPart(config, keys);
    const auto scaling = config.object("rope_scaling");
    if (scaling)
        RopeTranslator(config, *scaling, "rope.scaling.", keys).translate();
    const auto parameters = config.object("rope_parameters");
    if (!parameters)
        return;
    const auto global = parameters->object("full_attention");
    const auto local = parameters->object("sliding_attention");
    const HfConfig &common = global ? *global : *parameters;
    setBase(common, "rope_theta", "rope.freq_base", keys);
    setRotatingPart(common, keys);
    if (!scaling)
        RopeTranslator(config, common, "rope.scaling.", keys).translate();
    if (local) {
        setBase(*local, "rope_theta", "rope.freq_base_swa", keys);
        RopeTranslator(config, *local, "rope.scaling_swa.", keys).translate();
    }
}

} // namespace engine
