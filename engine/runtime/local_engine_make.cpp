// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine.h"

#include "engine/runtime/device_monitor.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/profile.h"
#include "engine/runtime/served_loaded_model.h"

#include <cstdio>
#include <string>
#include <utility>

namespace engine {
namespace {

/// A LoadedModel as the serving loop sees it.
class ServedLoadedModel final : public ServedModel {
public:
    ServedLoadedModel(const std::string &path, const EngineConfig &config,
                      const LoadedModel::ProgressCallback &progress, std::stop_token stop,
                      const LoadedModel::OpsWrapper &wrap)
        : m_model(path, config, progress, std::move(stop), wrap)
    {
    }
    ServedLoadedModel(const ServedLoadedModel &) = delete;
    ServedLoadedModel &operator=(const ServedLoadedModel &) = delete;

    /// The report of `--profile` is due when the work is done.
    ~ServedLoadedModel() override
    {
        if (const Profile *profile = m_model.profile())
            (void)std::fputs(profile->report(m_model.info().layers).c_str(), stderr);
    }

    [[nodiscard]] const ModelInfo &info() const override { return m_model.info(); }
    [[nodiscard]] const Tokenizer &tokenizer() const override { return m_model.tokenizer(); }
    [[nodiscard]] const ChatTemplate *chatTemplate() const override { return m_model.chatTemplate(); }
    [[nodiscard]] StepExecutor &executor() override { return m_model.runner(); }
    std::string planKvPool(const KvPoolConfig &kv, std::int64_t leastTokens, KvPoolConfig &effective) const override
    {
        KvPoolPlan plan = m_model.planKvPool(kv, info().effective.limits, leastTokens);
        effective = m_model.effectiveKv(kv, plan);
        return plan.note;
    }
    void installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves) override
    {
        m_model.installKvPool(effective, moves);
    }
    std::string applyLimits(const BatchLimits &limits) override { return m_model.applyLimits(limits); }
    std::string applyRules(const AdmissionRules &rules) override
    {
        m_model.applyRules(rules);
        return {};
    }
    std::string applyThreads(int threads) override
    {
        m_model.applyThreads(threads);
        const int inForce = m_model.info().effective.threads;
        if (threads == 0 || threads == inForce)
            return {};
        return "asked for " + std::to_string(threads) + " threads, in force are " + std::to_string(inForce);
    }
    [[nodiscard]] std::string checkFileUnchanged() const override { return m_model.checkFileUnchanged(); }

private:
    LoadedModel m_model;
};

} // namespace

std::unique_ptr<ServedModel> serveLoadedModel(const std::string &path, const EngineConfig &config,
                                              const LoadedModel::ProgressCallback &progress, std::stop_token stop,
                                              const LoadedModel::OpsWrapper &wrap)
{
    return std::make_unique<ServedLoadedModel>(path, config, progress, std::move(stop), wrap);
}

std::unique_ptr<Engine> makeEngine()
{
    const ModelLoader loader = [](const std::string &path, const EngineConfig &config,
                                  const LoadedModel::ProgressCallback &progress,
                                  std::stop_token stop) -> std::unique_ptr<ServedModel> {
        return serveLoadedModel(path, config, progress, std::move(stop));
    };
    return std::make_unique<LocalEngine>(loader, readDevices, [] { return cpuTemperature(); });
}

} // namespace engine
