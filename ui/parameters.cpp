// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/parameters.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ui {

namespace {

// One place where keys meet fields: reading and writing share it, so that neither can miss one. Returns whether the
// key was found.
template<typename Sampling, typename Visit> bool visitSampling(Sampling &sampling, std::string_view key, Visit visit)
{
    if (key == "temperature")
        visit(sampling.temperature);
    else if (key == "top-k")
        visit(sampling.topK);
    else if (key == "top-p")
        visit(sampling.topP);
    else if (key == "min-p")
        visit(sampling.minP);
    else if (key == "repetition-penalty")
        visit(sampling.repetitionPenalty);
    else if (key == "presence-penalty")
        visit(sampling.presencePenalty);
    else if (key == "frequency-penalty")
        visit(sampling.frequencyPenalty);
    else if (key == "max-tokens")
        visit(sampling.maxTokens);
    else
        return false;
    return true;
}

template<typename Config, typename Visit> bool visitConfig(Config &config, std::string_view key, Visit visit)
{
    if (key == "max-num-seqs")
        visit(config.limits.maxNumSeqs);
    else if (key == "max-num-batched-tokens")
        visit(config.limits.maxNumBatchedTokens);
    else if (key == "block-size")
        visit(config.kv.blockTokens);
    else if (key == "kv-cache-memory-bytes")
        visit(config.kv.budgetBytes);
    else if (key == "num-gpu-blocks-override")
        visit(config.kv.numBlocks);
    else if (key == "enable-prefix-caching")
        visit(config.kv.prefixCaching);
    else if (key == "scheduling-policy")
        visit(config.policy);
    else if (key == "admission-reserve")
        visit(config.admissionReserve);
    else if (key == "max-num-queued-reqs")
        visit(config.maxNumQueuedReqs);
    else if (key == "max-num-queued-tokens")
        visit(config.maxNumQueuedTokens);
    else if (key == "threads")
        visit(config.threads);
    else if (key == "max-model-len")
        visit(config.maxModelLen);
    else if (key == "memory-reserve")
        visit(config.memoryReserve);
    else
        return false;
    return true;
}

struct Reader {
    std::optional<double> &out;
    template<typename T> void operator()(const T &field) const { out = double(field); }
};

struct Writer {
    double value;
    void operator()(double &field) const { field = value; }
    void operator()(bool &field) const { field = value != 0; }
    void operator()(engine::SchedulingPolicy &field) const
    {
        field = engine::SchedulingPolicy(std::lround(std::fmax(0, std::fmin(value, 2))));
    }
    void operator()(std::int64_t &field) const { field = std::llround(std::fmax(-9e18, std::fmin(value, 9e18))); }
    void operator()(int &field) const
    {
        constexpr double most = std::numeric_limits<int>::max();
        field = int(std::lround(std::fmax(-most, std::fmin(value, most))));
    }
    void operator()(std::size_t &field) const
    {
        field = std::size_t(std::llround(std::fmin(std::fmax(0, value), 9e18)));
    }
};

} // namespace

std::optional<double> parameterValue(const engine::SamplingParams &sampling, std::string_view key)
{
    std::optional<double> value;
    visitSampling(sampling, key, Reader{value});
    return value;
}

std::optional<double> parameterValue(const engine::EngineConfig &config, std::string_view key)
{
    std::optional<double> value;
    visitConfig(config, key, Reader{value});
    return value;
}

bool setParameterValue(engine::SamplingParams &sampling, std::string_view key, double value)
{
    return visitSampling(sampling, key, Writer{value});
}

bool setParameterValue(engine::EngineConfig &config, std::string_view key, double value)
{
    return visitConfig(config, key, Writer{value});
}

engine::SamplingParams allowedSampling(const engine::SamplingParams &asked)
{
    engine::SamplingParams allowed = asked;
    for (const engine::ParameterSpec &spec : engine::parameterSpecs()) {
        const auto value = parameterValue(asked, spec.key);
        if (value && !engine::checkParameter(spec, *value).empty())
            setParameterValue(allowed, spec.key,
                              std::isnan(*value) ? spec.defaultValue : std::clamp(*value, spec.minimum, spec.maximum));
    }
    return allowed;
}

engine::SamplingParams suggestedSampling(engine::SamplingParams sampling, const engine::SuggestedSampling &suggested)
{
    sampling.temperature = suggested.temperature.value_or(sampling.temperature);
    sampling.topK = suggested.topK.value_or(sampling.topK);
    sampling.topP = suggested.topP.value_or(sampling.topP);
    sampling.minP = suggested.minP.value_or(sampling.minP);
    sampling.repetitionPenalty = suggested.repetitionPenalty.value_or(sampling.repetitionPenalty);
    return sampling;
}

} // namespace ui
