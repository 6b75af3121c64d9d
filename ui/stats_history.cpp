// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/stats_history.h"

#include "engine/api/parameters.h"
#include "ui/engine_client.h"
#include "ui/format.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace ui {

namespace {

constexpr qsizetype rememberedMarkers = 32;
constexpr double resortSeconds = 0.25;
constexpr double rateSeconds = 2;

double localSeconds()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What the effective values of two moments differ in, as far as it can change live.
QString changeText(const engine::EngineConfig &before, const engine::EngineConfig &after)
{
    QStringList changes;
    const auto changed = [&changes](const QString &name, const QString &from, const QString &to) {
        if (from != to)
            changes << QStringLiteral("%1 %2 → %3").arg(name, from, to);
    };
    const auto counted = [&changed](const QString &name, qint64 from, qint64 to) {
        changed(name, format::count(from), format::count(to));
    };
    const auto policy = [](engine::SchedulingPolicy value) {
        const std::string_view name = engine::findParameter("scheduling-policy")->choices[std::size_t(value)];
        return QString::fromUtf8(name.data(), qsizetype(name.size()));
    };
    const auto unlimited = [](qint64 value) {
        return value == 0 ? StatsHistory::tr("no limit") : format::count(value);
    };
    const auto switched = [](bool on) { return on ? StatsHistory::tr("on") : StatsHistory::tr("off"); };
    counted(StatsHistory::tr("block"), before.kv.blockTokens, after.kv.blockTokens);
    if (changes.isEmpty()) // a pool of other blocks has another number of them
        counted(StatsHistory::tr("blocks"), before.kv.numBlocks, after.kv.numBlocks);
    changed(StatsHistory::tr("prefix cache"), switched(before.kv.prefixCaching), switched(after.kv.prefixCaching));
    counted(StatsHistory::tr("sequences"), before.limits.maxNumSeqs, after.limits.maxNumSeqs);
    counted(StatsHistory::tr("batch tokens"), before.limits.maxNumBatchedTokens, after.limits.maxNumBatchedTokens);
    counted(StatsHistory::tr("threads"), before.threads, after.threads);
    changed(StatsHistory::tr("policy"), policy(before.policy), policy(after.policy));
    changed(StatsHistory::tr("reserve"), format::percent(before.admissionReserve),
            format::percent(after.admissionReserve));
    changed(StatsHistory::tr("queued requests"), unlimited(before.maxNumQueuedReqs), unlimited(after.maxNumQueuedReqs));
    changed(StatsHistory::tr("queued tokens"), unlimited(before.maxNumQueuedTokens),
            unlimited(after.maxNumQueuedTokens));
    return changes.join(QStringLiteral(", "));
}

QString noticeText(engine::EngineNotice::Kind kind)
{
    switch (kind) {
    case engine::EngineNotice::Kind::StepStalled:
        return StatsHistory::tr("step hangs");
    case engine::EngineNotice::Kind::StepResumed:
        return StatsHistory::tr("step goes on");
    case engine::EngineNotice::Kind::Overheated:
        return StatsHistory::tr("too hot");
    case engine::EngineNotice::Kind::Cooled:
        return StatsHistory::tr("cooled");
    case engine::EngineNotice::Kind::AuditFailed:
        return StatsHistory::tr("pool made anew");
    case engine::EngineNotice::Kind::MemoryShort:
        return StatsHistory::tr("memory short");
    case engine::EngineNotice::Kind::MemoryBack:
        return StatsHistory::tr("memory back");
    case engine::EngineNotice::Kind::PoolShrunk:
        return StatsHistory::tr("pool shrunk");
    case engine::EngineNotice::Kind::DeviceLost:
        return StatsHistory::tr("device lost");
    case engine::EngineNotice::Kind::DeviceReplaced:
        return StatsHistory::tr("other device");
    case engine::EngineNotice::Kind::GraphsOff:
        return StatsHistory::tr("no graphs");
    }
    return {};
}

} // namespace

StatsHistory::StatsHistory(EngineClient &client, QObject *parent)
    : QObject(parent)
    , m_client(client)
    , m_bins(std::size_t(binCount))
{
    connect(&client, &EngineClient::stepsTaken, this, &StatsHistory::take);
    connect(&client, &EngineClient::requestTaken, this, [this](const engine::RequestAccepted &accepted) {
        takeTime(accepted.arrivedAt);
        m_spans.accept(accepted, m_client.isGuest(accepted.id));
        emit changed();
    });
    connect(&client, &EngineClient::requestFinished, this, [this](quint64, const engine::RequestFinished &end) {
        m_spans.finish(end);
        emit changed();
    });
    connect(&client, &EngineClient::modelLoaded, this, [this](const engine::ModelInfo &info) {
        m_effective = info.effective;
        m_hasEffective = true;
        m_latencies.clear();
    });
    connect(&client, &EngineClient::parametersApplied, this, &StatsHistory::takeApplied);
    connect(&client, &EngineClient::noticed, this,
            [this](const engine::EngineNotice &notice) { addMarker({now(), noticeText(notice.kind), true}); });
}

double StatsHistory::now() const
{
    return m_hasClock ? std::max(m_last.time, localSeconds() - m_offset) : 0;
}

// What the engine tells reaches us some time later; the smallest delay seen is nearest to the truth.
void StatsHistory::takeTime(double engineSeconds)
{
    const double offset = localSeconds() - engineSeconds;
    m_offset = m_hasClock ? std::min(m_offset, offset) : offset;
    m_hasClock = true;
}

void StatsHistory::takeApplied(const engine::ParametersApplied &applied)
{
    const QString text = m_hasEffective ? changeText(m_effective, applied.effective) : QString();
    m_effective = applied.effective;
    if (!text.isEmpty())
        addMarker({now(), text, applied.revision == 0, applied.step > m_last.step ? applied.step : 0});
}

void StatsHistory::addMarker(const Marker &marker)
{
    m_markers.append(marker);
    if (m_markers.size() > rememberedMarkers)
        m_markers.removeFirst();
    emit changed();
}

void StatsHistory::take(const std::vector<engine::StepStats> &steps)
{
    for (const engine::StepStats &step : steps) {
        takeTime(step.time);
        takeStep(step);
    }
    emit changed();
}

void StatsHistory::takeStep(const engine::StepStats &step)
{
    ++m_steps;
    m_last = step;
    for (Marker &marker : m_markers) {
        if (marker.step != 0 && marker.step <= step.step) { // now its place is known
            marker.time = step.time - step.duration;
            marker.step = 0;
        }
    }
    spread(step.time - step.duration, step.time, step.decodeTokens, step.prefillTokens);
    if (Bin *bin = binAt(step.time)) {
        bin->running = std::max(bin->running, step.running);
        bin->waiting = std::max(bin->waiting, step.waiting);
        bin->kvUsed = step.blocksTotal > 0 ? float(step.blocksUsed) / float(step.blocksTotal) : 0;
    }
    for (const double ms : step.ttftMs)
        m_ttft.samples.push_back({step.time, float(ms)});
    for (const double ms : step.itlMs)
        m_itl.samples.push_back({step.time, float(ms)});
    m_spans.take(step);
    m_latencies.take(step, m_client);
}

// The tokens of a long step belong to all bins it lasted in, not to the one it ended in.
void StatsHistory::spread(double begin, double end, double decode, double prefill)
{
    begin = std::max({begin, 0.0, end - binCount * binSeconds});
    if (end - begin < 1e-9)
        begin = end - 1e-9;
    for (double at = begin; at < end;) {
        const double next = std::min(end, (std::floor(at / binSeconds + 1e-9) + 1) * binSeconds);
        const double share = (next - at) / (end - begin);
        if (Bin *bin = binAt((at + next) / 2)) {
            bin->decode += decode * share;
            bin->prefill += prefill * share;
        }
        at = next;
    }
}

// Bins between the newest and this one are cleared; null for a time that has left the ring.
StatsHistory::Bin *StatsHistory::binAt(double time)
{
    const auto index = qint64(std::floor(time / binSeconds));
    if (index < 0 || index <= m_newestBin - binCount)
        return nullptr;
    for (qint64 k = std::max(m_newestBin + 1, index - binCount + 1); k <= index; ++k)
        m_bins[std::size_t(k % binCount)] = Bin();
    m_newestBin = std::max(m_newestBin, index);
    return &m_bins[std::size_t(index % binCount)];
}

std::vector<float> StatsHistory::series(Figure figure, double seconds) const
{
    const int bins = std::clamp(int(seconds / binSeconds), 2, binCount - 1);
    std::vector<float> values(std::size_t(bins), 0.f);
    const auto current = qint64(std::floor(now() / binSeconds)); // left out: it is not full yet
    for (int i = 0; i < bins; ++i) {
        const qint64 k = current - bins + i;
        if (k < 0 || k > m_newestBin || k <= m_newestBin - binCount)
            continue;
        const Bin &bin = m_bins[std::size_t(k % binCount)];
        float &value = values[std::size_t(i)];
        switch (figure) {
        case Figure::DecodeRate:
            value = float(bin.decode / binSeconds);
            break;
        case Figure::PrefillRate:
            value = float(bin.prefill / binSeconds);
            break;
        case Figure::Running:
            value = float(bin.running);
            break;
        case Figure::Waiting:
            value = float(bin.waiting);
            break;
        case Figure::KvUsed:
            value = bin.kvUsed;
            break;
        }
    }
    return values;
}

// The running bin counts for the part of it that is over, so that the figure moves within half a second.
double StatsHistory::recentRate(double Bin::*figure) const
{
    const double time = now();
    const auto current = qint64(std::floor(time / binSeconds));
    const auto bins = qint64(rateSeconds / binSeconds);
    double tokens = 0;
    for (qint64 k = current - bins + 1; k <= current; ++k) {
        if (k >= 0 && k <= m_newestBin && k > m_newestBin - binCount)
            tokens += m_bins[std::size_t(k % binCount)].*figure;
    }
    const double elapsed = double(bins - 1) * binSeconds + (time - double(current) * binSeconds);
    return elapsed > 0 ? tokens / elapsed : 0;
}

Percentiles StatsHistory::percentiles(Latency &latency, double now)
{
    if (latency.sortedAt >= 0 && now - latency.sortedAt < resortSeconds)
        return latency.cached;
    latency.sortedAt = now;
    while (!latency.samples.empty() && latency.samples.front().time < now - latencySeconds)
        latency.samples.pop_front();
    std::vector<float> values;
    values.reserve(latency.samples.size());
    for (const Sample &sample : latency.samples)
        values.push_back(sample.value);
    latency.cached = percentilesOf(std::move(values));
    return latency.cached;
}

Percentiles StatsHistory::timeToFirstToken() const
{
    return percentiles(m_ttft, now());
}

Percentiles StatsHistory::interTokenGap() const
{
    return percentiles(m_itl, now());
}

std::vector<float> StatsHistory::gaps() const
{
    std::vector<float> values;
    for (const Sample &sample : m_itl.samples) {
        if (sample.time >= now() - latencySeconds)
            values.push_back(sample.value);
    }
    return values;
}

} // namespace ui
