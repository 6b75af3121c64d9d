// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include "engine/runtime/answer_grammars.h"
#include "engine/runtime/engine_probes.h"
#include "engine/runtime/local_engine_shared.h"
#include "engine/runtime/memory_rule.h"
#include "engine/runtime/prompt_encoder.h"
#include "engine/runtime/request_stream.h"
#include "engine/runtime/restart_rule.h"
#include "engine/runtime/sampler.h"
#include "engine/runtime/scheduler.h"
#include "engine/runtime/served_model.h"
#include "engine/runtime/step_pacer.h"
#include "engine/runtime/thermal_rule.h"

#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace engine {

/// The engine thread's work: takes commands, loads models, runs steps, sends events. All its state belongs to that
/// thread. Commands take effect in the order in which they were given; while a model loads, those that ask for
/// work wait for it, and steps of the old model go on between two tensors.
class EngineLoop {
public:
    EngineLoop(EngineShared &shared, ModelLoader loader, EngineProbes probes = {});
    ~EngineLoop();

    /// Works until `stop` is requested. Sleeps when there is nothing to do.
    void run(const std::stop_token &stop);

private:
    void takeCommands();
    void handlePending();
    void sleep(const std::stop_token &stop);

    void handle(LoadCommand &command);
    void handle(UnloadCommand &command);
    void handle(SubmitCommand &command);
    void handle(CancelCommand &command);
    void handle(SamplingCommand &command);
    void handle(LimitsCommand &command);
    void handle(RulesCommand &command);
    void handle(KvPoolCommand &command);
    void handle(ThreadsCommand &command);
    void handle(ContinueCommand &command);
    void handle(NudgeCommand &command);

    void loadProgress(double fraction, const std::string &stage);
    void workWhileLoading();
    void install(std::unique_ptr<ServedModel> model);
    void dropModel();
    bool submit(Submission &submission, RequestId leader = 0);
    void checkQueue(int promptTokens) const;
    void refuse(const Submission &submission, ErrorCode code, const std::string &message);
    void cancel(RequestId id);

    void growWindow();
    void changePool(const KvPoolCommand &command);
    void onIdle();
    void followTemperature();
    bool readMemory();
    void followMemory();
    void applied(std::uint64_t revision, std::string note);
    template<typename Change> [[nodiscard]] std::string tryChange(const Change &change);

    bool step();
    [[nodiscard]] int tokenCap() const;
    /// Why a batch could not be computed.
    struct StepFailure {
        ErrorCode code = ErrorCode::Internal;
        std::string message;
        bool isLost = false; ///< the device is
    };
    /// What is being caught, which is an exception. `withoutMemory`: what to say of std::bad_alloc.
    [[nodiscard]] static StepFailure currentFailure(std::string withoutMemory);
    /// Nothing when `work` comes to its end.
    template<typename Work, typename WithoutMemory>
    [[nodiscard]] static std::optional<StepFailure> failureOf(const Work &work, const WithoutMemory &withoutMemory)
    {
        try {
            work();
            return std::nullopt;
        } catch (const std::exception &) {
            return currentFailure(withoutMemory());
        }
    }
    template<typename Work> [[nodiscard]] static std::optional<StepFailure> failureOf(const Work &work)
    {
        return failureOf(work, [] { return std::string("not enough memory"); });
    }
    [[nodiscard]] std::optional<StepFailure> runBatch(const Batch &batch);
    void copyFailed(const Batch &batch, const StepFailure &failure);
    void retry(const Batch &batch, StepFailure failure);
    [[nodiscard]] bool relieve(RequestId id, const StepFailure &failure);
    [[nodiscard]] std::string shrink();
    // A device that is lost, in local_engine_faults.cpp.
    void loseDevice(const std::string &message);
    void followLoss();
    void giveDeviceUp(const std::string &message);
    void blame(const Batch &batch, const std::string &message);
    [[nodiscard]] std::optional<StepFailure> openAnew(const EngineConfig &config);
    void failAll(const std::string &message);
    void goOnWith(std::unique_ptr<ServedModel> model);
    [[nodiscard]] EngineConfig configFor(const std::string &device) const;
    /// Of all requests: it outlives every change of the device.
    [[nodiscard]] const Tokenizer &tokenizer() const { return (m_textModel ? *m_textModel : *m_model).tokenizer(); }
    /// Runs the batch and draws a token for each request that is due, on the device where that is possible.
    [[nodiscard]] std::span<const RowResult> runAndSample(const Batch &batch);
    void clearResults(std::size_t count);
    /// Calls use(request, sequence, logit row, result) for everybody whose next token is due; what it throws becomes
    /// the result's error, as it belongs to that request.
    template<typename Use> void forDue(const Batch &batch, Use use);
    [[nodiscard]] std::span<const std::uint64_t> allowedFor(RequestStream &stream, const Sequence &sequence);
    void take(RequestId id, Sampled &&sampled, RowResult &result);
    void publishStep(const Batch &batch, CommitResult &result, double started);
    void publishOutput(const CommitResult::Output &output, CommitResult &result);
    void failOutput(RequestId id, CommitResult &result, const std::string &message);
    [[nodiscard]] TokenEvent tokenEvent(const CommitResult::Output &output, RequestStream &stream, bool isEnd);
    void abandon(const Batch &batch, ErrorCode code, const std::string &message);
    void sendFinished(const FinishedSequence &finished, ErrorCode code = ErrorCode::Internal);

    void publishTotals();
    [[nodiscard]] MemoryUse memoryUse() const;
    void refreshBlockMap();
    void checkModelFile();
    void send(Event event) { m_outgoing.push_back(std::move(event)); }
    void flushEvents();
    [[nodiscard]] double now() const { return m_shared.clock.now(); }

    EngineShared &m_shared;
    ModelLoader m_loader;
    EngineProbes m_probes;
    std::deque<Command> m_pending; // taken from the mailbox, not handled yet
    std::vector<Event> m_outgoing;

    std::unique_ptr<ServedModel> m_model; // null: nothing is loaded; the next two are null with it
    std::unique_ptr<PromptEncoder> m_encoder;
    std::unique_ptr<Scheduler> m_scheduler;
    std::unordered_map<RequestId, RequestStream> m_streams; // of every request in the scheduler
    std::vector<RowResult> m_results;                       // of the step in hand, as the next
    std::unordered_map<RequestId, Sampled> m_sampled;       // where log-probabilities were asked for
    std::unique_ptr<AnswerGrammars> m_grammars;             // with the model
    EngineConfig m_asked;                                   // for the model
    std::unique_ptr<ServedModel> m_textModel; // of a lost device; its vocabulary is still that of all requests
    std::string m_lost;                       // why the device is of no use any more; else empty
    RestartRule m_restarts;
    std::optional<double> m_restartAt;           // when the lost device is opened anew
    std::unordered_map<RequestId, int> m_blamed; // alone in a step that lost the device, and its tokens then
    std::unordered_set<RequestId> m_relieved;    // for whose sake the pool was made smaller
    bool m_copiesFailed = false;                 // of the step before
    Sampler m_sampler;
    SamplingRequests m_requests; // of the step in hand, where the device samples
    StepPacer m_pacer;
    std::mt19937_64 m_seeds;

    std::optional<KvPoolCommand> m_restOfPool; // a pool that could not shrink as far as asked: when nothing runs
    ThermalRule m_thermal;
    MemoryRule m_memory;
    std::uint64_t m_temperatureReadings = 0; // seen
    bool m_wasIdle = true;
    EngineTotals m_totals; // counters and histograms since the load; gauges are filled in when it is published
    std::size_t m_availableBytes = 0;
    double m_nextMemoryReading = 0;
    bool m_loading = false;
    double m_lastStepEnd = 0;
    double m_lastProgress = 0;
    double m_nextFileCheck = 0;
    bool m_fileChangeTold = false;
    double m_nextMap = 0;
    bool m_mapIsOld = true;
};

} // namespace engine
