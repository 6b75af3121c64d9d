// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/serve/metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>
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

    void histogram(const char *stem, const char *help, const engine::Histogram &histogram)
    {
        ClientMetric metric = labelled();
        metric.histogram.sample_count = histogram.count;
        metric.histogram.sample_sum = histogram.sum;
        for (std::size_t i = 0; i < histogram.bounds.size(); ++i)
            metric.histogram.bucket.push_back({histogram.buckets[i], histogram.bounds[i]});
        metric.histogram.bucket.push_back({histogram.count, std::numeric_limits<double>::infinity()});
        add(stem, help, MetricType::Histogram, std::move(metric));
    }
    /// Several values of one name, told apart by a label.
    void labelled(const char *stem, const char *help, MetricType type, const char *label,
                  const std::vector<std::pair<const char *, double>> &values)
    {
        MetricFamily family{stem, help, type, {}};
        for (const auto &[word, value] : values) {
            ClientMetric metric = labelled();
            metric.label.push_back({label, word});
            (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
            family.metric.push_back(std::move(metric));
        }
        m_families.push_back(std::move(family));
    }
    /// A gauge of 1 whose labels are what there is to know.
    void info(const char *stem, const char *help, const std::vector<std::pair<const char *, std::string>> &labels)
    {
        ClientMetric metric = labelled();
        metric.gauge.value = 1;
        for (const auto &[name, value] : labels)
            metric.label.push_back({name, value});
        add(stem, help, MetricType::Gauge, std::move(metric));
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
        m_families.push_back({stem, help, type, {std::move(metric)}});
    }

    std::string m_model;
    std::vector<MetricFamily> m_families;
};

double finishedBy(const engine::EngineTotals &totals, engine::FinishReason reason)
{
    return static_cast<double>(totals.finished[static_cast<std::size_t>(reason)]);
}

void addGauges(Families &families, const engine::EngineTotals &totals)
{
    families.gauge("num_requests_running", "Requests that take part in steps.", totals.running);
    families.gauge("num_requests_waiting", "Requests that wait for a place.", totals.waiting);
    families.gauge("kv_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.", totals.kvUsage);
    families.gauge("kv_cache_blocks_total", "KV cache blocks.", totals.blocksTotal);
    families.gauge("kv_cache_blocks_used", "KV cache blocks that requests hold.",
                   totals.blocksTotal - totals.blocksFree);
    families.gauge("kv_cache_window_blocks_total", "KV cache blocks of layers that keep only a window.",
                   totals.windowBlocksTotal);
    families.gauge("kv_cache_window_blocks_used", "Of those, the ones that requests hold.",
                   totals.windowBlocksTotal - totals.windowBlocksFree);
    const engine::MemoryUse &memory = totals.memory;
    families.labelled("memory_bytes", "Where memory is.", MetricType::Gauge, "kind",
                      {{"weights", static_cast<double>(memory.weights)},
                       {"kv_used", static_cast<double>(memory.kvUsed)},
                       {"kv_cached", static_cast<double>(memory.kvCached)},
                       {"kv_free", static_cast<double>(memory.kvFree)},
                       {"workspace", static_cast<double>(memory.workspace)},
                       {"reserve", static_cast<double>(memory.reserve)}});
}

void addCounters(Families &families, const engine::EngineTotals &totals)
{
    using engine::FinishReason;
    const auto count = [&](const char *stem, const char *help, std::uint64_t value) {
        families.counter(stem, help, static_cast<double>(value));
    };
    count("num_preemptions_total", "Requests that lost their blocks to others and were computed again.",
          totals.preemptions);
    count("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", totals.prefixQueryTokens);
    count("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", totals.prefixHitTokens);
    families.counter("kv_cache_slot_seconds_total", "Token slots of the blocks that requests held, times seconds.",
                     totals.kvSlotSeconds);
    families.counter("kv_cache_empty_slot_seconds_total",
                     "Of those, slots without a token; their ratio is the KV waste.", totals.kvEmptySeconds);
    count("prompt_tokens_total", "Prompt tokens of requests that got a first token.", totals.promptTokens);
    count("generation_tokens_total", "Tokens made.", totals.generationTokens);
    families.labelled(
        "request_success_total", "Requests that have ended.", MetricType::Counter, "finished_reason",
        {{"stop", finishedBy(totals, FinishReason::Stop)},
         {"length", finishedBy(totals, FinishReason::Length) + finishedBy(totals, FinishReason::ContextFull)},
         {"abort", finishedBy(totals, FinishReason::Cancelled)},
         {"error", finishedBy(totals, FinishReason::Failed)}});
    families.labelled("admission_rejections_total", "Requests refused before they waited.", MetricType::Counter,
                      "reason", {{"queue_full", static_cast<double>(totals.refusedBusy)}});
}

void addHistograms(Families &families, const engine::LatencyHistograms &latencies)
{
    families.histogram("time_to_first_token_seconds", "Arrival to first token.", latencies.ttft);
    families.histogram("inter_token_latency_seconds", "Between two tokens of a request.", latencies.itl);
    families.histogram("request_time_per_output_token_seconds", "Mean time of a token after the first, by request.",
                       latencies.tpot);
    families.histogram("e2e_request_latency_seconds", "Arrival to last token.", latencies.e2e);
    families.histogram("request_queue_time_seconds", "Arrival to admission.", latencies.queue);
    families.histogram("request_prefill_time_seconds", "Admission to first token.", latencies.prefill);
    families.histogram("request_decode_time_seconds", "First token to last.", latencies.decode);
    families.histogram("request_inference_time_seconds", "Admission to last token.", latencies.inference);
    families.histogram("request_prompt_tokens", "Prompt tokens of a request.", latencies.promptTokens);
    families.histogram("request_prefill_kv_computed_tokens", "Prompt tokens of a request that were not cached.",
                       latencies.computedTokens);
    families.histogram("request_generation_tokens", "Tokens made for a request.", latencies.generationTokens);
    families.histogram("request_max_num_generation_tokens", "Tokens of the longest choice of a request.",
                       latencies.longestChoice);
    families.histogram("request_params_n", "Choices that a request asks for.", latencies.choices);
    families.histogram("request_params_max_tokens", "Most tokens that an answer may have.", latencies.askedTokens);
    families.histogram("iteration_tokens_total", "Tokens of a step.", latencies.stepTokens);
}

/// What boards that were made for earlier releases of vLLM ask for. Nothing is ever swapped here, so those are 0.
void addOlderNames(Families &families, const engine::EngineTotals &totals)
{
    families.histogram("time_per_output_token_seconds", "Between two tokens of a request.", totals.latencies.itl);
    families.gauge("gpu_cache_usage_perc", "Share of KV cache blocks in use, 0 to 1.", totals.kvUsage);
    families.gauge("cpu_cache_usage_perc", "Share of blocks that were swapped out, always 0.", 0);
    families.gauge("num_requests_swapped", "Requests that were swapped out, always 0.", 0);
    families.counter("gpu_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
                     static_cast<double>(totals.prefixQueryTokens));
    families.counter("gpu_prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
                     static_cast<double>(totals.prefixHitTokens));
}

} // namespace

std::string metricsText(const engine::EngineTotals &totals, const std::string &model,
                        const engine::EngineConfig &effective, bool vllmNames)
{
    Families families(model);
    addGauges(families, totals);
    addCounters(families, totals);
    addHistograms(families, totals.latencies);
    families.info("cache_config_info", "The KV cache as it was set up.",
                  {{"block_size", std::to_string(effective.kv.blockTokens)},
                   {"num_gpu_blocks", std::to_string(effective.kv.numBlocks)},
                   {"enable_prefix_caching", effective.kv.prefixCaching ? "True" : "False"}});
    std::vector<MetricFamily> all = families.withPrefix("lathe_");
    if (vllmNames) {
        addOlderNames(families, totals);
        std::vector<MetricFamily> copies = families.withPrefix("vllm:");
        all.insert(all.end(), copies.begin(), copies.end());
    }
    return prometheus::TextSerializer().Serialize(all);
}

} // namespace serve
