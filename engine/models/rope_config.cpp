// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/models/rope_config.h"

#include "engine/models/config_limits.h"
#include "engine/models/config_reader.h"
#include "engine/text/utf8.h"

#include <cmath>

namespace engine {
namespace {

class ScalingReader {
public:
    ScalingReader(const ConfigReader &reader, const RopeKeys &keys, RopeConfig &rope)
        : m_reader(reader)
        , m_keys(keys)
        , m_rope(rope)
    {
    }

    void read();

private:
    [[nodiscard]] std::string key(const char *name) const { return m_keys.scaling + std::string(name); }
    [[nodiscard]] double positive(const char *name, double fallback) const
    {
        return m_reader.positive(key(name), fallback);
    }
    [[nodiscard]] std::string typeName() const;
    void readOriginalContext();
    void readYarn();
    void readLlama3();
    void readDynamic();
    void readLongRope();
    [[nodiscard]] std::vector<float> factors(const char *name) const;
    /// Source: Ding et al. 2024, arXiv:2402.13753, as transformers applies it.
    [[nodiscard]] double longRopeTemperature() const;

    const ConfigReader &m_reader;
    const RopeKeys &m_keys;
    RopeConfig &m_rope;
};

std::string ScalingReader::typeName() const
{
    if (m_keys.factorTensors && !m_reader.has(key("type")))
        return "longrope";
    // Old files give a factor alone, which is one of linear scaling; 0 stands for none.
    const double factor = m_reader.number(key("factor"), m_reader.number("rope.scale_linear", 0.0));
    return m_reader.text(key("type"), factor > 0.0 ? "linear" : "none");
}

void ScalingReader::read()
{
    const std::string type = typeName();
    if (type == "none")
        return;
    m_rope.factor = positive("factor", m_reader.positive("rope.scale_linear", 1.0));
    if (type == "linear") {
        m_rope.scaling = RopeScaling::Linear;
    } else if (type == "yarn") {
        readYarn();
    } else if (type == "llama3") {
        readLlama3();
    } else if (type == "dynamic") {
        readDynamic();
    } else if (type == "longrope") {
        readLongRope();
    } else {
        m_reader.refuse(key("type"), utf8::quoted(type),
                        "none, linear, dynamic, yarn, llama3 or longrope; other types are not supported");
    }
}

void ScalingReader::readOriginalContext()
{
    m_rope.originalContext =
        static_cast<int>(m_reader.count(key("original_context_length"), longestContext, m_keys.contextLength));
}

void ScalingReader::readYarn()
{
    m_rope.scaling = RopeScaling::Yarn;
    if (m_rope.base <= 1.0)
        m_reader.refuse("rope.freq_base", std::to_string(m_rope.base), "a number above 1 for yarn scaling");
    readOriginalContext();
    m_rope.attentionFactor = positive("attn_factor", 1.0);
    m_rope.attentionFactor = positive("yarn_attn_factor", m_rope.attentionFactor);
    m_rope.betaFast = positive("yarn_beta_fast", m_rope.betaFast);
    m_rope.betaSlow = positive("yarn_beta_slow", m_rope.betaSlow);
    m_rope.extrapolation = m_reader.number(key("yarn_ext_factor"), 1.0);
    if (m_rope.extrapolation < 0.0) // the format's way of saying "by the scaling type"
        m_rope.extrapolation = 1.0;
    m_rope.truncate = m_reader.flag(key("yarn_truncate"), true);
}

void ScalingReader::readLlama3()
{
    m_rope.scaling = RopeScaling::Llama3;
    readOriginalContext();
    m_rope.lowFrequencyFactor = positive("low_freq_factor", 1.0);
    m_rope.highFrequencyFactor = positive("high_freq_factor", 4.0);
    if (m_rope.highFrequencyFactor <= m_rope.lowFrequencyFactor)
        m_reader.refuse(key("high_freq_factor"), std::to_string(m_rope.highFrequencyFactor),
                        "more than low_freq_factor, which is " + std::to_string(m_rope.lowFrequencyFactor));
}

void ScalingReader::readDynamic()
{
    m_rope.scaling = RopeScaling::Dynamic;
    readOriginalContext();
    if (m_rope.factor < 1.0)
        m_reader.refuse(key("factor"), std::to_string(m_rope.factor), "at least 1 for dynamic scaling");
    if (m_rope.dimensions == 2)
        m_reader.refuse("rope.dimension_count", "2", "at least 4 for dynamic scaling");
}

std::vector<float> ScalingReader::factors(const char *name) const
{
    const std::vector<double> values = m_reader.positives(key(name));
    const auto pairs = static_cast<std::size_t>(m_rope.dimensions / 2);
    if (!values.empty() && values.size() != pairs)
        m_reader.refuse(key(name), "an array of " + std::to_string(values.size()),
                        std::to_string(pairs) + " numbers, one for each pair that rotates");
    return {values.begin(), values.end()};
}

double ScalingReader::longRopeTemperature() const
{
    const double growth = static_cast<double>(m_keys.contextLength) / m_rope.originalContext;
    if (growth <= 1.0 || m_rope.originalContext == 1)
        return 1.0;
    return std::sqrt(1.0 + std::log(growth) / std::log(static_cast<double>(m_rope.originalContext)));
}

void ScalingReader::readLongRope()
{
    m_rope.scaling = RopeScaling::LongRope;
    readOriginalContext();
    m_rope.attentionFactor = positive("attn_factor", longRopeTemperature());
    m_rope.shortFactors = factors("short_factors");
    m_rope.longFactors = factors("long_factors");
    if (m_rope.shortFactors.empty() != m_rope.longFactors.empty())
        m_reader.refuse(key(m_rope.shortFactors.empty() ? "short_factors" : "long_factors"), "absent",
                        "factors for short and for long sequences");
}

} // namespace

RopeVariants ropeVariants(const RopeConfig &rope)
{
    switch (rope.scaling) {
    case RopeScaling::LongRope:
        return {rope.originalContext, false};
    case RopeScaling::Dynamic:
        return {rope.originalContext, true};
    default:
        return {};
    }
}

void readRopeScaling(const ConfigReader &reader, const RopeKeys &keys, RopeConfig &rope)
{
    ScalingReader(reader, keys, rope).read();
}

RopeConfig readRope(const ConfigReader &reader, int headDim, const RopeKeys &keys, bool interleaved)
{
    RopeConfig rope;
    rope.base = reader.positive("rope.freq_base", 10000.0);
    rope.interleaved = reader.flag("rope.interleaved", interleaved);
    rope.dimensions = static_cast<int>(reader.count("rope.dimension_count", headDim, headDim));
    if (rope.dimensions % 2 != 0)
        reader.refuse("rope.dimension_count", std::to_string(rope.dimensions), "an even number");
    readRopeScaling(reader, keys, rope);
    return rope;
}

} // namespace engine
