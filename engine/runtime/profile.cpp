// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/profile.h"

#include <algorithm>
#include <cstdio>
#include <vector>

namespace engine {
namespace {

using Clock = std::chrono::steady_clock;

/// Adds the time until the end of the scope.
class Timer {
public:
    Timer(Profile &profile, const char *operation)
        : m_profile(profile)
        , m_operation(operation)
    {
    }
    ~Timer() { m_profile.add(m_operation, std::chrono::duration<double>(Clock::now() - m_start).count()); }
    Timer(const Timer &) = delete;
    Timer &operator=(const Timer &) = delete;

private:
    Profile &m_profile;
    const char *m_operation;
    Clock::time_point m_start = Clock::now();
};

class ProfiledOps final : public kernels::Ops {
public:
    ProfiledOps(std::unique_ptr<kernels::Ops> ops, Profile &profile)
        : m_ops(std::move(ops))
        , m_profile(profile)
    {
    }

    [[nodiscard]] std::string_view name() const override { return m_ops->name(); }
    [[nodiscard]] std::string_view isa() const override { return m_ops->isa(); }
    [[nodiscard]] int threads() const override { return m_ops->threads(); }
    void setThreads(int threads) override { m_ops->setThreads(threads); }
    void useThreads(int used) override { m_ops->useThreads(used); }
    [[nodiscard]] int usedThreads() const override { return m_ops->usedThreads(); }
    [[nodiscard]] bool deterministic() const override { return m_ops->deterministic(); }
    [[nodiscard]] std::unique_ptr<kernels::Stream> makeStream() override { return m_ops->makeStream(); }
    [[nodiscard]] std::unique_ptr<kernels::Buffer> allocate(std::size_t bytes) override
    {
        return m_ops->allocate(bytes);
    }
    [[nodiscard]] std::unique_ptr<kernels::Buffer> allocateStaging(std::size_t bytes) override
    {
        return m_ops->allocateStaging(bytes);
    }
    [[nodiscard]] std::optional<std::size_t> freeOwnMemory() const override { return m_ops->freeOwnMemory(); }
    void transfer(const void *from, void *to, std::size_t bytes, kernels::Stream &stream) override
    {
        m_ops->transfer(from, to, bytes, stream);
    }
    [[nodiscard]] bool supportsKv(kernels::DType type) const override { return m_ops->supportsKv(type); }
    [[nodiscard]] bool supportsWeight(kernels::DType type) const override { return m_ops->supportsWeight(type); }
    [[nodiscard]] std::unique_ptr<kernels::PackedWeight> pack(std::span<const kernels::WeightPart> parts) override
    {
        return m_ops->pack(parts);
    }
    [[nodiscard]] bool keepsSource() const override { return m_ops->keepsSource(); }

    void embed(const kernels::PackedWeight &table, std::span<const int> ids, kernels::TensorView out,
               kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "embed");
        m_ops->embed(table, ids, out, stream);
    }
    void linear(const kernels::PackedWeight &weight, kernels::TensorView x, kernels::TensorView out, const float *bias,
                kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "linear");
        m_ops->linear(weight, x, out, bias, stream);
    }
    void linearAdd(const kernels::PackedWeight &weight, kernels::TensorView x, kernels::TensorView inout,
                   const float *bias, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "linearAdd");
        m_ops->linearAdd(weight, x, inout, bias, stream);
    }
    void linearGated(const kernels::PackedWeight &gateUp, kernels::Activation activation, kernels::TensorView x,
                     kernels::TensorView out, const float *bias, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "linearGated");
        m_ops->linearGated(gateUp, activation, x, out, bias, stream);
    }
    void linearHeads(std::span<const kernels::PackedWeight *const> weights, kernels::TensorView x,
                     kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "linearHeads");
        m_ops->linearHeads(weights, x, out, stream);
    }
    void activate(kernels::Activation activation, kernels::TensorView inout, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "activate");
        m_ops->activate(activation, inout, stream);
    }
    void rmsNorm(kernels::TensorView x, const float *weight, float epsilon, kernels::TensorView out,
                 kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "rmsNorm");
        m_ops->rmsNorm(x, weight, epsilon, out, stream);
    }
    void layerNorm(kernels::TensorView x, const float *weight, const float *bias, float epsilon,
                   kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "layerNorm");
        m_ops->layerNorm(x, weight, bias, epsilon, out, stream);
    }
    void zero(kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "zero");
        m_ops->zero(out, stream);
    }
    void copy(kernels::TensorView x, kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "copy");
        m_ops->copy(x, out, stream);
    }
    void add(kernels::TensorView x, kernels::TensorView inout, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "add");
        m_ops->add(x, inout, stream);
    }
    void gatedAdd(kernels::TensorView x, kernels::TensorView gate, kernels::TensorView inout,
                  kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "gatedAdd");
        m_ops->gatedAdd(x, gate, inout, stream);
    }
    void scale(kernels::TensorView inout, float factor, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "scale");
        m_ops->scale(inout, factor, stream);
    }
    void softCap(kernels::TensorView inout, float cap, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "softCap");
        m_ops->softCap(inout, cap, stream);
    }
    void clamp(kernels::TensorView inout, float limit, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "clamp");
        m_ops->clamp(inout, limit, stream);
    }
    void route(kernels::TensorView logits, const kernels::RouterShape &shape, kernels::TensorView ids,
               kernels::TensorView weights, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "route");
        m_ops->route(logits, shape, ids, weights, stream);
    }
    void expertsGated(std::span<const kernels::PackedWeight *const> gateUp, kernels::Activation activation,
                      kernels::TensorView x, kernels::TensorView ids, std::span<const float *const> bias,
                      kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "expertsGated");
        m_ops->expertsGated(gateUp, activation, x, ids, bias, out, stream);
    }
    void expertsCombine(std::span<const kernels::PackedWeight *const> down, kernels::TensorView inner,
                        kernels::TensorView ids, kernels::TensorView weights, std::span<const float *const> bias,
                        kernels::TensorView inout, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "expertsCombine");
        m_ops->expertsCombine(down, inner, ids, weights, bias, inout, stream);
    }
    void rope(kernels::TensorView heads, std::span<const int> positions, const kernels::RopeTable &table,
              kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "rope");
        m_ops->rope(heads, positions, table, stream);
    }
    void kvStore(kernels::TensorView k, kernels::TensorView v, const kernels::KvLayer &layer,
                 std::span<const int> slots, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "kvStore");
        m_ops->kvStore(k, v, layer, slots, stream);
    }
    void pagedAttention(kernels::TensorView q, const kernels::KvLayer &layer, const kernels::PagedBatch &batch,
                        const kernels::AttentionShape &shape, kernels::TensorView out, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "pagedAttention");
        m_ops->pagedAttention(q, layer, batch, shape, out, stream);
    }
    void gatherRows(kernels::TensorView x, std::span<const int> rows, kernels::TensorView out,
                    kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "gatherRows");
        m_ops->gatherRows(x, rows, out, stream);
    }
    void copyBlock(const kernels::KvLayer &layer, int from, int to, kernels::Stream &stream) override
    {
        const Timer timer(m_profile, "copyBlock");
        m_ops->copyBlock(layer, from, to, stream);
    }

private:
    std::unique_ptr<kernels::Ops> m_ops;
    Profile &m_profile;
};

std::string layerName(int layer, int layers)
{
    if (layer == Profile::before)
        return "embedding";
    return layer < layers ? "layer " + std::to_string(layer) : "output";
}

std::string line(const std::string &name, const Profile::Entry &entry, double total)
{
    char text[160];
    std::snprintf(text, sizeof text, "  %-16s %9lld calls %11.3f ms %6.1f %%\n", name.c_str(),
                  static_cast<long long>(entry.calls), entry.seconds * 1e3,
                  total > 0 ? entry.seconds / total * 100.0 : 0.0);
    return text;
}

void merge(Profile::Entry &into, const Profile::Entry &entry)
{
    into.calls += entry.calls;
    into.seconds += entry.seconds;
}

} // namespace

void Profile::add(const char *operation, double seconds)
{
    merge(m_entries[{m_layer, operation}], {1, seconds});
}

void Profile::addStep(double seconds)
{
    merge(m_steps, {1, seconds});
}

std::string Profile::report(int layers) const
{
    if (m_steps.calls == 0)
        return {};
    std::map<std::string, Entry> byOperation;
    std::map<int, Entry> byLayer;
    Entry inOperations;
    for (const auto &[key, entry] : m_entries) {
        merge(byLayer[key.first], entry);
        merge(byOperation[key.second], entry);
        merge(inOperations, entry);
    }
    std::vector<std::pair<std::string, Entry>> sorted(byOperation.begin(), byOperation.end());
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto &a, const auto &b) { return a.second.seconds > b.second.seconds; });

    std::string text = "time by operation\n";
    for (const auto &[name, entry] : sorted)
        text += line(name, entry, m_steps.seconds);
    text += line("between", {m_steps.calls, std::max(0.0, m_steps.seconds - inOperations.seconds)}, m_steps.seconds);
    text += line("all steps", m_steps, m_steps.seconds);
    text += "time by layer\n";
    for (const auto &[layer, entry] : byLayer)
        text += line(layerName(layer, layers), entry, m_steps.seconds);
    return text;
}

std::unique_ptr<kernels::Ops> profiled(std::unique_ptr<kernels::Ops> ops, Profile &profile)
{
    return std::make_unique<ProfiledOps>(std::move(ops), profile);
}

} // namespace engine
