// SPDX-License-Identifier: GPL-3.0-or-later
#include "engine/runtime/worker/remote_model.h"

#include "engine/models/model_files.h"
#include "engine/runtime/model_text.h"
#include "engine/runtime/worker/worker_channel.h"
#include "engine/runtime/worker/worker_process.h"
#include "kernels/device_lost.h"

#include <cstring>
#include <optional>
#include <utility>

namespace engine {

namespace {

/// Calls to a worker, one after the other.
class WorkerCalls {
public:
    WorkerCalls(std::string device, const std::vector<std::string> &command)
        : m_device(std::move(device))
        , m_process(std::make_unique<WorkerProcess>(command))
    {
    }

    /// \throws DeviceLost, or Error as the worker says
    template<typename... Values> WireReader operator()(WorkerCall call, const Values &...values)
    {
        start(call, values...);
        return WireReader(answer());
    }

    template<typename... Values> void start(WorkerCall call, const Values &...values)
    {
        if (!m_process)
            throw kernels::DeviceLost(m_lost);
        WireWriter out;
        out(values...);
        if (!m_process->channel().send(call, out.take()))
            lose();
    }

    /// The answer to what was started.
    std::vector<std::byte> answer() { return finish(m_process->channel().receive()); }

    /// The same; calls `meanwhile` all the time, with each message of progress or null.
    std::vector<std::byte> wait(const std::function<void(WorkerMessage *progress)> &meanwhile)
    {
        constexpr std::chrono::milliseconds pause(20);
        for (;;) {
            meanwhile(nullptr);
            if (!m_process->channel().waitReadable(pause))
                continue;
            std::optional<WorkerMessage> message = m_process->channel().receive();
            if (!message || message->call != WorkerCall::Progress)
                return finish(std::move(message));
            meanwhile(&*message);
        }
    }

private:
    std::vector<std::byte> finish(std::optional<WorkerMessage> message)
    {
        if (message && message->call == WorkerCall::Done)
            return std::move(message->bytes);
        if (!message || message->call != WorkerCall::Failed)
            lose();
        WireReader in(std::move(message->bytes));
        WorkerFailure failure;
        in(failure);
        if (!failure.isLost)
            throw Error(failure.code, failure.message);
        m_lost = failure.message;
        m_process.reset(); // its memory on the device is free from here on
        throw kernels::DeviceLost(m_lost);
    }

    [[noreturn]] void lose()
    {
        m_lost = "device " + m_device + " was lost, as its process ended " + m_process->end();
        m_process.reset();
        throw kernels::DeviceLost(m_lost);
    }

    std::string m_device;
    std::unique_ptr<WorkerProcess> m_process; // null: lost
    std::string m_lost;
};

class RemoteModel final : public ServedModel, private StepExecutor {
public:
    RemoteModel(const std::string &path, const EngineConfig &config, const LoadedModel::ProgressCallback &progress,
                const std::stop_token &stop, const std::vector<std::string> &command)
        : m_calls(std::make_unique<WorkerCalls>(config.device, command))
    {
        load(path, config, progress, stop);
        m_checkpoint = openModelFiles(path);
        m_tokenizer = openTokenizer(*m_checkpoint);
        openTemplate();
    }

    [[nodiscard]] const ModelInfo &info() const override { return m_info; }
    [[nodiscard]] const Tokenizer &tokenizer() const override { return *m_tokenizer; }
    [[nodiscard]] const ChatTemplate *chatTemplate() const override { return m_template ? &*m_template : nullptr; }
    [[nodiscard]] StepExecutor &executor() override { return *this; }
    [[nodiscard]] bool isRemote() const override { return true; }
    std::string planKvPool(const KvPoolConfig &kv, std::int64_t leastTokens, KvPoolConfig &effective) const override
    {
        std::string note;
        (*m_calls)(WorkerCall::PlanPool, kv, leastTokens)(effective, note);
        return note;
    }
    void installKvPool(const KvPoolConfig &effective, std::span<const SlotMove> moves) override
    {
        (*m_calls)(WorkerCall::InstallPool, effective, std::vector<SlotMove>(moves.begin(), moves.end()))(m_info);
    }
    std::string applyLimits(const BatchLimits &limits) override { return change(WorkerCall::Limits, limits); }
    std::string applyRules(const AdmissionRules &rules) override { return change(WorkerCall::Rules, rules); }
    std::string applyThreads(int threads) override { return change(WorkerCall::Threads, threads); }
    [[nodiscard]] std::string checkFileUnchanged() const override { return m_checkpoint->checkUnchanged(); }

private:
    void load(const std::string &path, const EngineConfig &config, const LoadedModel::ProgressCallback &progress,
              const std::stop_token &stop)
    {
        double fraction = 0.0;
        std::string stage = "starting a process for the device";
        try {
            m_calls->start(WorkerCall::Load, path, config);
            WireReader in(m_calls->wait([&](WorkerMessage *message) {
                if (message)
                    WireReader(std::move(message->bytes))(fraction, stage);
                if (stop.stop_requested())
                    throw Error(ErrorCode::Cancelled, path + ": loading was cancelled");
                if (progress)
                    progress(fraction, stage);
            }));
            in(m_info, m_facts);
        } catch (const kernels::DeviceLost &error) {
            throw Error(ErrorCode::NoDevice,
                        path + ": it was not loaded: " + error.what() + "; device cpu needs no such process");
        }
    }

    void openTemplate()
    {
        try {
            if (!m_info.chatTemplate.empty())
                m_template.emplace(m_info.chatTemplate);
        } catch (const Error &) {
            m_template.reset(); // the worker has warned of it
        }
    }

    template<typename Value> std::string change(WorkerCall call, const Value &value)
    {
        std::string note;
        (*m_calls)(call, value)(m_info, note);
        return note;
    }

    // StepExecutor.
    [[nodiscard]] int vocabSize() const override { return m_facts.vocabSize; }
    [[nodiscard]] RopeVariants ropeVariants() const override { return m_facts.ropeVariants; }
    [[nodiscard]] bool samples() const override { return m_facts.samples; }
    void resizeKv(const KvSizes &) override { CHECK(!"a worker's pool is changed by installKvPool"); }
    void repageKv(const KvSizes &, std::span<const SlotMove>) override
    {
        CHECK(!"a worker's pool is changed by installKvPool");
    }
    void reserve(int, int) override { CHECK(!"a worker's room for steps is changed by applyLimits"); }
    void setThreads(int threads) override { (void)applyThreads(threads); }
    [[nodiscard]] int threads() const override { return m_info.effective.threads; }
    void copyBlock(const BlockCopy &copy) override { (void)(*m_calls)(WorkerCall::CopyBlock, copy); }
    [[nodiscard]] kernels::TensorView run(const Batch &batch) override
    {
        m_calls->start(WorkerCall::Run, batch);
        m_logits = m_calls->answer();
        const auto rows = static_cast<std::int64_t>(m_logits.size() / sizeof(float)) / m_facts.vocabSize;
        return kernels::makeView(m_logits.data(), kernels::DType::F32, rows, m_facts.vocabSize);
    }
    [[nodiscard]] std::vector<Sampled> runAndSample(const Batch &batch, const SamplingRequests &requests) override
    {
        std::vector<Sampled> sampled;
        (*m_calls)(WorkerCall::RunAndSample, batch, requests)(sampled, m_notice);
        return sampled;
    }
    [[nodiscard]] std::string takeNotice() override { return std::exchange(m_notice, {}); }

    std::unique_ptr<WorkerCalls> m_calls;
    ModelInfo m_info;
    WorkerFacts m_facts;
    std::unique_ptr<Checkpoint> m_checkpoint;
    std::unique_ptr<Tokenizer> m_tokenizer;
    std::optional<ChatTemplate> m_template;
    std::vector<std::byte> m_logits; // of the last step
    std::string m_notice;
};

} // namespace

std::unique_ptr<ServedModel> openRemoteModel(const std::string &path, const EngineConfig &config,
                                             const LoadedModel::ProgressCallback &progress, const std::stop_token &stop,
                                             const std::vector<std::string> &command)
{
    return std::make_unique<RemoteModel>(path, config, progress, stop, command);
}

} // namespace engine
