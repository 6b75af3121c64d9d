// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <utility>
#include <vector>

namespace serve {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// Collects families whose metrics carry the model's name.
class Families {
public:
    explicit Families(std::string model)
        : m_model(std::move(model))
    {
    }

    void gauge(const char *stem, const char *help, double value)
    {
        ClientMetric metric = labelled();
        metric.gauge.value = value;
        add(stem, help, MetricType::Gauge, std::move(metric));
    }
    void counter(const char *stem, const char *help, double value)
    {
        ClientMetric metric = labelled();
        metric.counter.value = value;
        add(stem, help, MetricType::Counter, std::move(metric));
    }

    [[nodiscard]] std::vector<MetricFamily> withPrefix(const std::string &prefix) const
    {
        std::vector<MetricFamily> families = m_families;
        for (MetricFamily &family : families)
            family.name = prefix + family.name;
        return families;
    }

private:
    [[nodiscard]] ClientMetric labelled() const
    {
        ClientMetric metric;
        metric.label = {{"model_name", m_model}, {"engine", "0"}};
        return metric;
    }
    void add(const char *stem, const char *help, MetricType type, ClientMetric metric)
    {
        MetricFamily family;
        family.name = stem;
        family.help = help;
        family.type = type;
        family.metric.push_back(std::move(metric));
        m_families.push_back(std::move(family));
    }

    std::string m_model;
    std::vector<MetricFamily> m_families;
};

} // namespace

std::string metricsText(const engine::EngineTotals &totals, const std::string &model,
                        const engine::EngineConfig & /*effective*/, bool vllmNames)
{
    Families families(model);
    const double blocks = totals.blocksTotal;
    families.gauge("kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.",
                   blocks > 0 ? (blocks - totals.blocksFree) / blocks : 0.0);
    families.counter("num_preemptions_total", "Requests that lost their blocks to others and were computed again.",
                     static_cast<double>(totals.preemptions));
    std::vector<MetricFamily> all = families.withPrefix("lathe_");
    if (vllmNames) {
        std::vector<MetricFamily> copies = families.withPrefix("vllm:");
        all.insert(all.end(), copies.begin(), copies.end());
    }
    return prometheus::TextSerializer().Serialize(all);
}

} // namespace serve
