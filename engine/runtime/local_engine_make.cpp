// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/local_engine.h"

#include "engine/runtime/device_monitor.h"
#include "engine/runtime/loaded_model.h"
#include "engine/runtime/profile.h"
#include "engine/runtime/served_loaded_model.h"
#include "engine/runtime/worker/remote_model.h"

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

ModelLoader processLoader(ModelLoader own, std::vector<std::string> workerCommand)
{
    return [own = std::move(own), command = std::move(workerCommand)](
               const std::string &path, const EngineConfig &config, const LoadedModel::ProgressCallback &progress,
               std::stop_token stop) -> std::unique_ptr<ServedModel> {
        EngineConfig chosen = config;
        chosen.device = chosenDevice(config);
        const bool isGpu = chosen.device.starts_with("cuda:");
        if (config.process == DeviceProcess::Own
            || (config.process == DeviceProcess::Auto && (!isGpu || command.empty())))
            return own(path, config, progress, std::move(stop));
        if (command.empty())
            throw Error(ErrorCode::NoDevice,
                        "device " + chosen.device
                            + " was asked for in a process of its own, which this program cannot start");
        return openRemoteModel(path, chosen, progress, stop, command);
    };
}

std::unique_ptr<Engine> makeEngine(std::vector<std::string> workerCommand)
{
    const ModelLoader own = [](const std::string &path, const EngineConfig &config,
                               const LoadedModel::ProgressCallback &progress,
                               std::stop_token stop) -> std::unique_ptr<ServedModel> {
        return serveLoadedModel(path, config, progress, std::move(stop));
    };
    return std::make_unique<LocalEngine>(processLoader(own, std::move(workerCommand)), readDevices,
                                         [] { return cpuTemperature(); });
}

} // namespace engine
